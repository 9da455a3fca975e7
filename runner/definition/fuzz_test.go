package definition_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"cellharness/runner/definition"
)

// FuzzLoad holds that no text makes Load, Plan or Write panic, and that an error always says where it is or what it is
// about.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{filepath.Join(config, "*.hcl"), filepath.Join("testdata", "errors", "*.txtar")} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds in %s: %v", pattern, err)
		}
		for _, file := range files {
			addSeeds(f, file)
		}
	}
	dir := f.TempDir()
	base, err := os.ReadFile(filepath.Join("testdata", "base.hcl"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, src string, asJSON bool) {
		if strings.Contains(src, "fileset") {
			t.Skip("walks directories of this machine")
		}
		folder, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		name := "main.hcl"
		if asJSON {
			name = "main.hcl.json"
		}
		for file, text := range map[string]string{"base.hcl": string(base), name: src} {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d, diags := definition.Load([]string{folder}, definition.Options{})
		if (d == nil) != diags.HasErrors() {
			t.Fatalf("definition %v with diagnostics:\n%s", d != nil, written(t, diags))
		}
		for _, one := range diags {
			if one.Summary == "" || (one.Range.File == "" && one.Detail == "") {
				t.Errorf("empty diagnostic: %+v", one)
			}
		}
		written(t, diags)
		if d == nil {
			return
		}
		p, _, diags := d.Plan(nil)
		if diags.HasErrors() {
			t.Fatalf("a definition without errors cannot be planned:\n%s", written(t, diags))
		}
		if _, err := json.Marshal(p); err != nil {
			t.Errorf("plan cannot be written: %v", err)
		}
	})
}

func addSeeds(f *testing.F, file string) {
	if !strings.HasSuffix(file, ".txtar") {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src), false)
		return
	}
	archive, err := txtar.ParseFile(file)
	if err != nil {
		f.Fatal(err)
	}
	for _, one := range archive.Files {
		if one.Name != "want" {
			f.Add(string(one.Data), strings.HasSuffix(one.Name, ".json"))
		}
	}
}
