package runner_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/shared"
)

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestOutput_IsStoredWhole(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("\x00\xff line\n", 50_000)
	w := newWorld(t, cell("a", "fake:out", text, "fake:err", "oops", "fake:exit", "1"))
	r := w.one()
	want := &record.Stream{Bytes: int64(len(text)), Stored: int64(len(text)), SHA256: digest(text)}
	if diff := cmp.Diff(want, r.Stdout); diff != "" || w.stored("a", "stdout.log") != text {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
	if w.stored("a", "stderr.log") != "oops" {
		t.Error("stderr is not what was written")
	}
}

func TestOutput_LimitStoresLessThanWasProduced(t *testing.T) {
	t.Parallel()
	c := cell("a", "fake:out", "12345678", "fake:exit", "0")
	c.Cell.Limits = plan.Limits{OutputBytes: 5}
	w := newWorld(t, c)
	r := w.one()
	if !r.Status.Counts() || r.Stdout.Bytes != 8 || r.Stdout.Stored != 5 || w.stored("a", "stdout.log") != "12345" {
		t.Errorf("status %s, stdout %+v, stored %q", r.Status, r.Stdout, w.stored("a", "stdout.log"))
	}
}

func TestOutput_ThatIsNotWhatTheAdapterSaysIsABreach(t *testing.T) {
	t.Parallel()
	early := func(c call) error {
		if c.at == "cell" && !c.after {
			return c.sink(shared.Event{Kind: shared.EventStdout, Offset: 7, Data: []byte("early")})
		}
		return nil
	}
	ignored := func(c call) error { _ = early(c); return nil }
	for name, test := range map[string]struct {
		faults []string
		hook   func(call) error
	}{
		"short":                        {[]string{"cell lie:output"}, nil},
		"out of order":                 {nil, early},
		"out of order, and it went on": {nil, ignored},
		"more than it said that it was": {nil, func(c call) error {
			if c.at == "cell" && c.after {
				return c.sink(shared.Event{Kind: shared.EventStderr, Offset: 3, Data: []byte("late")})
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cell("a", "fake:out", strings.Repeat("x", 70_000), "fake:err", "yyy"))
			w.adapters.instances[here].faults, w.adapters.instances[here].hook = test.faults, test.hook
			r := w.one()
			wantStatus(t, r, "error passed=null cause=protocol")
			if r.Attempt != 1 {
				t.Errorf("it was tried %d times", r.Attempt)
			}
			w.wantClean()
		})
	}
}

// fillDisk lets every further write to an open file of this process fail with ENOSPC.
func fillDisk(t *testing.T, name string) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no device that is always full: %v", err)
	}
	defer full.Close()
	if !replaceOpen(t, name, full) {
		t.Errorf("%s is not open", name)
	}
}

func TestOutput_ThatCannotBeStoredIsAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cell("a", "fake:out", "text", "fake:exit", "0"))
	w.adapters.instances[here].hook = func(c call) error {
		if c.at == "cell" && !c.after {
			fillDisk(t, w.path("a", "stdout.log"))
		}
		return nil
	}
	r := w.one()
	wantStatus(t, r, "error passed=null cause=storage")
	if r.Attempt != 1 || !strings.Contains(r.Message, "no space left on device") || !strings.Contains(r.Message, "make room") {
		t.Errorf("attempt %d, message %q", r.Attempt, r.Message)
	}
	w.wantClean()
}

func TestRun_WhoseJournalIsLostReturnsAnErrorAndTearsDown(t *testing.T) {
	t.Parallel()
	cells := many(6, "fake:exit", "0")
	cells[1].Cell = step("fake:sleep", "1h")
	w := newWorld(t, cells...)
	w.plan.Run.Parallelism = 2
	w.adapters.instances[here].hook = func(c call) error {
		if c.at == "cell" && c.after && c.cell.Address == "t/c0" {
			return w.cfg.Folder.Close()
		}
		return nil
	}
	report, err := w.tryRun(t.Context())
	if err == nil || !strings.Contains(err.Error(), "journal") {
		t.Errorf("Run: %v, want an error of the journal", err)
	}
	if len(report.Results) != 2 {
		t.Errorf("%d cells were run, want the 2 that had begun", len(report.Results))
	}
	if left := w.adapters.instances[here].workspaces(t); len(left) > 0 {
		t.Errorf("workspaces left: %v", left)
	}
}

func TestPanic_IsAnErrorOfItsCellAlone(t *testing.T) {
	t.Parallel()
	for at, cause := range map[string]shared.Cause{
		"provision": shared.CauseProvision, "setup": shared.CauseSetup, "cell": shared.CauseAmbiguous,
		"collect": shared.CauseCollect, "verify": shared.CauseVerify,
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			cells := many(3)
			for i := range cells {
				setup := step("fake:exit", "0")
				cells[i].Setup, cells[i].Diff, cells[i].Verify = &setup, true, verify("fake:exit", "0")
			}
			w := newWorld(t, cells...)
			first := true
			w.adapters.instances[here].hook = func(c call) error {
				if c.at == at && first {
					first = false
					panic("out of cheese")
				}
				return nil
			}
			report := w.run(t.Context())
			wantStatus(t, report.Results[0], "error passed=null cause="+string(cause))
			if n := report.Results[0].Attempt; n != 1 {
				t.Errorf("it was tried %d times", n)
			}
			wantStatus(t, report.Results[1], "completed passed=true")
			wantStatus(t, report.Results[2], "completed passed=true")
			text := w.stored("c0", "result.json")
			if !strings.Contains(text, "out of cheese") || strings.Contains(text, "goroutine") || strings.Contains(text, ".go:") {
				t.Errorf("result.json does not name the panic, or holds its stack:\n%s", text)
			}
			if stack := w.stored("c0", "panic.txt"); !strings.Contains(stack, ".go:") {
				t.Errorf("panic.txt holds no stack: %q", stack)
			}
			w.wantClean()
		})
	}
}

func TestArtifacts_States(t *testing.T) {
	t.Parallel()
	c := cell("a", "fake:write", "out/x.json={}", "fake:write", "dir/in=1", "fake:write", "empty=", "fake:exit", "1")
	c.Artifacts, c.Diff = []string{"out/*.json", "dir", "empty", "none"}, true
	w := newWorld(t, c)
	r := w.one()
	wantStatus(t, r, "completed passed=false")
	want := []record.Artifact{
		{Path: "out/x.json", File: "artifacts/out/x.json", State: shared.ArtifactPresent, Bytes: 2, SHA256: digest("{}")},
		{Path: "dir", State: shared.ArtifactDirectory},
		{Path: "empty", File: "artifacts/empty", State: shared.ArtifactPresent, SHA256: digest("")},
		{Path: "none", State: shared.ArtifactMissing},
	}
	if diff := cmp.Diff(want, r.Artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	if got := w.stored("a", "artifacts/out/x.json"); got != "{}" {
		t.Errorf("stored %q", got)
	}
	if patch := w.stored("a", "diff.patch"); r.Diff == nil || r.Diff.SHA256 != digest(patch) || r.Diff.Bytes != int64(len(patch)) {
		t.Errorf("diff %+v does not fit the patch of %d bytes", r.Diff, len(patch))
	}
	w.wantClean()
}

func TestCollect_ThatFailsKeepsTheExitCode(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ fault, want string }{
		"an error":             {"collect error:collect", "error passed=null cause=collect"},
		"a digest that is not": {"collect lie:digest", "error passed=null cause=protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cell("a", "fake:write", "x=1", "fake:exit", "7")
			c.Artifacts = []string{"x"}
			w := newWorld(t, c)
			w.adapters.instances[here].faults = []string{test.fault}
			r := w.one()
			wantStatus(t, r, test.want)
			if r.ExitCode == nil || *r.ExitCode != 7 || r.Attempt != 1 {
				t.Errorf("exit code %v, attempt %d; want 7 and 1", r.ExitCode, r.Attempt)
			}
			if _, err := os.Stat(w.path("a", "artifacts/x")); !os.IsNotExist(err) {
				t.Errorf("the artifact is kept: %v", err)
			}
			w.wantClean()
		})
	}
}

const canary = "canary-7b1c93"

// secretWorld is a world of one cell that gets a secret in its environment.
func secretWorld(t *testing.T, c plan.Cell) *world {
	t.Helper()
	c.Cell.SecretEnv = []plan.SecretRef{{Name: "TOKEN", Source: "env", Args: []string{"TOKEN"}}}
	w := newWorld(t, c)
	w.secrets["TOKEN"] = canary
	return w
}

// wantNowhere checks that no file of the run holds the secret, in its content or its name.
func (w *world) wantNowhere() {
	w.t.Helper()
	err := filepath.WalkDir(w.cfg.Folder.Dir(), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		if strings.Contains(name, canary) || strings.Contains(string(b), canary) {
			w.t.Errorf("%s holds the secret", name)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestSecret_InOutputIsMaskedAndCounted(t *testing.T) {
	t.Parallel()
	w := secretWorld(t, cell("a", "fake:out", "<", "fake:env", "TOKEN", "fake:out", ">", "fake:env", "TOKEN"))
	r := w.one()
	wantStatus(t, r, "completed passed=true")
	if got := w.stored("a", "stdout.log"); got != "<***>***" {
		t.Errorf("stdout.log holds %q", got)
	}
	want := []plan.Notice{{Kind: string(shared.NoticeSecretMasked), Detail: "stdout", Count: 2}}
	if diff := cmp.Diff(want, r.Integrity); diff != "" {
		t.Errorf("integrity (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"TOKEN"}, r.Environment.Variables); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	w.wantNowhere()
}

func TestSecret_InOutputIsCountedWhenTheAdapterCrashes(t *testing.T) {
	t.Parallel()
	w := secretWorld(t, cell("a", "fake:env", "TOKEN"))
	w.plan.Cells[0].Attempts = 1
	w.adapters.instances[here].hook = dieAt("cell", true, 1)
	r := w.one()
	wantStatus(t, r, "error passed=null cause=adapter_crashed")
	if len(r.Integrity) != 1 || r.Integrity[0].Count != 1 {
		t.Errorf("integrity %v, want one secret that was masked", r.Integrity)
	}
	w.wantNowhere()
}

func TestSecret_InArtifactOrPatchIsRefused(t *testing.T) {
	t.Parallel()
	c := cell("a", "fake:write", "leak.txt=my "+canary, "fake:write", canary+".txt=harmless", "fake:write", "fine=1")
	c.Artifacts, c.Diff = []string{"leak.txt", "can*.txt", "fine"}, true
	c.Cell.Entrypoint = append(c.Cell.Entrypoint, "fake:exit", "0")
	w := secretWorld(t, c)
	r := w.one()
	wantStatus(t, r, "completed passed=true")
	var got []string
	for _, a := range r.Artifacts {
		got = append(got, strings.Join([]string{a.Path, string(a.State), a.Detail, a.File}, " "))
	}
	want := []string{
		"leak.txt refused secret ", "***.txt refused secret ", "fine present  artifacts/fine", "__diff__ refused secret ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	if r.Diff != nil || len(r.Integrity) != 3 {
		t.Errorf("diff %v, integrity %v; want no diff and three notices", r.Diff, r.Integrity)
	}
	w.wantNowhere()
}

func TestSecret_InMessagesIsMasked(t *testing.T) {
	t.Parallel()
	w := secretWorld(t, cell("a"))
	w.adapters.instances[here].hook = failing("cell", &shared.Error{
		Code: shared.CodePrecondition, Message: "cannot start: TOKEN=" + canary,
	})
	r := w.one()
	if !strings.Contains(r.Message, "TOKEN=***") {
		t.Errorf("message %q", r.Message)
	}
	w.wantNowhere()
}

func TestSecret_ThatCannotBeHadIsAnErrorOfAuth(t *testing.T) {
	t.Parallel()
	w := secretWorld(t, cell("a"))
	delete(w.secrets, "TOKEN")
	r := w.one()
	wantStatus(t, r, "error passed=null cause=auth")
	if r.Attempt != 1 || !strings.Contains(r.Message, "TOKEN") {
		t.Errorf("attempt %d, message %q", r.Attempt, r.Message)
	}
	w.wantClean()
}
