package definition_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/definition"
	"cellharness/runner/plan"
	"cellharness/shared"
)

// config holds the definitions that come with the project.
var config = filepath.Join("..", "..", "config")

// able is a fact of an adapter that can do everything.
func able(commit string) definition.Fact {
	limits := map[shared.Dimension]shared.Support{}
	for _, d := range shared.Dimensions() {
		limits[d] = shared.Support{Level: shared.LevelEnforced, Mechanism: "test"}
	}
	return definition.Fact{
		Capabilities: shared.Capabilities{
			Provisions: true, ColdStart: shared.ColdStartSeconds, Streaming: true, Transfer: shared.TransferMount,
			HostsPromptCells: true, StartsFromPatch: true, Limits: limits,
		},
		Version: "0.1.0", Digest: "d1", Pins: []shared.Pin{{Commit: commit}, {Ref: "HEAD", Commit: commit}},
	}
}

func facts(d *definition.Definition) map[string]definition.Fact {
	out := map[string]definition.Fact{}
	for _, i := range d.Instances() {
		out[i.Name] = able(strings.Repeat("a", 40))
	}
	return out
}

// load loads a definition that has no errors.
func load(t *testing.T, opts definition.Options, paths ...string) *definition.Definition {
	t.Helper()
	d, diags := definition.Load(paths, opts)
	if diags.HasErrors() {
		t.Fatalf("load %v:\n%s", paths, written(t, diags))
	}
	return d
}

// planned plans a definition with adapters that can do everything.
func planned(t *testing.T, d *definition.Definition) (*plan.Plan, plan.Blobs) {
	t.Helper()
	p, blobs, diags := d.Plan(facts(d))
	if diags.HasErrors() {
		t.Fatalf("plan:\n%s", written(t, diags))
	}
	return p, blobs
}

func written(t *testing.T, diags definition.Diagnostics) string {
	t.Helper()
	var b strings.Builder
	if err := diags.Write(&b, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// definitionOf writes a definition into a folder of its own.
func definitionOf(t testing.TB, src string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.hcl")
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExamplesExpandToTheirCells(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file            string
		measured, total int // total holds the warm-ups as well
	}{
		{"quickstart.hcl", 18, 18},
		{"agents.hcl", 30, 30},
		{"daytona.hcl", 54, 58},
		{"orchestration.hcl", 75, 75},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			d, diags := definition.Load([]string{filepath.Join(config, c.file)}, definition.Options{})
			if len(diags) > 0 {
				t.Fatalf("diagnostics:\n%s", written(t, diags))
			}
			for name, facts := range map[string]map[string]definition.Fact{"online": facts(d), "offline": nil} {
				p, blobs, diags := d.Plan(facts)
				if len(diags) > 0 {
					t.Fatalf("%s: diagnostics:\n%s", name, written(t, diags))
				}
				checkPlan(t, p, blobs)
				measured := 0
				for _, cell := range p.Cells {
					if !cell.Warmup {
						measured++
					}
				}
				if measured != c.measured || len(p.Cells) != c.total {
					t.Errorf("%s: %d cells, %d of them measured; want %d, %d", name, len(p.Cells), measured, c.total, c.measured)
				}
			}
		})
	}
}

// checkPlan checks what holds for every plan.
func checkPlan(t *testing.T, p *plan.Plan, blobs plan.Blobs) {
	t.Helper()
	addresses, keys := map[string]bool{}, map[string]bool{}
	used := map[string]bool{}
	use := func(b *plan.Blob) {
		if b == nil {
			return
		}
		used[b.SHA256] = true
		if int64(len(blobs[b.SHA256])) != b.Bytes {
			t.Errorf("blob %s has %d bytes, not %d", b.SHA256, len(blobs[b.SHA256]), b.Bytes)
		}
	}
	for _, c := range p.Cells {
		if addresses[c.Address] || keys[c.Key] {
			t.Errorf("address or key of %s is there twice", c.Address)
		}
		addresses[c.Address], keys[c.Key] = true, true
		if c.Refused != "" || c.Adapter == "" {
			t.Errorf("%s is refused: %s", c.Address, c.Refused)
		}
		if !definition.MatchAddress(c.Address, c.Address) {
			t.Errorf("%s does not match itself", c.Address)
		}
		for _, s := range c.Seeds {
			use(&s.Blob)
		}
		use(c.Cell.Stdin)
		if c.Verify != nil {
			for _, s := range c.Verify.Seeds {
				use(&s.Blob)
			}
		}
	}
	if len(used) != len(blobs) {
		t.Errorf("%d blobs, %d of them used", len(blobs), len(used))
	}
}

func TestPlansAreByteIdentical(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"quickstart.hcl", "agents.hcl", "daytona.hcl", "orchestration.hcl"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			var first []byte
			for range 5 {
				d := load(t, definition.Options{}, filepath.Join(config, file))
				p, _ := planned(t, d)
				again, _ := planned(t, d)
				one, err := json.Marshal(p)
				if err != nil {
					t.Fatal(err)
				}
				two, err := json.Marshal(again)
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = one
				}
				if diff := cmp.Diff(string(first), string(one)); diff != "" {
					t.Fatalf("two loads give two plans:\n%s", diff)
				}
				if diff := cmp.Diff(string(one), string(two)); diff != "" {
					t.Fatalf("one load gives two plans:\n%s", diff)
				}
			}
		})
	}
}
