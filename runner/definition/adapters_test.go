package definition_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellharness/runner/definition"
	"cellharness/runner/plan"
	"cellharness/shared"
)

const twoAccounts = `
credentials "daytona" "team" {
  api_key         = secret::env("TEAM_KEY")
  organization_id = secret::exec(["pass", "org"])
  api_url         = "https://a.example"
}
credentials "daytona" "nightly" {
  api_key = secret::env("NIGHTLY_KEY")
}
adapter "daytona" "cloud" {
  credentials    = credentials.daytona.team
  image          = "golang:1.26"
  create_timeout = "3m"
  max_concurrent = 50
  resources {
    cpu    = 4
    memory = "8GiB"
  }
  network {
    block_all = true
  }
}
adapter "local_worktree" "unused" {
  repo = "."
}
`

func TestInstances(t *testing.T) {
	t.Parallel()
	src := twoAccounts + strings.Replace(trialOf(`
  cell {
    kind       = "exec_cell"
    entrypoint = "true"
  }`), "[adapter.local_worktree.here]", "[adapter.daytona.cloud, adapter.local_worktree.here]", 1)
	src = strings.Replace(src, `repo = "."`+"\n}\ntask", `repo = "sub/../r"
  env_passthrough = ["PATH"]
  keep_workspaces = "on_failure"
}
task`, 1)
	src = strings.Replace(src, `prompt = "go"`, `ref = "v1"`, 1)
	file := definitionOf(t, src)
	got := load(t, definition.Options{}, file).Instances()
	want := []definition.Instance{
		{
			Name: "cloud", Address: "daytona.cloud", Kind: "daytona", Profile: "team",
			Settings: []byte(`{"api_url":"https://a.example","create_timeout":180000000000,"image":"golang:1.26",` +
				`"network":{"block_all":true},"resources":{"cpu":4,"memory":8589934592}}`),
			Secrets: []plan.SecretRef{
				{Name: "api_key", Source: "env", Args: []string{"TEAM_KEY"}},
				{Name: "organization_id", Source: "exec", Args: []string{"pass", "org"}},
			},
			Refs: []string{"v1"}, MaxConcurrent: 50, Keep: "never",
		},
		{
			Name: "here", Address: "local_worktree.here", Kind: "local_worktree",
			Settings:    []byte(`{"env_passthrough":["PATH"],"repo":"` + filepath.Join(filepath.Dir(file), "r") + `"}`),
			Environment: []string{"PATH"}, Refs: []string{"v1"}, Keep: "on_failure",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
}

func TestProfilesAndOtherOptions(t *testing.T) {
	t.Parallel()
	src := twoAccounts + strings.Replace(trialOf(`
  repeat = 2
  cell {
    kind       = "exec_cell"
    entrypoint = "true"
  }`), "[adapter.local_worktree.here]", "[adapter.daytona.cloud]", 1)
	file := definitionOf(t, src)
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"HARNESS_CREDENTIALS_cloud": "nightly"}[name]
		return v, ok
	}
	seed := int64(9)
	for name, c := range map[string]struct {
		opts    definition.Options
		profile string
	}{
		"file":        {definition.Options{}, "team"},
		"environment": {definition.Options{LookupEnv: env}, "nightly"},
		"flag":        {definition.Options{LookupEnv: env, Profiles: map[string]string{"cloud": "team"}}, "team"},
	} {
		if got := load(t, c.opts, file).Instances()[0].Profile; got != c.profile {
			t.Errorf("%s: profile %s, not %s", name, got, c.profile)
		}
	}
	team, _ := planned(t, load(t, definition.Options{}, file))
	nightly, _ := planned(t, load(t, definition.Options{
		LookupEnv: env, Repeat: 3, Parallelism: 7, Order: "random", Seed: &seed, KeepWorkspaces: "always",
	}, file))
	if team.Cells[0].Key != nightly.Cells[0].Key {
		t.Error("credentials are part of the key")
	}
	want := plan.Settings{Parallelism: 7, Order: plan.OrderRandom, Seed: 9}
	if diff := cmp.Diff(want, nightly.Run); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	if len(nightly.Cells) != 3 || nightly.Adapters[0].Keep != "always" {
		t.Errorf("%d cells, keep %s", len(nightly.Cells), nightly.Adapters[0].Keep)
	}
	for name, opts := range map[string]definition.Options{
		"no such instance": {Profiles: map[string]string{"clout": "team"}},
		"no such profile":  {Profiles: map[string]string{"cloud": "taem"}},
		"no such order":    {Order: "shuffled"},
		"no such variable": {Vars: map[string]string{"x": "1"}},
		"no such keep":     {KeepWorkspaces: "sometimes"},
	} {
		if d, diags := definition.Load([]string{file}, opts); d != nil || len(diags) != 1 {
			t.Errorf("%s: diagnostics:\n%s", name, written(t, diags))
		}
	}
}

func TestPlacement(t *testing.T) {
	t.Parallel()
	src := twoAccounts + strings.Replace(trialOf(`
  cell {
    kind       = "exec_cell"
    entrypoint = "true"
    limits {
      memory  = "6GiB"
      require = "enforced"
    }
    requires {
      condition     = each.adapter.kind != "daytona" || each.adapter.capabilities.streaming
      error_message = "${each.adapter.name} shows no output"
    }
  }`), "[adapter.local_worktree.here]", "[adapter.local_worktree.here, adapter.daytona.cloud]", 1)
	d := load(t, definition.Options{}, definitionOf(t, src))
	weak := able("b")
	weak.Capabilities.Limits = map[shared.Dimension]shared.Support{
		shared.DimensionMemory: {Level: shared.LevelObserved, Reason: "no cgroup"},
	}
	silent := able("c")
	silent.Capabilities.Streaming = false
	const notEnforced = "local_worktree.here: a limit of memory is asked for at level enforced and can be had at level observed (no cgroup)"
	for name, c := range map[string]struct {
		facts            map[string]definition.Fact
		address, refused string
	}{
		"first that fits":  {map[string]definition.Fact{"here": able("a"), "cloud": able("a")}, "x/t/v@here#1", ""},
		"second that fits": {map[string]definition.Fact{"here": weak, "cloud": able("a")}, "x/t/v@cloud#1", ""},
		"none fits": {
			map[string]definition.Fact{"here": weak, "cloud": silent},
			"x/t/v#1",
			"no adapter can take it (" + notEnforced + "; daytona.cloud: cloud shows no output)",
		},
		"unavailable": {
			map[string]definition.Fact{"here": {Unavailable: "it is gone"}},
			"x/t/v#1",
			"no adapter can take it (local_worktree.here: it is gone; daytona.cloud: it was not asked)",
		},
		"offline": {nil, "x/t/v@here#1", ""},
	} {
		p, _, diags := d.Plan(c.facts)
		if diags.HasErrors() {
			t.Fatalf("%s:\n%s", name, written(t, diags))
		}
		if got := p.Cells[0]; got.Address != c.address || got.Refused != c.refused || (got.Adapter == "") != (c.refused != "") {
			t.Errorf("%s: %s on %q, refused %q", name, got.Address, got.Adapter, got.Refused)
		}
	}
	only := load(t, definition.Options{Only: []string{"**@cloud#*"}}, definitionOf(t, src))
	for name, want := range map[string]int{"here": 0, "cloud": 1} {
		facts := map[string]definition.Fact{name: able("a")}
		if p, _, _ := only.Plan(facts); len(p.Cells) != want {
			t.Errorf("%s: %d cells of @cloud", name, len(p.Cells))
		}
	}
}

func TestAxisOverAdapters(t *testing.T) {
	t.Parallel()
	src := twoAccounts + strings.Replace(trialOf(`
  axis "where" {
    values = [adapter.local_worktree.here, adapter.daytona.cloud]
  }
  axis "model" {
    values = ["org/model"]
  }
  cell {
    kind       = "exec_cell"
    entrypoint = ["echo", each.adapter.name, each.axis.where.kind]
  }`), "[adapter.local_worktree.here]", "[each.axis.where]", 1)
	cells := cellsOf(t, src, definition.Options{Only: []string{"x/*/*/*/*#1"}})
	want := []string{`x/t/v/where=here/model="org/model"#1`, `x/t/v/where=cloud/model="org/model"#1`}
	if diff := cmp.Diff(want, addressesOf(cells)); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"echo", "cloud", "daytona"}, cells[1].Cell.Entrypoint); diff != "" {
		t.Errorf("entrypoint (-want +got):\n%s", diff)
	}
	if cells[1].Axes[1].Value != "org/model" {
		t.Errorf("axes %+v", cells[1].Axes)
	}
}

func TestViolationsStandAtTheirLines(t *testing.T) {
	t.Parallel()
	src := twoAccounts + strings.Replace(trialOf(`
  cell {
    kind       = "exec_cell"
    entrypoint = "true"
  }`), "[adapter.local_worktree.here]", "[adapter.daytona.cloud]", 1)
	src = strings.Replace(src, `prompt = "go"`, `ref = "v9"`, 1)
	d := load(t, definition.Options{}, definitionOf(t, src))
	diags := d.Violations("cloud", []shared.Violation{
		{Field: "image", Message: "there is no such image"},
		{Field: "resources.cpu", Message: "too many"},
		{Field: "api_key", Message: "was rejected"},
		{Field: `ref["v9"]`, Message: "no such tag"},
		{Field: "elsewhere", Message: "is wrong"},
	})
	var lines []string
	for _, one := range diags {
		lines = append(lines, strings.TrimSpace(one.Snippet)+" | "+one.Detail)
	}
	want := []string{
		`api_key         = secret::env("TEAM_KEY") | api_key: was rejected`,
		`adapter "daytona" "cloud" { | elsewhere: is wrong`,
		`image          = "golang:1.26" | image: there is no such image`,
		`cpu    = 4 | resources.cpu: too many`,
		`ref = "v9" | ref["v9"]: no such tag`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}
