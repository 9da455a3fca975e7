package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cellharness/runner/definition"
)

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReadme_Commands holds that the commands which README names exist, with the two that a newcomer starts with. The
// first is run by .ci/run and, on a copy of config, by a script; the example is run by the test below.
func TestReadme_Commands(t *testing.T) {
	t.Parallel()
	text := readme(t)
	for _, want := range []string{
		"go build -o bin/ ./... && bin/harness run config/quickstart.hcl", "go test ./...",
	} {
		if !strings.Contains(text, "    "+want+"\n") {
			t.Errorf("README.md lacks the command %q on a line of its own", want)
		}
	}
	root := (&app{}).root()
	named := regexp.MustCompile("`harness ([a-z]+)").FindAllStringSubmatch(text, -1)
	if len(named) < 5 {
		t.Fatalf("README.md names only %d commands", len(named))
	}
	for _, n := range named {
		if cmd, _, err := root.Find([]string{n[1]}); err != nil || cmd == root {
			t.Errorf("README.md names harness %s, which does not exist", n[1])
		}
	}
	for _, cmd := range root.Commands() {
		if name := cmd.Name(); name != "completion" && name != "help" && !strings.Contains(text, "`harness "+name) {
			t.Errorf("README.md does not name harness %s", name)
		}
	}
}

// TestReadme_Example holds that the definition of README.md is the one that a script runs.
func TestReadme_Example(t *testing.T) {
	t.Parallel()
	_, rest, ok := strings.Cut(readme(t), "```hcl\n")
	if !ok {
		t.Fatal("README.md has no definition")
	}
	example, _, _ := strings.Cut(rest, "```")
	script, err := os.ReadFile("testdata/script/example.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(script), example) {
		t.Error("testdata/script/example.txtar does not run the definition of README.md as it stands there")
	}
}

// TestConfig holds that every definition in config is formatted, valid, and has as many cells as its text says.
func TestConfig(t *testing.T) {
	t.Parallel()
	cells := map[string]int{"quickstart.hcl": 18, "agents.hcl": 30, "daytona.hcl": 54, "orchestration.hcl": 75}
	files, err := filepath.Glob("../../config/*.hcl")
	if err != nil || len(files) != len(cells) {
		t.Fatalf("config holds %v (%v), want %d definitions", files, err, len(cells))
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if formatted, _ := definition.Format(file, src); string(formatted) != string(src) {
			t.Errorf("%s is not formatted; run harness fmt config", file)
		}
		def, diags := definition.Load([]string{file}, definition.Options{
			LookupEnv: func(string) (string, bool) { return "", false },
		})
		if diags.HasErrors() {
			t.Errorf("%s: %v", file, diags)
			continue
		}
		p, _, diags := def.Plan(nil)
		if diags.HasErrors() {
			t.Errorf("%s: %v", file, diags)
			continue
		}
		counted := 0
		for _, c := range p.Cells {
			if !c.Warmup {
				counted++
			}
		}
		if want := cells[filepath.Base(file)]; counted != want {
			t.Errorf("%s has %d cells beside warmups, want %d", file, counted, want)
		}
	}
}
