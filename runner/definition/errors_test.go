package definition_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"cellharness/runner/definition"
)

var update = flag.Bool("update", false, "write what Load says into testdata/errors")

// TestErrors holds what is said about definitions that cannot be used: each archive in testdata/errors holds the files
// of one, beside base.hcl, and in its last file the whole text.
func TestErrors(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob(filepath.Join("testdata", "errors", "*.txtar"))
	if err != nil || len(archives) < 25 {
		t.Fatalf("%d archives: %v", len(archives), err)
	}
	for _, file := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir, want := unpack(t, archive)
			d, diags := definition.Load([]string{dir}, definition.Options{})
			if d != nil || !diags.HasErrors() {
				t.Fatalf("no error:\n%s", written(t, diags))
			}
			got := strings.ReplaceAll(written(t, diags), dir, "DIR")
			if *update {
				writeWant(t, file, archive, got)
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s", diff)
			}
			if strings.Contains(got, "canary") || strings.Contains(got, "cty.") {
				t.Errorf("a secret or a type of the implementation is shown:\n%s", got)
			}
		})
	}
}

func unpack(t *testing.T, archive *txtar.Archive) (dir, want string) {
	t.Helper()
	dir = t.TempDir()
	base, err := os.ReadFile(filepath.Join("testdata", "base.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"base.hcl": base}
	for _, f := range archive.Files {
		if f.Name == "want" {
			want = string(f.Data)
			continue
		}
		files[f.Name] = f.Data
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, want
}

func writeWant(t *testing.T, file string, archive *txtar.Archive, got string) {
	t.Helper()
	var kept []txtar.File
	for _, f := range archive.Files {
		if f.Name != "want" {
			kept = append(kept, f)
		}
	}
	archive.Files = append(kept, txtar.File{Name: "want", Data: []byte(got)})
	if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
		t.Fatal(err)
	}
}
