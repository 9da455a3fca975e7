package adaptertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cellharness/shared"
	"cellharness/shared/wire"
)

// commandCases hold what is true of how a command is started and what it gets.
func commandCases() []testCase {
	return []testCase{
		{"exit_code", testExitCode},
		{"signal", testSignal},
		{"missing_program", testMissingProgram},
		{"argv", testArgv},
		{"program_of_the_workspace", testOwnProgram},
		{"env", testEnv},
		{"env_of_the_host", testHostEnv},
		{"stdin_none", testStdinNone},
		{"stdin_exact", testStdinExact},
		{"stdin_unread", testStdinUnread},
		{"wall_time", testWallTime},
	}
}

func testExitCode(t *testing.T, b *bench) {
	w := b.provision(t)
	for _, want := range []int64{0, 1, 3, 124, 126, 127, 137, 255} {
		w.run(sh(fmt.Sprintf("exit %d", want))).wantExit(t, want)
	}
}

func testSignal(t *testing.T, b *bench) {
	w := b.provision(t)
	for _, want := range []string{"KILL", "TERM", "SEGV"} {
		o := w.run(sh("kill -" + want + " $$"))
		if o.Status != shared.StatusCompleted || o.Signal != want || o.ExitCode != nil {
			t.Errorf("a command that was ended by %s: status %s, signal %q, exit code %s", want, o.Status, o.Signal, code(o.ExitCode))
		}
	}
}

func testMissingProgram(t *testing.T, b *bench) {
	w := b.provision(t)
	for _, program := range []string{"no-such-program-anywhere", "./no-such-program", "/no/such/program"} {
		o, err := w.try(within(t), cell(program, "x"))
		wantError(t, program, err, shared.ErrPrecondition, shared.ErrInvalid, shared.ErrNotFound)
		if err != nil && !strings.Contains(err.Error(), program) {
			t.Errorf("the error %q does not name %s", err, program)
		}
		if len(o.out)+len(o.err) > 0 {
			t.Errorf("%s wrote %q and %q", program, o.out, o.err)
		}
	}
}

func testArgv(t *testing.T, b *bench) {
	w := b.provision(t)
	args := []string{"a b", "", `c"d'e`, "*", "$HOME", "`id`", `\`, "-n", "x\ny", "\xff\xfe", "; exit 9"}
	o := w.run(cell(append([]string{"sh", "-c", `printf '<%s>' "$@"`, "sh"}, args...)...))
	o.wantExit(t, 0)
	o.wantOutput(t, "<"+strings.Join(args, "><")+">", "")
}

func testOwnProgram(t *testing.T, b *bench) {
	w := b.provision(t)
	w.script(`mkdir bin && printf '#!/bin/sh\necho mine "$@"\n' > bin/tool && chmod +x bin/tool`)
	o := w.run(cell("./bin/tool", "x"))
	o.wantExit(t, 0)
	o.wantOutput(t, "mine x\n", "")
}

func testEnv(t *testing.T, b *bench) {
	w := b.provision(t)
	c := sh(`printf '<%s>' "$ONE" "$EMPTY" "$LINES_OF" "$ODD" "$SECRET" "${EMPTY+set}" "${UNSET-unset}"`)
	c.Env = map[string]string{"ONE": "a b", "EMPTY": "", "LINES_OF": "x\ny\n", "ODD": `"$ONE" 'x' \ ü` + "\xff"}
	c.SecretEnv = map[string]shared.Secret{"SECRET": shared.NewSecret("hush \"hush\"\n$ONE")}
	o := w.run(c)
	o.wantExit(t, 0)
	want := []string{c.Env["ONE"], "", c.Env["LINES_OF"], c.Env["ODD"], c.SecretEnv["SECRET"].Reveal(), "set", "unset"}
	o.wantOutput(t, "<"+strings.Join(want, "><")+">", "")

	// The next command in the same workspace has none of it.
	w.script(`test -z "${ONE+set}${SECRET+set}"`)
}

func testHostEnv(t *testing.T, b *bench) {
	w := b.provision(t)
	o := w.script("env")
	for line := range strings.SplitSeq(string(o.out), "\n") {
		name, _, _ := strings.Cut(line, "=")
		cookie := wire.Handshake().MagicCookieKey
		if name == canaryName || name == cookie || strings.HasPrefix(name, "PLUGIN_") || strings.HasPrefix(name, "GIT_") {
			t.Errorf("the command sees the variable %s", name)
		}
	}
	for name, value := range b.cfg.Environment {
		o := w.run(sh(`printf %s "$` + name + `"`))
		o.wantOutput(t, value, "")
	}
	if len(b.cfg.Environment) == 0 {
		return
	}
	for name := range b.cfg.Environment {
		if name == "PATH" {
			continue // the command would not be found
		}
		c := sh(`printf %s "$` + name + `"`)
		c.Env = map[string]string{name: "of the cell"}
		w.run(c).wantOutput(t, "of the cell", "")
	}
}

func testStdinNone(t *testing.T, b *bench) {
	w := b.provision(t)
	o := w.run(sh("cat; echo end"))
	o.wantExit(t, 0)
	o.wantOutput(t, "end\n", "")
}

func testStdinExact(t *testing.T, b *bench) {
	w := b.provision(t)
	for _, data := range [][]byte{{}, []byte("no line end"), noise(1 << 20)} {
		c := cell("cat")
		stdin := content(data)
		c.Stdin = &stdin
		o := w.run(c)
		o.wantExit(t, 0)
		if digest(o.out) != digest(data) {
			t.Errorf("%d bytes with the digest %s came back, want %d with %s", len(o.out), digest(o.out), len(data), digest(data))
		}
	}
}

func testStdinUnread(t *testing.T, b *bench) {
	w := b.provision(t)
	c := sh("exit 5")
	stdin := content(noise(1 << 20))
	c.Stdin = &stdin
	o := w.run(c)
	o.wantExit(t, 5)
	if o.took > soon {
		t.Errorf("a command that reads nothing took %s", o.took)
	}
}

func testWallTime(t *testing.T, b *bench) {
	w := b.provision(t)
	o := w.script("sleep 0.5")
	// The command may have run for a moment when its start is noticed.
	if o.Wall < 450*time.Millisecond {
		t.Errorf("sleep 0.5 took %s", o.Wall)
	}
}
