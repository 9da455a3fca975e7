package definition_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cellharness/runner/definition"
	"cellharness/runner/plan"
)

// passOf freezes a pass expression, in HCL or, where json is true, in JSON.
func passOf(t *testing.T, expression string) plan.Expr {
	t.Helper()
	cells := cellsOf(t, `
locals {
  wanted = { code = 3, other = "not captured" }
}
`+trialOf(`
  axis "n" {
    values = [3]
  }
  cell {
    kind       = "exec_cell"
    entrypoint = "true"
  }
  verify {
    entrypoint = "true"
    pass       = `+expression+`
  }`), definition.Options{})
	return roundTrip(t, cells[0].Verify.Pass)
}

// roundTrip writes an expression to JSON and reads it back, as a stored plan is.
func roundTrip(t *testing.T, e plan.Expr) plan.Expr {
	t.Helper()
	encoded, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var out plan.Expr
	if err := json.Unmarshal(encoded, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPass(t *testing.T) {
	t.Parallel()
	exited := func(code int64) definition.CommandResult {
		return definition.CommandResult{ExitCode: &code, Status: "completed", Stdout: []byte("ok 3\n"), Stderr: []byte("\xff")}
	}
	killed := definition.CommandResult{Signal: "KILL", Status: "completed"}
	for name, c := range map[string]struct {
		expression string
		result     definition.CommandResult
		want       bool
	}{
		"exit code":       {"result.exit_code == 0", exited(0), true},
		"another code":    {"result.exit_code == 0", exited(1), false},
		"killed":          {"result.exit_code == 0", killed, false},
		"signal":          {`result.signal == "KILL"`, killed, true},
		"local":           {"result.exit_code == local.wanted.code", exited(3), true},
		"each":            {"result.exit_code == each.axis.n && each.repeat == 1", exited(3), true},
		"output":          {`can(regex("^ok ${each.axis.n}", result.stdout))`, exited(0), true},
		"bytes":           {"result.stderr != \"\"", exited(0), true},
		"several lines":   {"(\n      result.exit_code == 3\n      && true\n    )", exited(3), true},
		"heredoc":         {"result.stdout == <<-EOT\n      ok 3\n    EOT", exited(0), true},
		"given as null":   {"null", exited(0), true},
		"nothing needed":  {"true", exited(1), true},
		"status":          {`result.status == "timed_out"`, exited(0), false},
		"whole local":     {"local.wanted[\"code\"] == result.exit_code", exited(3), true},
		"index by a name": {"local.wanted[each.repeat == 1 ? \"code\" : \"other\"] == result.exit_code", exited(3), true},
	} {
		got, err := definition.Pass(passOf(t, c.expression), c.result)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
	if got := string(passOf(t, "result.exit_code == local.wanted.code").Scope); strings.Contains(got, "captured") {
		t.Errorf("more is captured than is mentioned: %s", got)
	}
	if _, err := definition.Pass(passOf(t, `jsondecode(result.stdout)`), exited(0)); err == nil || !strings.Contains(err.Error(), "main.hcl line") {
		t.Errorf("output that is no JSON: %v", err)
	}
}

func TestPassInJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, src := range map[string]string{
		"base.hcl": base,
		"trial.hcl.json": `{"trial": {"x": {
			"adapters": ["${adapter.local_worktree.here}"], "tasks": ["${task.t}"], "variants": ["${variant.v}"],
			"cell": {"kind": "exec_cell", "entrypoint": ["echo", "${each.task.prompt}"]},
			"verify": {"entrypoint": "true", "pass": "${result.exit_code == 7 && result.stdout != \"a\\nb\"}"}}}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, _ := planned(t, load(t, definition.Options{}, dir))
	code := int64(7)
	got, err := definition.Pass(roundTrip(t, p.Cells[0].Verify.Pass), definition.CommandResult{ExitCode: &code})
	if err != nil || !got || p.Cells[0].Cell.Entrypoint[1] != "go" {
		t.Errorf("%v, %v, %v", got, err, p.Cells[0].Cell.Entrypoint)
	}
}

func TestMetricValue(t *testing.T) {
	t.Parallel()
	const record = `{"exit_code": 0, "diff": {"insertions": 12, "deletions": 3}, "phases": {"cell": {"seconds": 1.5}}, "metrics": {}}`
	number := func(digits json.Number) *json.Number { return &digits }
	for name, c := range map[string]struct {
		expression, record, stdout string
		want                       *json.Number
		err                        string
	}{
		"of the record":  {"result.diff.insertions + result.diff.deletions", record, "", number("15"), ""},
		"of the output":  {"try(jsondecode(result.stdout).n, null)", record, `{"n": 0.25}`, number("0.25"), ""},
		"many digits":    {"jsondecode(result.stdout).n", record, `{"n": 9007199254740993}`, number("9007199254740993"), ""},
		"a decimal":      {"jsondecode(result.stdout).n", record, `{"n": 0.1}`, number("0.1"), ""},
		"infinite":       {"1 / result.exit_code", record, "", nil, "infinite"},
		"no such number": {"try(jsondecode(result.stdout).n, null)", record, "no JSON", nil, ""},
		"left out":       {"result.limit == null ? 1 : 2", record, "", number("1"), ""},
		"of a phase":     {"result.phases.cell.seconds", record, "", number("1.5"), ""},
		"no diff":        {"result.diff.insertions", `{"diff": null}`, "", nil, "main.hcl line"},
		"hostile output": {"try(jsondecode(result.stdout), null)", record, strings.Repeat("[", 5_000_000), nil, ""},
		"a text":         {"result.stdout", record, "many", nil, "must be number"},
		"no record":      {"1", "[]", "", nil, "record"},
	} {
		src := trialOf("  cell {\n    kind = \"exec_cell\"\n    entrypoint = \"true\"\n  }") +
			"metric \"m\" {\n  value = " + c.expression + "\n}\n"
		p, _ := planned(t, load(t, definition.Options{}, definitionOf(t, src)))
		got, err := definition.MetricValue(roundTrip(t, p.Metrics[0].Value), definition.MetricInput{Result: json.RawMessage(c.record), Stdout: []byte(c.stdout)})
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v; want %q", name, err, c.err)
			}
		case err != nil || (got == nil) != (c.want == nil) || (got != nil && *got != *c.want):
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}

func TestCondition(t *testing.T) {
	t.Parallel()
	number := func(f float64) *float64 { return &f }
	stat := definition.Stat{N: 6, Rate: number(0.5), Median: number(30), P95: number(1800)}
	vs := map[string]definition.Versus{"v": {Low: number(-0.1), Distinguishable: true}}
	for name, c := range map[string]struct {
		expression string
		want       bool
		err        string
	}{
		"rate":                      {"stat.rate > 0.4", true, ""},
		"exactly":                   {"stat.p95 < 1800", false, ""},
		"versus":                    {`vs["v"].low > -0.2 && vs["v"].distinguishable`, true, ""},
		"not available":             {"stat.mean < 3", false, "stat.mean is not available"},
		"not available there":       {`vs["v"].p < 3`, false, `vs["v"].p is not available`},
		"not needed":                {"stat.n < 10 || stat.mean < 3", true, ""},
		"with another answer":       {"try(stat.mean, 1) == 1", true, ""},
		"of a variable":             {"stat.median < var.most", true, ""},
		"by a variant's other name": {"vs.v.low < 0", true, ""},
	} {
		src := "variable \"most\" {\n  default = 60\n}\n" +
			trialOf("  cell {\n    kind = \"exec_cell\"\n    entrypoint = \"true\"\n  }") +
			"threshold \"t\" {\n  metric = metric.wall\n  where = { variant = variant.v, trial = \"x\" }\n  condition = " + c.expression + "\n}\n"
		p, _ := planned(t, load(t, definition.Options{}, definitionOf(t, src)))
		threshold := p.Thresholds[0]
		if threshold.Metric != "wall" || threshold.Where["variant"] != "v" {
			t.Errorf("%s: threshold %+v", name, threshold)
		}
		got, err := definition.Condition(roundTrip(t, threshold.Condition), stat, vs)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v; want %q", name, err, c.err)
			}
		case err != nil || got != c.want:
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}
