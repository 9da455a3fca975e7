package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	daytona "cellharness/plugins/daytona/adapter"
	localworktree "cellharness/plugins/localworktree/adapter"
	"cellharness/plugins/localworktree/supervise"
)

var update = flag.Bool("update", false, "write the outputs that scripts compare with")

// TestMain makes the test binary the three programs: testscript puts it under each name into one folder, so that the
// harness finds its adapters beside itself as it does after a build. A supervisor is the adapter, executed again.
func TestMain(m *testing.M) {
	if code, ok := supervise.Main(); ok {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){
		"harness":       func() { os.Exit(harness()) },
		"localworktree": func() { os.Exit(localworktree.Main()) },
		"daytona":       func() { os.Exit(daytona.Main()) },
	})
}

func TestScript(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	goCache := strings.TrimSpace(string(out))
	config, err := filepath.Abs("../../config")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Cmds:                commands(),
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			if err := os.MkdirAll(home, 0o700); err != nil {
				return err
			}
			env.Setenv("HOME", home)
			env.Setenv("XDG_CACHE_HOME", filepath.Join(home, ".cache"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(home, ".local", "state"))
			env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			env.Setenv("LC_ALL", "C")
			env.Setenv("CONFIG", config)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			// Cells that run go share the build cache of whoever runs the tests, as they do where HOME is passed on.
			cache := filepath.Join(home, ".cache")
			if err := os.Mkdir(cache, 0o700); err != nil {
				return err
			}
			if err := os.Symlink(goCache, filepath.Join(cache, "go-build")); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(gitConfig), 0o600)
		},
	})
}

const gitConfig = `[user]
	name = Tester
	email = tester@example.org
[init]
	defaultBranch = main
`
