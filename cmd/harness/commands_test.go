package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"cellharness/runner/record"
)

// waitBound is how long a script waits for something to happen. It is reached only when the thing never happens.
const waitBound = 60 * time.Second

// commands are what the scripts can say beside testscript's own.
func commands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"repo":        makeRepo,
		"fields":      fields,
		"waitfor":     waitFor,
		"signal":      sendSignal,
		"gone":        gone,
		"none":        none,
		"exits":       exits,
		"fingerprint": fingerprint,
		"killadapter": killAdapter,
		"stored":      stored,
		"applies":     applies,
	}
}

// makeRepo DIR makes a repository with one commit of the files that lie in DIR.
func makeRepo(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	for _, argv := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "--allow-empty", "-m", "base"}} {
		ts.Check(ts.Exec("git", append([]string{"-C", dir}, argv...)...))
	}
}

// fields RESULTS FILTER... prints chosen fields of every ended attempt, sorted, one line each: `fields out cell status`.
func fields(ts *testscript.TestScript, _ bool, args []string) {
	lines := []string{}
	for _, line := range results(ts, args[0]) {
		var r map[string]any
		ts.Check(json.Unmarshal(line, &r))
		var parts []string
		for _, name := range args[1:] {
			b, err := json.Marshal(r[name])
			ts.Check(err)
			parts = append(parts, strings.Trim(string(b), `"`))
		}
		lines = append(lines, strings.Join(parts, " "))
	}
	slices.Sort(lines)
	fmt.Fprintln(ts.Stdout(), strings.Join(lines, "\n"))
}

func results(ts *testscript.TestScript, dir string) [][]byte {
	names, err := filepath.Glob(filepath.Join(ts.MkAbs(dir), "*", "results.jsonl"))
	ts.Check(err)
	var lines [][]byte
	for _, name := range names {
		b, err := os.ReadFile(name)
		ts.Check(err)
		s := bufio.NewScanner(bytes.NewReader(b))
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			lines = append(lines, append([]byte(nil), s.Bytes()...))
		}
		ts.Check(s.Err())
	}
	return lines
}

// waitFor FILE [N] waits until N files match the pattern FILE and have something in them.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	want := 1
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		want = n
	}
	deadline := time.Now().Add(waitBound)
	for time.Now().Before(deadline) {
		names, err := filepath.Glob(ts.MkAbs(args[0]))
		ts.Check(err)
		full := 0
		for _, name := range names {
			if info, err := os.Stat(name); err == nil && info.Size() > 0 {
				full++
			}
		}
		if full >= want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	ts.Fatalf("%s: fewer than %d of them within %s", args[0], want, waitBound)
}

// sendSignal NAME FILE sends a signal to the process whose number is in FILE.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(syscall.Kill(pidIn(ts, args[1]), signalNamed(ts, args[0])))
}

func signalNamed(ts *testscript.TestScript, name string) syscall.Signal {
	switch name {
	case "INT":
		return syscall.SIGINT
	case "TERM":
		return syscall.SIGTERM
	case "KILL":
		return syscall.SIGKILL
	case "QUIT":
		return syscall.SIGQUIT
	}
	ts.Fatalf("%s is no signal that scripts send", name)
	return 0
}

// killAdapter PATTERN [SIGNAL] ends, by SIGKILL where no other is named, the adapter process above the cell whose
// number is in the first file that matches: the parent of its supervisor.
func killAdapter(ts *testscript.TestScript, _ bool, args []string) {
	sig := syscall.SIGKILL
	if len(args) > 1 {
		sig = signalNamed(ts, args[1])
	}
	names, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	supervisor := parent(ts, pidIn(ts, names[0]))
	adapter := parent(ts, supervisor)
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", adapter))
	ts.Check(err)
	if filepath.Base(exe) != "localworktree" {
		ts.Fatalf("process %d above the cell is %s", adapter, exe)
	}
	ts.Check(syscall.Kill(adapter, sig))
}

func parent(ts *testscript.TestScript, pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	ts.Check(err)
	_, rest, _ := strings.Cut(string(b), ") ")
	ppid, err := strconv.Atoi(strings.Fields(rest)[1])
	ts.Check(err)
	return ppid
}

func pidIn(ts *testscript.TestScript, name string) int {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(name)))
	ts.Check(err)
	if pid <= 1 {
		ts.Fatalf("%s holds %d, which no script signals", name, pid)
	}
	return pid
}

// gone FILE... waits until the processes whose numbers are in the files are gone.
func gone(ts *testscript.TestScript, _ bool, args []string) {
	for _, pattern := range args {
		names, err := filepath.Glob(ts.MkAbs(pattern))
		ts.Check(err)
		if len(names) == 0 {
			ts.Fatalf("no file matches %s", pattern)
		}
		for _, name := range names {
			waitGone(ts, name)
		}
	}
}

// none PATTERN... checks that no file matches. The command exists does not know patterns.
func none(ts *testscript.TestScript, _ bool, args []string) {
	for _, pattern := range args {
		names, err := filepath.Glob(ts.MkAbs(pattern))
		ts.Check(err)
		if len(names) > 0 {
			ts.Fatalf("there are %s", strings.Join(names, ", "))
		}
	}
}

// goneBound is the promise that nothing outlives the harness by more than 2 seconds, times three for slow machines.
const goneBound = 6 * time.Second

func waitGone(ts *testscript.TestScript, name string) {
	pid := pidIn(ts, name)
	deadline := time.Now().Add(goneBound)
	for time.Now().Before(deadline) {
		if !alive(pid) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	ts.Fatalf("process %d of %s is alive after %s", pid, name, goneBound)
}

// alive tells whether a process exists and is no zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(b), ") ")
	return ok && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// exits CODE PROGRAM ARG... runs a program and checks its exit code. Its output goes to stdout and stderr as exec's.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s exited with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// fingerprint DIR FILE writes what must stay the same in a repository: every file below its git directory but the
// access times, and the work tree.
func fingerprint(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	var out strings.Builder
	ts.Check(filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		if d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = record.Printable(string(b))
		}
		fmt.Fprintf(&out, "%s %s %d %s\n", strings.TrimPrefix(path, dir), info.Mode(), info.ModTime().UnixNano(), content)
		return nil
	}))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(out.String()), 0o600))
}
