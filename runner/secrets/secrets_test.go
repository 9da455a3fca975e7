package secrets

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/plan"
	"cellharness/shared"
)

const canary = "canary-0123456789abcdef"

func TestResolve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"KEY": canary, "EMPTY": "", "TWO": canary + "\n" + canary}[name]
		return value, ok
	}
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script, "sh", canary} }
	const shell = `secret::exec(["/bin/sh", ...])`
	tests := map[string]struct {
		source string
		args   []string
		want   string // the value
		err    string // what follows the source
	}{
		"env":              {"env", []string{"KEY"}, canary, ""},
		"env unset":        {"env", []string{"NOKEY"}, "", `secret::env("NOKEY"): the variable is not set; export it`},
		"env empty":        {"env", []string{"EMPTY"}, "", `secret::env("EMPTY"): it is empty`},
		"env of two lines": {"env", []string{"TWO"}, "", `secret::env("TWO"): it has more than one line; a secret is a single line`},

		"file":                  {"file", []string{file("plain", canary, 0o600)}, canary, ""},
		"file with newline":     {"file", []string{file("newline", canary+"\n", 0o644)}, canary, ""},
		"file with CR newline":  {"file", []string{file("crlf", canary+"\r\n", 0o600)}, canary, ""},
		"file missing":          {"file", []string{dir + "/none"}, "", `secret::file("` + dir + `/none"): no such file or directory`},
		"file that is a folder": {"file", []string{dir}, "", `secret::file("` + dir + `"): it is a folder`},
		"file that is a pipe":   {"file", []string{fifo}, "", `secret::file("` + fifo + `"): it is not a regular file`},
		"file too large": {
			"file",
			[]string{file("large", strings.Repeat(canary, 4000), 0o600)},
			"",
			`secret::file("` + dir + `/large"): it has more than 65536 bytes, and so is no secret`,
		},
		"file empty": {"file", []string{file("empty", "\n", 0o600)}, "", `secret::file("` + dir + `/empty"): it is empty`},
		"file of two lines": {
			"file",
			[]string{file("two", canary+"\n\n", 0o600)},
			"",
			`secret::file("` + dir + `/two"): it has more than one line; a secret is a single line`,
		},
		"file with NUL": {
			"file",
			[]string{file("nul", canary+"\x00", 0o600)},
			"",
			`secret::file("` + dir + `/nul"): it holds a NUL byte, which no environment and no header can carry`,
		},

		"exec":               {"exec", sh(`echo "$1"; echo chatter >&2`), canary, ""},
		"exec with nothing":  {"exec", sh(`:`), "", shell + `: it is empty`},
		"exec of two lines":  {"exec", sh(`echo "$1"; echo "$1"`), "", shell + `: it has more than one line; a secret is a single line`},
		"exec fails":         {"exec", sh(`echo locked >&2; exit 3`), "", shell + `: exit status 3; it says on stderr "locked"`},
		"exec fails, silent": {"exec", sh(`exit 3`), "", shell + `: exit status 3`},
		"exec fails, echoing": {
			"exec", sh(`echo "$1"; echo "bad key $1" >&2; exit 3`), "",
			shell + `: exit status 3; what it says on stderr holds the secret and is not shown`,
		},
		"exec fails, echoing in base64": {
			"exec", sh(`echo "$1"; echo ` + base64.StdEncoding.EncodeToString([]byte(canary)) + ` >&2; exit 3`), "",
			shell + `: exit status 3; what it says on stderr holds the secret and is not shown`,
		},
		"exec killed":      {"exec", sh(`kill -9 $$`), "", shell + `: signal: killed`},
		"exec floods":      {"exec", sh(`head -c 1000000 /dev/zero`), "", shell + `: it says more than 65536 bytes, and so no secret`},
		"exec missing":     {"exec", []string{"/no/such/program", canary}, "", `secret::exec(["/no/such/program", ...]): no such file or directory`},
		"exec reads stdin": {"exec", sh(`read x || echo "$1"`), canary, ""},

		"unknown source": {"vault", []string{"x"}, "", `secret::vault("x"): there is no source "vault"`},
		"no argument":    {"env", nil, "", `secret::env: the reference names nothing`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref := plan.SecretRef{Name: "api_key", Source: test.source, Args: test.args}
			got, err := Resolve(t.Context(), ref, env)
			if got.Reveal() != test.want {
				t.Errorf("Resolve() = %q, want %q", got.Reveal(), test.want)
			}
			if test.err == "" {
				if err != nil {
					t.Errorf("Resolve() failed: %v", err)
				}
				return
			}
			if !errors.Is(err, &shared.Error{Code: shared.CodeUnauthenticated, Cause: shared.CauseAuth}) {
				t.Fatalf("Resolve() failed with %#v, want CodeUnauthenticated, CauseAuth", err)
			}
			if diff := cmp.Diff("the secret api_key, from "+test.err, err.Error()); diff != "" {
				t.Errorf("Resolve(), -want +got:\n%s", diff)
			}
			if all := fmt.Sprintf("%v %+v %#v", err, err, errors.Unwrap(err)); strings.Contains(all, canary) {
				t.Errorf("the error holds the secret: %s", all)
			}
		})
	}
}

func TestFromExec_Hangs(t *testing.T) {
	t.Parallel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	argv := []string{"/bin/sh", "-c", `echo waiting for a touch >&2; sleep 60 & echo $! >"$1"; wait`, "sh", pidFile}
	began := time.Now()
	_, err := fromExec(t.Context(), argv, 500*time.Millisecond)
	if err == nil || err.Error() != `it said nothing within 500ms and was ended; it says on stderr "waiting for a touch"` {
		t.Errorf("fromExec() failed with %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("fromExec() took %s", took)
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(5 * time.Second)
	for !ended(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d of the program's group goes on", pid)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestResolve_Cancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := Resolve(ctx, plan.SecretRef{Name: "k", Source: "exec", Args: []string{"sleep", "60"}}, os.LookupEnv)
	if !errors.Is(err, shared.ErrCancelled) {
		t.Errorf("Resolve() = %v, want CodeCancelled", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Resolve() took %s", took)
	}
}

// ended tells whether a process is gone or a zombie.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}
