package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// keyVersion stands in front of what a key is computed from, so that another encoding gives other keys.
const keyVersion = "cellharness cell key 1\n"

// Placement is what of an adapter is part of a cell's key.
type Placement struct {
	Kind     string
	Settings json.RawMessage // those that can change what is measured, with sorted names
	Version  string          // of the adapter; empty in an offline plan
}

// keyed is everything that a key is computed from. Where a secret is, labels, parallelism, retries and the name of the
// adapter instance are not in it: they do not change what is measured.
type keyed struct {
	Trial    string          `json:"trial"`
	Task     string          `json:"task"`
	Variant  string          `json:"variant"`
	Axes     []Axis          `json:"axes"`
	Repeat   int             `json:"repeat"`
	Warmup   bool            `json:"warmup"`
	Kind     string          `json:"kind"`
	Settings json.RawMessage `json:"settings"`
	Version  string          `json:"version"`
	Ref      string          `json:"ref"`
	Base     string          `json:"base"`
	Seeds    []Seed          `json:"seeds"`
	SeedAs   string          `json:"seed_as"`
	Setup    *keyedStep      `json:"setup"`
	Cell     *keyedStep      `json:"cell"`
	Verify   *keyedVerify    `json:"verify"`
	Artifact []string        `json:"artifacts"`
	Diff     bool            `json:"diff"`
}

type keyedStep struct {
	Kind       string            `json:"kind"`
	Entrypoint []string          `json:"entrypoint"`
	Stdin      *Blob             `json:"stdin"`
	Env        map[string]string `json:"env"`
	SecretEnv  []string          `json:"secret_env"` // names only
	Timeout    time.Duration     `json:"timeout_ns"`
	Limits     Limits            `json:"limits"`
}

type keyedVerify struct {
	Step  *keyedStep      `json:"step"`
	Seeds []Seed          `json:"seeds"`
	Fresh bool            `json:"fresh"`
	Pass  string          `json:"pass"`
	Scope json.RawMessage `json:"scope"`
}

// Key is the SHA-256 over a canonical encoding of everything that was evaluated for a cell, in lower case hex. Two cells
// with one key measure the same; the fields Key, Address, Adapter, Candidates, Refused, Labels, Attempts and Backoff of
// c do not matter.
func Key(c Cell, p Placement) string {
	k := keyed{
		Trial: c.Trial, Task: c.Task, Variant: c.Variant, Axes: c.Axes, Repeat: c.Repeat, Warmup: c.Warmup,
		Kind: p.Kind, Settings: p.Settings, Version: p.Version, Ref: c.Ref, Base: c.Base,
		Seeds: c.Seeds, SeedAs: c.SeedAs, Setup: stepKey(c.Setup), Cell: stepKey(&c.Cell),
		Artifact: c.Artifacts, Diff: c.Diff,
	}
	if c.Base != "" {
		k.Ref = "" // the commit says it all
	}
	if v := c.Verify; v != nil {
		k.Verify = &keyedVerify{Step: stepKey(&v.Step), Seeds: v.Seeds, Fresh: v.Fresh, Pass: v.Pass.Source, Scope: v.Pass.Scope}
	}
	encoded, err := json.Marshal(k)
	if err != nil {
		// Only a RawMessage that is no JSON can do this, and both come from an encoder.
		panic("plan: key of " + c.Address + ": " + err.Error())
	}
	sum := sha256.Sum256(append([]byte(keyVersion), encoded...))
	return hex.EncodeToString(sum[:])
}

func stepKey(s *Step) *keyedStep {
	if s == nil {
		return nil
	}
	k := &keyedStep{
		Kind: s.Kind, Entrypoint: s.Entrypoint, Stdin: s.Stdin, Env: s.Env, Timeout: s.Timeout, Limits: s.Limits,
	}
	for _, secret := range s.SecretEnv {
		k.SecretEnv = append(k.SecretEnv, secret.Name)
	}
	return k
}
