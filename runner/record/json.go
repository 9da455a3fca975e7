package record

import (
	_ "embed"
	"encoding/json"

	"cellharness/runner/plan"
)

//go:embed result.schema.json
var resultSchema string

// JSONSchema returns the JSON Schema (2020-12) of result.json and of the lines of results.jsonl.
func JSONSchema() []byte { return []byte(resultSchema) }

// MarshalJSON writes empty lists and maps rather than null, so that a reader need not ask.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	p := plain(r)
	if p.Axes == nil {
		p.Axes = map[string]string{}
	}
	if p.Phases == nil {
		p.Phases = map[string]Phase{}
	}
	if p.Artifacts == nil {
		p.Artifacts = []Artifact{}
	}
	if p.Integrity == nil {
		p.Integrity = []plan.Notice{}
	}
	if p.Environment.Variables == nil {
		p.Environment.Variables = []string{}
	}
	if p.Metrics == nil {
		p.Metrics = map[string]*json.Number{}
	}
	return json.Marshal(p)
}
