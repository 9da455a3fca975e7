package adaptertest

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"cellharness/shared"
)

// fakeSettings are the settings of FakeKind.
type fakeSettings struct {
	root             string
	base             string
	hostsPromptCells *bool
	startsFromPatch  *bool
	enforced         []string
	faults           []Fault
}

// complaints collects what is wrong with a configuration.
type complaints []shared.Violation

func (c *complaints) add(field, format string, args ...any) {
	*c = append(*c, shared.Violation{Field: field, Message: fmt.Sprintf(format, args...)})
}

// parseSettings reads the settings and finds all that is wrong with a configuration.
func parseSettings(cfg shared.Configuration) (fakeSettings, []shared.Violation) {
	var s fakeSettings
	var wrong complaints
	var given map[string]json.RawMessage
	if err := json.Unmarshal(cfg.Settings, &given); err != nil {
		wrong.add("", "the settings are no JSON object: %v", err)
		return s, wrong
	}
	var faults []string
	var names []string // of env_passthrough; the values come in Configuration.Environment
	fields := map[string]any{
		"root": &s.root, "base": &s.base, "env_passthrough": &names, "hosts_prompt_cells": &s.hostsPromptCells,
		"starts_from_patch": &s.startsFromPatch, "enforced": &s.enforced, "faults": &faults,
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field, known := fields[name]
		if !known {
			wrong.add(name, "there is no such setting")
			continue
		}
		if err := json.Unmarshal(given[name], field); err != nil {
			wrong.add(name, "%v", err)
		}
	}
	var err error
	if s.faults, err = parseFaults(faults); err != nil {
		wrong.add("faults", "%v", err)
	}
	s.check(cfg.Refs, &wrong)
	return s, wrong
}

func (s fakeSettings) check(refs []string, wrong *complaints) {
	if !filepath.IsAbs(s.root) {
		wrong.add("root", "want an absolute path, got %q", s.root)
	}
	for _, d := range s.enforced {
		if !slices.Contains(shared.Dimensions(), shared.Dimension(d)) {
			wrong.add("enforced", "there is no dimension %q", d)
		}
	}
	for _, ref := range append([]string{s.base}, refs...) {
		if strings.HasPrefix(ref, "no-such") {
			wrong.add(refField(s.base, ref), "there is no ref %q", ref)
		}
	}
}

// refField is the field at which a ref was said.
func refField(base, ref string) string {
	if ref == base {
		return "base"
	}
	return fmt.Sprintf("ref[%q]", ref)
}

// change makes the capabilities those that the settings ask for.
func (s fakeSettings) change(c *shared.Capabilities) {
	if s.hostsPromptCells != nil {
		c.HostsPromptCells = *s.hostsPromptCells
	}
	if s.startsFromPatch != nil {
		c.StartsFromPatch = *s.startsFromPatch
	}
	c.Limits = maps.Clone(c.Limits)
	for _, d := range s.enforced {
		c.Limits[shared.Dimension(d)] = shared.Support{Level: shared.LevelEnforced, Mechanism: "said in the settings"}
	}
}

// commitOf makes up the commit of a ref.
func commitOf(ref string) string {
	if ref == "" {
		ref = "HEAD"
	}
	sum := sha1.Sum([]byte("fake commit " + ref))
	return hex.EncodeToString(sum[:])
}
