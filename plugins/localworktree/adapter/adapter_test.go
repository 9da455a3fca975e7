package adapter

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellharness/plugins/localworktree/supervise"
	"cellharness/shared"
	"cellharness/shared/adaptertest"
)

// beAdapter makes the test binary the plugin process.
const beAdapter = "CELLHARNESS_TEST_LOCALWORKTREE"

func TestMain(m *testing.M) {
	if code, ok := supervise.Main(); ok {
		os.Exit(code)
	}
	if os.Getenv(beAdapter) != "" {
		os.Exit(Main())
	}
	if err := supervise.BecomeSubreaper(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// home makes a home directory with a git configuration of its own and returns the environment of a process in it.
func home(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	config := "[user]\n\tname = Tester\n\temail = tester@example.org\n[init]\n\tdefaultBranch = main\n"
	if err := os.WriteFile(filepath.Join(dir, ".gitconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
}

// repository makes a repository with one commit of the files given.
func repository(t *testing.T, env []string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	git(t, env, dir, "init", "-q")
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, env, dir, "add", "-A")
	git(t, env, dir, "commit", "-q", "--allow-empty", "-m", "base")
	return dir
}

func git(t *testing.T, env []string, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// configuration is one that the adapter accepts, on a repository of its own.
func configuration(t *testing.T, env []string) shared.Configuration {
	t.Helper()
	return configurationOf(t, repository(t, env, map[string]string{"README.md": "initial\n", "pkg/a.txt": "a\n"}))
}

func configurationOf(t *testing.T, repo string) shared.Configuration {
	t.Helper()
	settings, err := json.Marshal(map[string]any{
		"repo":           repo,
		"workspaces_dir": filepath.Join(t.TempDir(), "harness"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return shared.Configuration{
		Instance: "here", Owner: "owner", Settings: settings,
		Environment: map[string]string{"PATH": os.Getenv("PATH")},
	}
}

func newAdapter(t *testing.T) (shared.Adapter, shared.Configuration) {
	t.Helper()
	env := home(t)
	a, err := New(Options{Environ: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := testContext(10 * time.Second)
		defer cancel()
		if err := a.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return a, configuration(t, env)
}

func newProcess(t *testing.T) (shared.Adapter, shared.Configuration) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := home(t)
	return adaptertest.Process(t, exe, append(env, beAdapter+"=1")), configuration(t, env)
}

// TestConformance holds every promise of the contract, called directly, over gRPC and in a process of its own.
func TestConformance(t *testing.T) {
	adaptertest.Run(t, adaptertest.Subject{
		Name: Name, New: newAdapter, Process: newProcess,
		BadSettings: []byte(`{"repo": "relative"}`), BadField: "repo",
	})
}
