package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"cellharness/runner/plan"
	"cellharness/runner/record"
	"cellharness/shared"
)

const run = "01JDA0B1C2D3E4F5G6H7J8K9MN"

func clock() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)) }

// every holds an event of each type, all of its fields filled, by type name.
func every() map[string]Event {
	truth, number, exit := true, json.Number("1.5"), int64(0)
	artifact := record.Artifact{Path: "a", File: "artifacts/a", State: shared.ArtifactPresent, Bytes: 1}
	left := []record.Left{{Kind: "workspace", Name: "/w", Detail: "busy"}}
	return map[string]Event{
		"version":    &Version{Schema: Schema, Harness: "0.1.0", Build: "abc", Go: "go1.26", Protocol: 1},
		"diagnostic": &Diagnostic{Severity: "error", Summary: "s", Detail: "d", File: "f", Line: 1, Column: 2, Snippet: "x", Address: "a"},
		"plan": &Plan{
			Cells: 2, Refused: 1, Bases: map[string]string{"here": "abc"},
			Verdicts: []Verdict{{Cell: "x/t/v#1", Key: "k", Adapter: "", Refused: "no"}},
		},
		"run_started": &RunStarted{Folder: "f", Name: "n", Cells: 1, Parallelism: 2, Order: "random", Seed: -7},
		"adapter_ready": &AdapterReady{
			Instance: "here", Kind: "local_worktree", Profile: "p", Version: "0.1.0", Generation: 1,
			Digest: "d", Milliseconds: 12, Capabilities: shared.Capabilities{
				ColdStart: shared.ColdStartSub100ms, Transfer: shared.TransferMount,
				Limits: map[shared.Dimension]shared.Support{
					shared.DimensionMemory: {Level: shared.LevelEnforced, Mechanism: "cgroup", Reason: "r"},
				},
			},
		},
		"adapter_crashed": &AdapterCrashed{Instance: "here", Generation: 1, Exit: "killed", LastLines: []string{"l"}, Cells: []string{"c"}},
		"lease_opened":    &LeaseOpened{Lease: "l", Cell: "c", Attempt: 1},
		"lease_closed":    &LeaseClosed{Lease: "l", Cleanup: record.CleanupLeaked, Left: left},
		"cell_started":    &CellStarted{Cell: "c", Key: "k", Attempt: 1, Slot: 0, Adapter: "here"},
		"cell_phase":      &CellPhase{Cell: "c", Attempt: 1, Phase: shared.PhaseCell},
		"cell_signal":     &CellSignal{Cell: "c", Attempt: 1, Phase: shared.PhaseCell, Signal: "TERM"},
		"cell_artifact":   &CellArtifact{Cell: "c", Attempt: 1, Artifact: artifact},
		"cell_error":      &CellError{Cell: "c", Attempt: 1, Phase: shared.PhaseSetup, Cause: shared.CauseSetup, Message: "m"},
		"cell_retried":    &CellRetried{Cell: "c", Attempt: 2, Of: 3, Cause: shared.CauseProvision, Message: "m", Wait: 1.5},
		"cell_finished": &CellFinished{Result: record.Result{
			Schema: record.Schema, Run: run, Repeat: 1, Attempt: 1, Last: true, Status: shared.StatusCompleted, ExitCode: &exit,
			Passed: &truth, Cleanup: record.CleanupClean, Metrics: map[string]*json.Number{"m": &number, "n": nil},
			Integrity: []plan.Notice{{Kind: "history"}}, Artifacts: []record.Artifact{artifact},
		}},
		"budget":       &Budget{Budget: "wall", Used: 2, Limit: 1},
		"threshold":    &Threshold{Name: "t", Met: false, Value: "v", Wanted: "w", Error: "e"},
		"interrupted":  &Interrupted{Signal: "INT", Draining: []string{"c"}},
		"run_finished": &RunFinished{ExitCode: 5, Counts: map[string]int{"completed": 1}, Folder: "f", Resume: "r"},
	}
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, text := range [][]byte{record.JSONSchema(), JSONSchema()} {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(doc.(map[string]any)["$id"].(string), doc); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.Compile("urn:cellharness:event:1")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(s *jsonschema.Schema, line []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

func emitted(e Event) []byte {
	var line []byte
	NewStream(run, clock, func(_ Event, l []byte) { line = bytes.Clone(l) }).Emit(e)
	return line
}

func TestEveryTypeHasItsNameAndFollowsTheSchema(t *testing.T) {
	t.Parallel()
	s := schema(t)
	for name, e := range every() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			filled := emitted(e)
			if got := e.header().Type; got != name {
				t.Errorf("its type is %s", got)
			}
			zero := emitted(reflect.New(reflect.TypeOf(e).Elem()).Interface().(Event))
			if !bytes.Contains(zero, []byte(`"type":"`+name+`"`)) {
				t.Errorf("a zero one is %s", zero)
			}
			if err := validate(s, filled); err != nil {
				t.Errorf("%s: %v", filled, err)
			}
			if err := validate(s, []byte(`{"type":"`+name+`","seq":1,"time":"2026-01-02T03:04:05Z"}`)); err == nil {
				t.Error("the schema takes one without any field")
			}
		})
	}
}

func TestSchemaKnowsEveryFieldAndNoOther(t *testing.T) {
	t.Parallel()
	var doc struct {
		Defs map[string]struct {
			Properties map[string]any
		} `json:"$defs"`
	}
	if err := json.Unmarshal(JSONSchema(), &doc); err != nil {
		t.Fatal(err)
	}
	want, got := map[string][]string{}, map[string][]string{}
	for name, e := range every() {
		var fields map[string]any
		if err := json.Unmarshal(emitted(e), &fields); err != nil {
			t.Fatal(err)
		}
		for _, header := range []string{"type", "seq", "time", "run"} {
			delete(fields, header)
		}
		want[name] = sortedKeys(fields)
		got[name] = sortedKeys(doc.Defs[name].Properties)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the schema differs from the types:\n%s", diff)
	}
	if len(doc.Defs) != len(want) {
		t.Errorf("the schema has %d types, and there are %d", len(doc.Defs), len(want))
	}
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

func TestReaderOfTheSchemaMayMeetMore(t *testing.T) {
	t.Parallel()
	s := schema(t)
	for _, line := range []string{
		`{"type":"new_type","seq":1,"time":"2026-01-02T03:04:05Z","what":1}`,
		`{"type":"lease_opened","seq":1,"time":"2026-01-02T03:04:05Z","lease":"l","cell":"c","attempt":1,"new":1}`,
	} {
		if err := validate(s, []byte(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if err := validate(s, []byte(`{"type":"lease_opened","seq":0,"time":"2026-01-02T03:04:05Z","lease":"l","cell":"c","attempt":1}`)); err == nil {
		t.Error("sequence number 0 is taken")
	}
}

func TestSequenceIsDenseAndInOrderForEverySink(t *testing.T) {
	t.Parallel()
	const each = 100
	var first, second []int64 // written by the sinks, one event at a time
	record := func(to *[]int64) func(Event, []byte) {
		return func(e Event, line []byte) {
			var h Header
			if err := json.Unmarshal(line, &h); err != nil {
				t.Error(err)
			}
			if h.Seq != e.header().Seq || h.Run != run || !h.Time.Equal(clock()) || h.Time.Location() != time.UTC {
				t.Errorf("the line says %+v", h)
			}
			*to = append(*to, h.Seq)
		}
	}
	s := NewStream(run, clock, record(&first), record(&second))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range each {
				s.Emit(&Budget{})
			}
		})
	}
	group.Wait()
	var want []int64
	for n := range int64(8 * each) {
		want = append(want, n+1)
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, second); diff != "" {
		t.Error(diff)
	}
}

func TestEventWithoutJSONFormIsTold(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	s := NewStream(run, clock, LineWriter(&lines))
	s.Emit(&Budget{Used: math.NaN()})
	s.Emit(&Budget{})
	first, second, _ := bytes.Cut(lines.Bytes(), []byte{'\n'})
	var d Diagnostic
	if err := json.Unmarshal(first, &d); err != nil {
		t.Fatal(err)
	}
	if d.Type != "diagnostic" || d.Seq != 1 || d.Severity != "error" || !strings.Contains(d.Summary, "budget") {
		t.Errorf("got %+v", d)
	}
	if !bytes.Contains(second, []byte(`"type":"budget","seq":2`)) {
		t.Errorf("then %s", second)
	}
}

// brokenPipe takes so many writes and refuses all others.
type brokenPipe struct{ takes, writes int }

var errPipe = errors.New("broken pipe")

func (b *brokenPipe) Write(p []byte) (int, error) {
	b.writes++
	if b.writes > b.takes {
		return 0, errPipe
	}
	return len(p), nil
}

func TestClosedPipeEndsThePrintingAlone(t *testing.T) {
	t.Parallel()
	pipe := &brokenPipe{takes: 2}
	lines := NewLines(pipe)
	seen := 0
	s := NewStream(run, clock, lines.Take, func(Event, []byte) { seen++ })
	s.Emit(&Budget{})
	if err := lines.Err(); err != nil {
		t.Errorf("before: %v", err)
	}
	for range 9 {
		s.Emit(&Budget{})
	}
	if !errors.Is(lines.Err(), errPipe) || pipe.writes != 3 || seen != 10 {
		t.Errorf("error %v after %d writes, the other sink saw %d of 10", lines.Err(), pipe.writes, seen)
	}
}
