package state_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/state"
)

// ownerOf, in the environment of the test binary, makes it print the owner of a state directory with the mark that
// it would mint.
const (
	ownerOf = "STATE_TEST_DIR"
	mark    = "STATE_TEST_MARK"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(ownerOf)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := state.Open(dir)
	if err == nil {
		var owner string
		owner, err = s.Owner(func() string { return os.Getenv(mark) })
		fmt.Println(owner)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func open(t *testing.T) (*state.State, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func TestDir(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env  map[string]string
		want string
	}{
		"of XDG":               {map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/harness"},
		"of the home":          {map[string]string{"HOME": "/h"}, "/h/.local/state/harness"},
		"XDG that is relative": {map[string]string{"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/harness"},
		"nowhere":              {nil, ""},
	} {
		got, err := state.Dir(func(name string) (string, bool) { v, ok := test.env[name]; return v, ok })
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, test.want)
		}
	}
}

func TestOwner_IsMintedOnceByRacingGoroutines(t *testing.T) {
	t.Parallel()
	_, dir := open(t)
	const racers = 32
	owners := make([]string, racers)
	var group sync.WaitGroup
	for i := range racers {
		group.Go(func() {
			s, err := state.Open(dir)
			if err == nil {
				owners[i], err = s.Owner(func() string { return fmt.Sprintf("mark-%d", i) })
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	wantOne(t, dir, owners)
}

func TestOwner_IsMintedOnceByRacingProcesses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	const racers = 8
	owners := make([]string, racers)
	var group sync.WaitGroup
	for i := range racers {
		group.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), ownerOf+"="+dir, fmt.Sprintf("%s=mark-%d", mark, i))
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			owners[i] = strings.TrimSpace(string(out))
		})
	}
	group.Wait()
	wantOne(t, dir, owners)
}

// wantOne checks that all agree, that later ones do, and that nothing is left of the race.
func wantOne(t *testing.T, dir string, owners []string) {
	t.Helper()
	for _, o := range owners {
		if o != owners[0] || !strings.HasPrefix(o, "mark-") {
			t.Fatalf("owners %q, want one mark", owners)
		}
	}
	s, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	later, err := s.Owner(func() string { t.Error("another mark is minted"); return "late" })
	if err != nil || later != owners[0] {
		t.Errorf("later owner %q, %v; want %q", later, err, owners[0])
	}
	if left, err := filepath.Glob(filepath.Join(dir, "installation-*")); err != nil || len(left) > 0 {
		t.Errorf("left of the race: %v, %v", left, err)
	}
}

func TestOwner_ThatIsEmptyIsNotReplaced(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	name := filepath.Join(dir, "installation")
	if err := os.WriteFile(name, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if owner, err := s.Owner(func() string { return "new" }); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("Owner = %q, %v; want an error that names %s", owner, err, name)
	}
}

func lease(id string) state.Lease {
	return state.Lease{
		Lease: id, Owner: "o", Run: "r", Folder: "/f", Instance: "here", Cell: `t/issue["17"]#1`, Key: "k", Attempt: 2,
		Opened: time.Date(2024, 5, 1, 12, 0, 0, 7, time.UTC),
	}
}

func ids(t *testing.T, s *state.State) []string {
	t.Helper()
	leases, err := s.Leases()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range leases {
		out = append(out, l.Lease)
	}
	return out
}

func TestLeases_AreThereFromAddToRemove(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	if got := ids(t, s); got != nil {
		t.Errorf("a fresh state holds %v", got)
	}
	for _, id := range []string{"03", "01", "02"} {
		if err := s.Add(lease(id)); err != nil {
			t.Fatal(err)
		}
	}
	other, err := state.Open(dir) // as another process sees it
	if err != nil {
		t.Fatal(err)
	}
	leases, err := other.Leases()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]state.Lease{lease("01"), lease("02"), lease("03")}, leases); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
	for range 2 { // what is gone already is no error
		if err := s.Remove("02"); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"01", "03"}, ids(t, other)); diff != "" {
		t.Errorf("after Remove (-want +got):\n%s", diff)
	}
}

func TestLeases_CanBeListedWhileOthersWrite(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	if err := s.Add(lease("stays")); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 20 {
				id := fmt.Sprintf("%d-%d", i, n)
				if err := s.Add(lease(id)); err != nil {
					t.Error(err)
				}
				if err := s.Remove(id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { group.Wait(); close(ended) }()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		default:
		}
		leases, err := s.Leases()
		if err != nil {
			t.Fatalf("list while others write: %v", err)
		}
		if last := leases[len(leases)-1]; last.Lease != "stays" {
			t.Fatalf("the lease that stays is not listed: %v", leases)
		}
	}
	if diff := cmp.Diff([]string{"stays"}, ids(t, s)); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
}

func TestLeases_OneThatCannotBeReadIsNotPassedOver(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	name := filepath.Join(dir, "leases", "x.json")
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if leases, err := s.Leases(); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("Leases = %v, %v; want an error that names %s", leases, err, name)
	}
}

func TestState_IsPrivate(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	if err := s.Add(lease("01")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "leases", "01.json"): 0o600} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}
