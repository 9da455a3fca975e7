package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/journal"
	"cellharness/runner/plan"
	"cellharness/shared"
)

const (
	runA = "01JDA0B1C2D3E4F5G6H7J8K9MA"
	runB = "01JDA0B1C2D3E4F5G6H7J8K9MB"
	runC = "01JDB0B1C2D3E4F5G6H7J8K9MC"
)

// started makes the folder of a run in a fresh results directory.
func started(t *testing.T) *Folder {
	t.Helper()
	return startedIn(t, filepath.Join(t.TempDir(), "out"), runA)
}

func startedIn(t *testing.T, resultsDir, id string) *Folder {
	t.Helper()
	f, err := Create(resultsDir, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := f.WriteRun(Run{Name: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := f.RunStarted(RunStarted{Harness: "0.1.0", PID: os.Getpid(), Argv: []string{"harness", "run"}}); err != nil {
		t.Fatal(err)
	}
	return f
}

// end gives a cell one attempt that ends with the result.
func end(t *testing.T, f *Folder, r Result) {
	t.Helper()
	if r.Attempt > 0 {
		if _, err := f.Attempt(r.Key, r.Attempt); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.End(r); err != nil {
		t.Fatal(err)
	}
}

func completed(key string, attempt int) Result {
	exit, passed, number := int64(0), true, json.Number("1.25")
	return Result{
		Cell: "x/t/" + key + "#1", Key: key, Trial: "x", Task: "t", Variant: key, Repeat: 1, Attempt: attempt, Last: true,
		Adapter: "here", AdapterVersion: "0.1.0", Status: shared.StatusCompleted, ExitCode: &exit, Passed: &passed,
		Phases:  map[string]Phase{"cell": {Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Seconds: 1.5}},
		Metrics: map[string]*json.Number{"cost": &number, "none": nil}, Cleanup: CleanupClean,
	}
}

// tree holds every file below dir with its content, the lock of the journal left out.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".lock") {
			return err
		}
		data, err := os.ReadFile(path)
		name, relErr := filepath.Rel(dir, path)
		files[name] = string(data)
		return errors.Join(err, relErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestCreateLaysOutTheFolder(t *testing.T) {
	t.Parallel()
	f := started(t)
	for _, name := range []string{"blobs", "adapters", "cells", "journal.jsonl", "results.jsonl", "run.json"} {
		if _, err := os.Stat(filepath.Join(f.Dir(), name)); err != nil {
			t.Error(err)
		}
	}
	if f.ID() != runA || filepath.Base(f.Dir()) != runA || f.AdapterLogDir() != filepath.Join(f.Dir(), "adapters") {
		t.Errorf("id %s, folder %s, logs %s", f.ID(), f.Dir(), f.AdapterLogDir())
	}
}

// Not parallel: it needs a current directory of its own.
func TestCreateWithoutResultsDir(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	f := startedIn(t, "", runA)
	if want := filepath.Join(".harness", "runs", runA); f.Dir() != want {
		t.Errorf("the folder is %s, wanted %s", f.Dir(), want)
	}
	ignore, err := os.ReadFile(filepath.Join(dir, ".harness", ".gitignore"))
	if err != nil || string(ignore) != "*\n" {
		t.Errorf(".gitignore holds %q, %v", ignore, err)
	}
	startedIn(t, "", runB)
	if latest, err := Latest(""); err != nil || latest != filepath.Join(".harness", "runs", runB) {
		t.Errorf("the latest is %s, %v", latest, err)
	}
}

func TestCreateRefusesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		results func(t *testing.T, dir string) string
		says    string
	}{
		"missing parent": {func(t *testing.T, dir string) string { return filepath.Join(dir, "no", "out") }, "no such file"},
		"a file": {func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "out")
			overwrite(t, path, nil)
			return path
		}, "not a directory"},
		"below a file": {func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "f")
			overwrite(t, path, nil)
			return filepath.Join(path, "out")
		}, "not a directory"},
		"read-only": {func(t *testing.T, dir string) string {
			if os.Geteuid() == 0 {
				t.Skip("permissions do not bind root")
			}
			path := filepath.Join(dir, "out")
			if err := os.Mkdir(path, 0o555); err != nil {
				t.Fatal(err)
			}
			return path
		}, "permission denied"},
		"run exists": {func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "out")
			startedIn(t, path, runA)
			return path
		}, "exists"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			results := tt.results(t, dir)
			before := tree(t, dir)
			_, err := Create(results, runA)
			var unwritable *UnwritableError
			if !errors.As(err, &unwritable) || unwritable.Path != results {
				t.Fatalf("got %v, wanted an *UnwritableError for %s", err, results)
			}
			for _, part := range []string{results, tt.says, "--results-dir"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
				t.Errorf("it left something:\n%s", diff)
			}
		})
	}
	if _, err := Create(t.TempDir(), "../x"); err == nil {
		t.Error("an id that is no ULID is taken")
	}
}

func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	f := started(t)
	if err := f.Discard(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	begun := started(t)
	if err := begun.LeaseOpened(LeaseOpened{Lease: "l"}); err != nil {
		t.Fatal(err)
	}
	if err := begun.Discard(); err == nil || !strings.Contains(err.Error(), "has begun") {
		t.Errorf("a run with a lease was discarded: %v", err)
	}
}

func TestReaderRecordsNothing(t *testing.T) {
	t.Parallel()
	f := started(t)
	reader, err := Open(f.Dir())
	if err != nil {
		t.Fatal(err)
	}
	before := tree(t, f.Dir())
	_, attemptErr := reader.Attempt("a", 1)
	_, eventsErr := reader.Events()
	for name, err := range map[string]error{
		"End": reader.End(completed("a", 1)), "RunEnded": reader.RunEnded(RunEnded{}), "WriteRun": reader.WriteRun(Run{}),
		"WritePlan": reader.WritePlan(&plan.Plan{}, nil), "Attempt": attemptErr, "Events": eventsErr, "Discard": reader.Discard(),
	} {
		if err == nil || !strings.Contains(err.Error(), "opened for reading") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(before, tree(t, f.Dir())); diff != "" {
		t.Error(diff)
	}
}

func TestResumePutsRightWhatAKillLeft(t *testing.T) {
	t.Parallel()
	f := started(t)
	end(t, f, completed("a", 1))
	end(t, f, completed("b", 1))
	killed, err := f.Attempt("c", 1)
	if err != nil {
		t.Fatal(err)
	}
	events, err := f.Events()
	if err != nil {
		t.Fatal(err)
	}
	_, err = events.Write([]byte("{\"seq\":1}\n{\"se"))
	out, createErr := killed.Create("stdout.log")
	if err := errors.Join(err, events.Close(), createErr, out.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	overwrite(t, filepath.Join(f.Dir(), ".run.json123"), []byte("{"))
	overwrite(t, filepath.Join(f.Dir(), "cells", "a", "1", ".result.json123"), []byte("{"))
	journalPath := filepath.Join(f.Dir(), "journal.jsonl")
	whole, err := os.ReadFile(journalPath)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, journalPath, whole[:len(whole)-20]) // the end of b

	again, err := Resume(f.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Torn() == nil || again.Torn().File != journalPath+".torn-1" {
		t.Errorf("torn: %+v", again.Torn())
	}
	if results, err := again.Results(); err != nil || len(results) != 1 || results[0].Key != "a" {
		t.Errorf("results %v, %v", results, err)
	}
	if stale, err := again.Stale(); err != nil || len(stale) > 0 {
		t.Errorf("stale: %v, %v", stale, err)
	}
	end(t, again, completed("b", 1))
	if _, err := again.Attempt("c", 1); err != nil {
		t.Error(err)
	}
	files := tree(t, f.Dir())
	if files["events.jsonl"] != "{\"seq\":1}\n" {
		t.Errorf("events: %q", files["events.jsonl"])
	}
	for name := range files {
		if strings.Contains(name, "123") {
			t.Errorf("%s is left", name)
		}
	}
	if _, ok := files["cells/c/1.abandoned-1/stdout.log"]; !ok {
		t.Error("the output of the attempt that was killed is gone")
	}
	if err := again.End(completed("a", 1)); err == nil {
		t.Error("an attempt that had ended before the resume was ended again")
	}
}

func TestDamagedJournalChangesNothing(t *testing.T) {
	t.Parallel()
	f := started(t)
	end(t, f, completed("a", 1))
	end(t, f, completed("b", 1))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(f.Dir(), "journal.jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[bytes.IndexByte(data, '\n')+30] ^= 1
	overwrite(t, path, data)
	overwrite(t, filepath.Join(f.Dir(), "results.jsonl"), []byte("torn"))
	before := tree(t, f.Dir())

	_, resumeErr := Resume(f.Dir())
	reader, err := Open(f.Dir())
	if err != nil {
		t.Fatal(err)
	}
	_, resultsErr := reader.Results()
	for name, err := range map[string]error{"Resume": resumeErr, "Rebuild": reader.Rebuild(), "Results": resultsErr} {
		var corrupt *journal.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Line != 2 || corrupt.Path != path {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(before, tree(t, f.Dir())); diff != "" {
		t.Error(diff)
	}
}

func TestRunJSON(t *testing.T) {
	t.Parallel()
	f := started(t)
	p := &plan.Plan{Name: "compare", Run: plan.Settings{Parallelism: 2, Order: plan.OrderRandom, Seed: 7}, Adapters: []plan.Adapter{{
		Instance: "cloud", Kind: "daytona", Profile: "team", Version: "0.1.0", Digest: "d",
		Secrets: []plan.SecretRef{{Name: "api_key", Source: "env", Args: []string{"KEY"}}}, Base: "b",
	}}}
	run := NewRun(RunSpec{
		ID: runA, Plan: p, Args: []string{"harness", "run"}, Dir: "/x", Harness: "0.1.0", Go: "go1.26",
		Protocol: 1, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	})
	if run.Machine.CPUs < 1 || run.Machine.OS == "" || run.Name != "compare" || len(run.Adapters) != 1 || run.Seed != 7 {
		t.Errorf("got %+v", run)
	}
	if err := f.WriteRun(run); err != nil {
		t.Fatal(err)
	}
	read, err := f.ReadRun()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(run, read); diff != "" {
		t.Error(diff)
	}
	overwrite(t, filepath.Join(f.Dir(), "run.json"), []byte(`{"schema":99,"run":7}`))
	if _, err := f.ReadRun(); err == nil || !strings.Contains(err.Error(), "schema 99") || !strings.Contains(err.Error(), "up to 1") {
		t.Errorf("newer schema: %v", err)
	}
	if got := memTotal([]byte("MemFree: 1 kB\nMemTotal:       2048 kB\n")); got != 2<<20 {
		t.Errorf("memory is %d", got)
	}
}

func TestEventsAreAppended(t *testing.T) {
	t.Parallel()
	f := started(t)
	for range 2 {
		w, err := f.Events()
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Write([]byte("{}\n"))
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if got := tree(t, f.Dir())["events.jsonl"]; got != "{}\n{}\n" {
		t.Errorf("got %q", got)
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"plain é\n":      "plain é\n",
		"\xff\xfe\x00a":  "\\xff\\xfe\x00a",
		"cut \xe2\x82":   `cut \xe2\x82`,
		"\xc3(":          `\xc3(`,
		"real \ufffd":    "real \ufffd",
		"\xed\xa0\x80":   `\xed\xa0\x80`,
		"":               "",
		"é\xffé":         `é\xffé`,
		"\xf0\x9f\x98x€": `\xf0\x9f\x98x€`,
	}
	for in, want := range tests {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%q) is %q, wanted %q", in, got, want)
		}
	}
}
