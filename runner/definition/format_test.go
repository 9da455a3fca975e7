package definition_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/definition"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ src, want string }{
		"aligned":    {"run {\n name=\"a\"\n  parallelism = 2\n}\n", "run {\n  name        = \"a\"\n  parallelism = 2\n}\n"},
		"kept":       {"# a comment\nlocals {\n  a = 1 # one\n}\n", "# a comment\nlocals {\n  a = 1 # one\n}\n"},
		"line ends":  {"locals {\r\n  a = 1\r\n}\r\n", "locals {\r\n  a = 1\r\n}\r\n"},
		"mark of it": {"\xef\xbb\xbflocals {}\n", "locals {}\n"},
	} {
		got, diags := definition.Format("a.hcl", []byte(c.src))
		if diags.HasErrors() {
			t.Fatalf("%s:\n%s", name, written(t, diags))
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if again, _ := definition.Format("a.hcl", got); string(again) != string(got) {
			t.Errorf("%s: formatting twice changes it again", name)
		}
	}
	for name, c := range map[string]struct{ file, src, want string }{
		"syntax":  {"a.hcl", "run {\n", "a.hcl line"},
		"JSON":    {"a.hcl.json", "{}", "only HCL has a canonical form"},
		"nesting": {"a.hcl", "a = " + strings.Repeat("(", 200_000), "too deep"},
	} {
		got, diags := definition.Format(c.file, []byte(c.src))
		if got != nil || !strings.Contains(written(t, diags), c.want) {
			t.Errorf("%s: %q\n%s", name, got, written(t, diags))
		}
	}
}

func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	src := "\xef\xbb\xbf" + trialOf("  cell {\n    kind = \"exec_cell\"\n    entrypoint = \"true\"\n  }\n  verify {\n    entrypoint = \"true\"\n    pass = result.exit_code == 0\n  }")
	cells := cellsOf(t, src, definition.Options{})
	if got := cells[0].Verify.Pass.Source; got != "result.exit_code == 0" {
		t.Errorf("frozen source is %q", got)
	}
}
