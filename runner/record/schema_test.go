package record

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"cellharness/runner/plan"
	"cellharness/shared"
)

func resultSchemaCompiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("urn:cellharness:result:1", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:cellharness:result:1")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, v any) error {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// filled has a value in every field.
func filled() Result {
	r := completed("v", 1)
	stream := &Stream{Bytes: 2, Stored: 1, SHA256: digest("x")}
	diff := &Diff{Files: 1, Insertions: 2, Deletions: 3, Bytes: 4, SHA256: digest("d"), From: "a", Tree: "b"}
	r.Schema, r.Run, r.Generation, r.Profile, r.Warmup = Schema, runA, 2, "team", true
	r.Axes, r.Labels = map[string]string{"effort": "high"}, map[string]string{"difficulty": "1"}
	r.Status, r.Limit, r.Signal, r.Message = shared.StatusLimitExceeded, shared.DimensionMemory, "KILL", "m"
	r.CPUSeconds, r.MaxRSS, r.BaseSHA = 1.5, 1<<20, strings.Repeat("0a", 20)
	r.Artifacts = []Artifact{{Path: "a", File: "artifacts/a", State: shared.ArtifactPresent, Bytes: 1, SHA256: digest("a"), Detail: "d"}}
	r.Diff, r.DiffFromBase, r.Stdout, r.Stderr = diff, diff, stream, stream
	r.Verify = &Command{Status: shared.StatusCompleted, ExitCode: r.ExitCode, Signal: "", Seconds: 1, Stdout: stream, Stderr: stream}
	r.Cleanup, r.Left = CleanupLeaked, []Left{{Kind: "workspace", Name: "/w", Detail: "busy"}}
	r.Integrity = []plan.Notice{{Kind: "history", Detail: "d", Count: 1}}
	r.Environment.Variables = []string{"PATH"}
	return r
}

func TestResultsFollowTheSchema(t *testing.T) {
	t.Parallel()
	s := resultSchemaCompiled(t)
	bare := Result{Schema: Schema, Run: runA, Repeat: 1, Status: shared.StatusNotRun, Cleanup: CleanupClean}
	failed := completed("v", 2)
	failed.Schema, failed.Status, failed.Cause, failed.Message = Schema, shared.StatusError, shared.CauseProvision, "m"
	failed.Passed, failed.ExitCode = nil, nil
	for name, r := range map[string]Result{"filled": filled(), "bare": bare, "error": failed} {
		if err := validate(t, s, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, cause := range shared.Causes() {
		failed.Cause = cause
		if err := validate(t, s, failed); err != nil {
			t.Errorf("cause %s: %v", cause, err)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	s := resultSchemaCompiled(t)
	tests := map[string]func(*Result){
		"unknown status":         func(r *Result) { r.Status = "good" },
		"error without cause":    func(r *Result) { r.Status, r.Passed = shared.StatusError, nil },
		"cause without error":    func(r *Result) { r.Cause = shared.CauseSetup },
		"error that passed":      func(r *Result) { r.Status, r.Cause = shared.StatusError, shared.CauseSetup },
		"not run in attempt one": func(r *Result) { r.Status, r.Passed = shared.StatusNotRun, nil },
		"digest":                 func(r *Result) { r.Stdout.SHA256 = "abc" },
		"artifact state":         func(r *Result) { r.Artifacts[0].State = "there" },
		"cleanup":                func(r *Result) { r.Cleanup = "" },
		"negative seconds":       func(r *Result) { r.Phases["cell"] = Phase{Seconds: -1} },
		"unknown phase":          func(r *Result) { r.Phases["lunch"] = Phase{} },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := filled()
			spoil(&r)
			if err := validate(t, s, r); err == nil {
				t.Error("the schema takes it")
			}
		})
	}
}

func TestSchemaKnowsEveryFieldAndNoOther(t *testing.T) {
	t.Parallel()
	type object struct {
		Properties map[string]any
		Required   []string
		Defs       map[string]object `json:"$defs"`
	}
	var doc object
	if err := json.Unmarshal(JSONSchema(), &doc); err != nil {
		t.Fatal(err)
	}
	doc.Defs["result"] = doc
	for name, v := range map[string]any{
		"result": Result{}, "phase": Phase{}, "stream": Stream{}, "command": Command{}, "artifact": Artifact{}, "diff": Diff{},
		"left": Left{}, "notice": plan.Notice{},
	} {
		fields, required := jsonFields(reflect.TypeOf(v))
		if diff := cmp.Diff(fields, slices.Sorted(maps.Keys(doc.Defs[name].Properties))); diff != "" {
			t.Errorf("fields of %s:\n%s", name, diff)
		}
		if diff := cmp.Diff(required, slices.Sorted(slices.Values(doc.Defs[name].Required))); diff != "" {
			t.Errorf("fields of %s that are always there:\n%s", name, diff)
		}
	}
}

// jsonFields lists the names that a struct has in JSON, and those that are never left out.
func jsonFields(typ reflect.Type) (all, required []string) {
	for i := range typ.NumField() {
		name, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		all = append(all, name)
		if options == "" {
			required = append(required, name)
		}
	}
	slices.Sort(all)
	slices.Sort(required)
	return all, required
}
