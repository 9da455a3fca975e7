package adapter

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
	"cellharness/shared/adaptertest"
)

// beAdapter makes this test's executable the adapter process.
const beAdapter = "DAYTONA_TEST_BE_ADAPTER"

func TestMain(m *testing.M) {
	if os.Getenv(beAdapter) != "" {
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

// What the adapter says reaches the host whole, through a process that has a key in its environment and ignores it.
func TestProcess(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := adaptertest.Process(t, exe, []string{
		beAdapter + "=1", "DAYTONA_API_KEY=" + canary, "DAYTONA_API_URL=http://127.0.0.1:1/api",
	})
	d, err := a.Negotiate(t.Context(), shared.HostInfo{Version: shared.Version})
	if err != nil || !d.Fits || d.Name != Name {
		t.Fatalf("Negotiate = %+v, %v; want a fit", d, err)
	}
	if diff := cmp.Diff(capabilities(), d.Capabilities); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
	if _, err := a.Configure(t.Context(), shared.Configuration{Instance: "cloud"}); !errors.Is(err, shared.ErrUnauthenticated) {
		t.Errorf("Configure without a key = %v, want unauthenticated", err)
	}
	bad := configuration(`{"snapshot":"s","resources":{"cpu":1}}`)
	var refused *shared.Error
	if _, err := a.Configure(t.Context(), bad); !errors.As(err, &refused) || len(refused.Violations) != 1 ||
		refused.Violations[0].Field != "resources" {
		t.Errorf("Configure = %v, want one violation at resources", err)
	}
	if _, err := a.Configure(t.Context(), configuration(`{"snapshot":"s"}`)); err != nil {
		t.Errorf("Configure = %v", err)
	}
	if _, err := a.Provision(t.Context(), shared.ProvisionSpec{Lease: "x"}); !errors.Is(err, shared.ErrNotImplemented) {
		t.Errorf("Provision = %v, want not implemented", err)
	}
}

func TestProcess_StartedByHand(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = []string{beAdapter + "=1"}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), Name) {
		t.Errorf("started by hand: %v, %q; want exit code 2 and its name", err, out)
	}
}
