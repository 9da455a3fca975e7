package adaptertest

import (
	"context"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"cellharness/shared"
)

// quickPrefix begins the words of commands that the fake interprets without a process.
const quickPrefix = "fake:"

// runQuick interprets a command of the words that Fake lists.
func runQuick(ctx context.Context, w *workspace, cell shared.Cell, out *output) (shared.Result, error) {
	started := time.Now()
	q := quick{w: w, cell: cell, out: out, deadline: started.Add(cell.Timeout)}
	result, err := q.run(ctx)
	if err != nil {
		return shared.Result{}, err
	}
	since(&result, started)
	out.finish(&result)
	if out.lies["exit_code"] && result.ExitCode != nil {
		result.ExitCode = new(int64)
	}
	return result, nil
}

type quick struct {
	w        *workspace
	cell     shared.Cell
	out      *output
	deadline time.Time
}

func (q quick) run(ctx context.Context) (shared.Result, error) {
	argv := q.cell.Argv
	if len(argv)%2 != 0 {
		return shared.Result{}, precondition(fmt.Sprintf("the word %q has no argument", argv[len(argv)-1]))
	}
	for i := 0; i < len(argv); i += 2 {
		end, err := q.word(ctx, strings.TrimPrefix(argv[i], quickPrefix), argv[i+1])
		if err != nil {
			return shared.Result{}, err
		}
		if end != nil {
			return *end, nil
		}
	}
	return exited(0), nil
}

// word does one word. The result is nil unless the command ends here.
func (q quick) word(ctx context.Context, word, arg string) (*shared.Result, error) {
	switch word {
	case "out":
		q.out.take(shared.EventStdout, []byte(arg))
		return nil, nil
	case "err":
		q.out.take(shared.EventStderr, []byte(arg))
		return nil, nil
	case "env":
		q.out.take(shared.EventStdout, []byte(q.variable(arg)))
		return nil, nil
	case "signal":
		q.out.signal(arg)
		return &shared.Result{Status: shared.StatusCompleted, Signal: arg}, nil
	case "exit":
		code, err := strconv.ParseInt(arg, 10, 64)
		if err != nil {
			return nil, precondition("fake:exit wants a number: " + err.Error())
		}
		r := exited(code)
		return &r, nil
	case "sleep":
		return q.sleep(ctx, arg)
	case "write":
		return nil, q.write(arg)
	case "cat":
		return q.cat(arg)
	}
	return nil, precondition(fmt.Sprintf("there is no word %q; Fake lists them", quickPrefix+word))
}

func (q quick) variable(name string) string {
	if secret, ok := q.cell.SecretEnv[name]; ok {
		return secret.Reveal()
	}
	return q.cell.Env[name]
}

func (q quick) sleep(ctx context.Context, arg string) (*shared.Result, error) {
	d, err := time.ParseDuration(arg)
	if err != nil {
		return nil, precondition("fake:sleep wants a duration: " + err.Error())
	}
	left := time.Until(q.deadline)
	if pause(ctx, min(d, left)) != nil {
		return nil, endedBy(ctx)
	}
	if d < left || q.out.lies["timeout"] {
		return nil, nil
	}
	q.out.signal("TERM")
	return &shared.Result{Status: shared.StatusTimedOut, Signal: "TERM"}, nil
}

func (q quick) write(arg string) error {
	name, text, _ := strings.Cut(arg, "=")
	return q.inside(func(root *os.Root) error {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		return root.WriteFile(name, []byte(text), 0o644)
	})
}

func (q quick) cat(name string) (*shared.Result, error) {
	var data []byte
	err := q.inside(func(root *os.Root) (err error) {
		data, err = root.ReadFile(name)
		return err
	})
	if err != nil {
		q.out.take(shared.EventStderr, []byte(err.Error()+"\n"))
		r := exited(1)
		return &r, nil
	}
	q.out.take(shared.EventStdout, data)
	return nil, nil
}

// inside does something to the files of the workspace, and to no other.
func (q quick) inside(do func(*os.Root) error) error {
	root, err := os.OpenRoot(q.w.tree())
	if err != nil {
		return internal("open the workspace", err)
	}
	defer root.Close()
	if err := do(root); err != nil {
		return precondition("in the workspace: " + err.Error())
	}
	return nil
}
