package definition_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/definition"
	"cellharness/runner/plan"
)

const base = `
adapter "local_worktree" "here" {
  repo = "."
}
task "t" {
  prompt = "go"
}
variant "v" {}
`

const trialHead = `
trial "x" {
  adapters = [adapter.local_worktree.here]
  tasks    = [task.t]
  variants = [variant.v]
`

// trialOf is a definition with one trial that has body.
func trialOf(body string) string { return base + trialHead + body + "\n}\n" }

// cellsOf plans a definition with adapters that can do everything.
func cellsOf(t *testing.T, src string, opts definition.Options) []plan.Cell {
	t.Helper()
	p, _ := planned(t, load(t, opts, definitionOf(t, src)))
	return p.Cells
}

func addressesOf(cells []plan.Cell) []string {
	var out []string
	for _, c := range cells {
		out = append(out, c.Address)
	}
	return out
}

func TestDefaultsOfACell(t *testing.T) {
	t.Parallel()
	cells := cellsOf(t, trialOf(`
  repeat = null
  cell {
    kind       = "exec_cell"
    entrypoint = "echo a b"
    timeout    = null
    env        = null
    stdin      = null
  }
  setup {
    entrypoint = ["npm", "ci", 3, 0.1]
  }
  verify {
    entrypoint = "true"
  }`), definition.Options{})
	if len(cells) != 1 {
		t.Fatalf("%d cells", len(cells))
	}
	got := cells[0]
	got.Key = ""
	want := plan.Cell{
		Address: "x/t/v#1", Trial: "x", Task: "t", Variant: "v", Repeat: 1, Adapter: "here", Candidates: []string{"here"},
		Base: strings.Repeat("a", 40), SeedAs: "uncommitted", Attempts: 2, Backoff: 10 * time.Second,
		Setup:  &plan.Step{Kind: "exec_cell", Entrypoint: []string{"npm", "ci", "3", "0.1"}, Timeout: 5 * time.Minute},
		Cell:   plan.Step{Kind: "exec_cell", Entrypoint: []string{"sh", "-c", "echo a b"}, Timeout: 5 * time.Minute},
		Verify: &plan.Verify{Step: plan.Step{Kind: "exec_cell", Entrypoint: []string{"sh", "-c", "true"}, Timeout: 5 * time.Minute}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cell (-want +got):\n%s", diff)
	}
}

func TestPromptCellsHaveLongerTime(t *testing.T) {
	t.Parallel()
	cells := cellsOf(t, trialOf(`
  cell {
    kind       = "prompt_cell"
    entrypoint = ["agent"]
    env        = {}
    limits {
      memory = "4GiB"
      output = "1.5kB"
      cpu    = 0.5
    }
  }`), definition.Options{})
	want := plan.Step{
		Kind: "prompt_cell", Entrypoint: []string{"agent"}, Timeout: 30 * time.Minute,
		Limits: plan.Limits{MemoryBytes: 4 << 30, OutputBytes: 1500, CPU: 0.5, Require: "best_effort"},
	}
	if diff := cmp.Diff(want, cells[0].Cell); diff != "" {
		t.Errorf("step (-want +got):\n%s", diff)
	}
}

func TestNumbersAreExact(t *testing.T) {
	t.Parallel()
	src := strings.Replace(trialOf(`
  axis "n" {
    values = [9007199254740993, 0.1, 12345678901234567890]
  }
  cell {
    kind        = "exec_cell"
    entrypoint  = ["cat", "${each.axis.n}"]
    seed_inputs = { "in.json" = jsonencode({ n = each.axis.n }) }
  }`), "variant", "run {\n  seed = 9223372036854775807\n}\nvariant", 1)
	p, blobs := planned(t, load(t, definition.Options{}, definitionOf(t, src)))
	if p.Run.Seed != 9223372036854775807 {
		t.Errorf("seed %d", p.Run.Seed)
	}
	for i, digits := range []string{"9007199254740993", "0.1", "12345678901234567890"} {
		c := p.Cells[i]
		if c.Address != "x/t/v/n="+digits+"#1" || c.Cell.Entrypoint[1] != digits || c.Axes[0].Value != digits {
			t.Errorf("digits %s became %+v", digits, c)
		}
		if got := string(blobs[c.Seeds[0].SHA256]); got != `{"n":`+digits+`}` {
			t.Errorf("seed is %s", got)
		}
	}
}

func TestForEachKeys(t *testing.T) {
	t.Parallel()
	src := strings.ReplaceAll(trialOf(`
  cell {
    kind       = "exec_cell"
    entrypoint = "true"
  }`), `[task.t]`, `values(task.t)`)
	src = strings.Replace(src, `prompt = "go"`, `for_each = toset(["a/b", "../../x", "n\nl", "q\"q", "a-b"])`, 1)
	want := []string{`x/t["../../x"]/v#1`, `x/t["a-b"]/v#1`, `x/t["a/b"]/v#1`, `x/t["n\nl"]/v#1`, `x/t["q\"q"]/v#1`}
	if diff := cmp.Diff(want, addressesOf(cellsOf(t, src, definition.Options{}))); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	got := addressesOf(cellsOf(t, src, definition.Options{Only: []string{"x/*/v#*"}, Skip: []string{`x/t["a/b"]/v#1`, "**q**"}}))
	if diff := cmp.Diff([]string{want[0], want[1], want[3]}, got); diff != "" {
		t.Errorf("selected addresses (-want +got):\n%s", diff)
	}
}

func TestCarriageReturns(t *testing.T) {
	t.Parallel()
	script := strings.ReplaceAll(trialOf(`
  cell {
    kind       = "exec_cell"
    entrypoint = <<-EOT
      set -e
      true
    EOT
  }`), "\n", "\r\n")
	d, diags := definition.Load([]string{definitionOf(t, script)}, definition.Options{})
	if d == nil || len(diags) != 1 || diags[0].Severity != definition.SeverityWarning {
		t.Fatalf("diagnostics:\n%s", written(t, diags))
	}
	p, _ := planned(t, d)
	if got := p.Cells[0].Cell.Entrypoint[2]; got != "set -e\r\ntrue\r\n" {
		t.Errorf("script was rewritten: %q", got)
	}
	escaped := trialOf("  cell {\n    kind = \"exec_cell\"\n    entrypoint = [\"printf\", \"a\\rb\"]\n  }")
	if _, diags := definition.Load([]string{definitionOf(t, escaped)}, definition.Options{}); len(diags) > 0 {
		t.Errorf("escaped CR:\n%s", written(t, diags))
	}
}

func TestSecretsInEnv(t *testing.T) {
	t.Parallel()
	file := definitionOf(t, trialOf(`
  cell {
    kind       = "exec_cell"
    entrypoint = "true"
    env = {
      PLAIN = "1"
      TOKEN = secret::env("OTHER")
      KEY   = secret::file("key.txt")
      PASS  = secret::exec(["pass", "show", "x"])
    }
  }`))
	p, _ := planned(t, load(t, definition.Options{}, file))
	want := []plan.SecretRef{
		{Name: "KEY", Source: "file", Args: []string{filepath.Join(filepath.Dir(file), "key.txt")}},
		{Name: "PASS", Source: "exec", Args: []string{"pass", "show", "x"}},
		{Name: "TOKEN", Source: "env", Args: []string{"OTHER"}},
	}
	if diff := cmp.Diff(want, p.Cells[0].Cell.SecretEnv); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"PLAIN": "1"}, p.Cells[0].Cell.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	src := `
variable "repo" {
  type    = string
  default = env("BENCH_REPO", "..")
}
variable "argv" {
  type    = list(string)
  default = ["true"]
}
variable "count" {
  type = number
}
variable "pin" {
  type      = string
  sensitive = true
  default   = "canary-9"
}
` + trialOf(`
  repeat = var.count
  cell {
    kind       = "exec_cell"
    entrypoint = concat(var.argv, [var.repo])
  }`)
	file := definitionOf(t, src)
	values := filepath.Join(filepath.Dir(file), "values.json")
	if err := os.WriteFile(values, []byte(`{"count": 3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) { return "/src", name == "BENCH_REPO" }
	d := load(t, definition.Options{
		LookupEnv: env, Vars: map[string]string{"argv": `["cat", "-n"]`}, VarFiles: []string{values},
	}, file)
	p, _ := planned(t, d)
	if len(p.Cells) != 3 {
		t.Errorf("%d cells", len(p.Cells))
	}
	if diff := cmp.Diff([]string{"cat", "-n", "/src"}, p.Cells[0].Cell.Entrypoint); diff != "" {
		t.Errorf("entrypoint (-want +got):\n%s", diff)
	}
	want := []plan.Input{
		{Name: "env.BENCH_REPO", Value: `"/src"`},
		{Name: "var.argv", Value: `["cat", "-n"]`},
		{Name: "var.count", Value: "3"},
		{Name: "var.pin", Value: "(sensitive)"},
		{Name: "var.repo", Value: `"/src"`},
	}
	if diff := cmp.Diff(want, p.Inputs); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	_, diags := definition.Load([]string{file}, definition.Options{Vars: map[string]string{"argv": "[", "count": "many"}})
	if len(diags) != 2 || !strings.Contains(written(t, diags), "--var gives \"argv\"") {
		t.Errorf("diagnostics:\n%s", written(t, diags))
	}
}

func TestSeedsMerge(t *testing.T) {
	t.Parallel()
	src := strings.Replace(trialOf(`
  cell {
    kind        = "exec_cell"
    entrypoint  = "true"
    seed_inputs = { "c" = "cell" }
  }
  verify {
    entrypoint  = "true"
    workspace   = "fresh"
    seed_inputs = { "hidden" = "late" }
  }`), `prompt = "go"`, `seed_inputs = { "a" = "task", "b" = "task", "c" = "task" }
  seed_as = "commit"`, 1)
	src = strings.Replace(src, `variant "v" {}`, `variant "v" {
  seed_inputs = { "b" = "variant", "c" = "variant" }
}`, 1)
	p, blobs := planned(t, load(t, definition.Options{}, definitionOf(t, src)))
	got := map[string]string{}
	for _, s := range append(p.Cells[0].Seeds, p.Cells[0].Verify.Seeds...) {
		got[s.Path] = string(blobs[s.SHA256])
	}
	want := map[string]string{"a": "task", "b": "variant", "c": "cell", "hidden": "late"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seeds (-want +got):\n%s", diff)
	}
	if p.Cells[0].SeedAs != "commit" || !p.Cells[0].Verify.Fresh {
		t.Errorf("cell %+v", p.Cells[0])
	}
}

func TestKeysFollowWhatIsMeasured(t *testing.T) {
	t.Parallel()
	body := `
  cell {
    kind       = "exec_cell"
    entrypoint = "true"
    timeout    = "5m"
  }`
	key := func(src string, change func(*definition.Fact)) string {
		d := load(t, definition.Options{}, definitionOf(t, src))
		fact := able("a")
		change(&fact)
		p, _, _ := d.Plan(map[string]definition.Fact{"here": fact})
		return p.Cells[0].Key
	}
	same := func(*definition.Fact) {}
	first := key(trialOf(body), same)
	for name, src := range map[string]string{
		"labels":     strings.Replace(trialOf(body), `prompt = "go"`, `labels = { a = "b" }`, 1),
		"run":        "run {\n  parallelism = 9\n  order = \"random\"\n}\n" + trialOf(body),
		"concurrent": strings.Replace(trialOf(body), `repo = "."`, "repo = \".\"\n  max_concurrent = 2", 1),
		"comments":   "# a comment\n" + trialOf(body),
	} {
		if key(src, same) != first {
			t.Errorf("%s changes the key", name)
		}
	}
	for name, changed := range map[string]string{
		"entrypoint": key(strings.Replace(trialOf(body), `"true"`, `"false"`, 1), same),
		"timeout":    key(strings.Replace(trialOf(body), `"5m"`, `"6m"`, 1), same),
		"history":    key(strings.Replace(trialOf(body), `repo = "."`, "repo = \".\"\n  history = \"none\"", 1), same),
		"seeds":      key(strings.Replace(trialOf(body), `prompt = "go"`, `seed_inputs = { a = "b" }`, 1), same),
		"version":    key(trialOf(body), func(f *definition.Fact) { f.Version = "2" }),
		"base":       key(trialOf(body), func(f *definition.Fact) { f.Pins[0].Commit = "b" }),
	} {
		if changed == first {
			t.Errorf("%s does not change the key", name)
		}
	}
}

func TestDiagnosticsAsJSON(t *testing.T) {
	t.Parallel()
	_, diags := definition.Load([]string{definitionOf(t, trialOf(`
  cell {
    kind       = "exec_cell"
    entrypoint = each.variant.name == "v" ? null : "x"
  }`))}, definition.Options{})
	if len(diags) != 1 {
		t.Fatalf("diagnostics:\n%s", written(t, diags))
	}
	diags[0].Range.File = "main.hcl"
	got, err := json.Marshal(diags[0])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"severity":"error","summary":"Value cannot be used",` +
		`"detail":"entrypoint of x/t/v#1 is null, and it is required.",` +
		`"range":{"file":"main.hcl","line":17,"column":18,"end_line":17,"end_column":55},"context":"trial \"x\", cell",` +
		`"snippet":"    entrypoint = each.variant.name == \"v\" ? null : \"x\"","values":["each.variant.name = \"v\""],"address":"x/t/v#1"}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

func TestPathsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		paths []string
		want  string
	}{
		"nothing":       {nil, "Name a file or a directory"},
		"missing":       {[]string{filepath.Join(t.TempDir(), "none.hcl")}, "there is no file or directory"},
		"empty folder":  {[]string{t.TempDir()}, "holds no file that ends in .hcl"},
		"no trial":      {[]string{definitionOf(t, base)}, "has no trial block"},
		"too large":     {[]string{definitionOf(t, strings.Repeat("#", definition.MaxFile+1))}, "larger than 8 MiB"},
		"not UTF-8":     {[]string{definitionOf(t, "a = \"\xff\xfe\"")}, "UTF-8"},
		"given as word": {[]string{"plan"}, "there is no file or directory plan"},
	} {
		d, diags := definition.Load(c.paths, definition.Options{})
		if got := written(t, diags); d != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: got\n%s\nwant %q", name, got, c.want)
		}
	}
}
