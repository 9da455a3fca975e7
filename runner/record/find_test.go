package record

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	for _, id := range []string{runB, runA, runC} {
		if err := startedIn(t, out, id).Close(); err != nil {
			t.Fatal(err)
		}
	}
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(kept, os.DirFS(filepath.Join(out, runA))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(out, "01JDB0B1C2D3E4F5G6H7J8K9MD"), 0o755); err != nil { // no journal: no run
		t.Fatal(err)
	}
	tests := map[string]struct{ name, want, says string }{
		"id":               {runB, filepath.Join(out, runB), ""},
		"unique start":     {"01JDB", filepath.Join(out, runC), ""},
		"in lower case":    {"01jdb", filepath.Join(out, runC), ""},
		"path":             {filepath.Join(out, runA), filepath.Join(out, runA), ""},
		"path of a copy":   {kept, kept, ""},
		"start of two":     {"01JDA", "", "start of 2 runs"},
		"none":             {"01ZZ", "", "harness runs"},
		"path that is not": {t.TempDir(), "", "harness runs"},
		"empty":            {"", "", "harness runs"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Find(out, tt.name)
			if got != tt.want || (err != nil) != (tt.says != "") {
				t.Fatalf("got %q, %v; wanted %q", got, err, tt.want)
			}
			if err != nil && (!errors.Is(err, ErrNoRun) || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%q does not say %q", err, tt.says)
			}
		})
	}
	if latest, err := Latest(out); err != nil || latest != filepath.Join(out, runC) {
		t.Errorf("the latest is %s, %v", latest, err)
	}
	if _, err := Latest(filepath.Join(out, "none")); !errors.Is(err, ErrNoRun) || !strings.Contains(err.Error(), "harness run PATH") {
		t.Errorf("without runs: %v", err)
	}
	if f, err := Open(kept); err != nil || f.ID() != runA {
		t.Errorf("a copy has id %v, %v", f, err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	if infos, err := List(out); err != nil || len(infos) != 0 {
		t.Errorf("without a directory: %v, %v", infos, err)
	}
	running := startedIn(t, out, runA)
	end(t, running, completed("a", 1))
	finished := startedIn(t, out, runB)
	end(t, finished, completed("a", 1))
	end(t, finished, completed("b", 1))
	if err := errors.Join(finished.RunEnded(RunEnded{ExitCode: 5}), finished.Close()); err != nil {
		t.Fatal(err)
	}
	if err := startedIn(t, out, runC).Close(); err != nil {
		t.Fatal(err)
	}
	damaged := "01JDC0B1C2D3E4F5G6H7J8K9MD"
	if err := startedIn(t, out, damaged).Close(); err != nil {
		t.Fatal(err)
	}
	overwrite(t, filepath.Join(out, damaged, "journal.jsonl"), []byte("x\ny\n"))

	infos, err := List(out)
	if err != nil || len(infos) != 4 {
		t.Fatalf("%d runs, %v", len(infos), err)
	}
	want := []struct {
		id    string
		state RunState
		ended int
	}{{damaged, RunUnreadable, 0}, {runC, RunUnfinished, 0}, {runB, RunFinished, 2}, {runA, RunRunning, 1}}
	for i, w := range want {
		got := infos[i]
		if got.ID != w.id || got.State != w.state || got.Ended != w.ended || (got.Err != nil) != (w.state == RunUnreadable) {
			t.Errorf("run %d is %+v, wanted %+v", i, got, w)
		}
		if (got.ExitCode != nil) != (w.state == RunFinished) {
			t.Errorf("run %d, which is %s, has exit code %v", i, got.State, got.ExitCode)
		}
	}
	if code := infos[2].ExitCode; code == nil || *code != 5 {
		t.Errorf("the exit code is %v, wanted 5", code)
	}
	resumed, err := Resume(filepath.Join(out, runB))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(resumed.RunStarted(RunStarted{}), resumed.Close()); err != nil {
		t.Fatal(err)
	}
	if infos, err := List(out); err != nil || infos[2].State != RunUnfinished || infos[2].ExitCode != nil {
		t.Errorf("resumed and died: %+v, %v", infos[2], err)
	}
}
