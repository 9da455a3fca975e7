package adaptertest

import (
	"encoding/json"

	"cellharness/shared"
)

// Names under which tests register the fake adapter.
const (
	FakeName   = "fake"
	FakeBinary = "fakeadapter"
)

// FakeKind returns the kind of the fake adapter, for tests that pass their own registry.
func FakeKind() shared.Kind {
	return shared.Kind{
		Name:   FakeName,
		Binary: FakeBinary,
		Settings: shared.Schema{Settings: []shared.Setting{
			{
				Name: "root", Type: shared.SettingPath, Required: true, NotInKey: true,
				Description: "the directory below which workspaces are made",
			},
			{
				Name: "base", Type: shared.SettingString, NotInKey: true,
				Description: "the ref that cells start from; HEAD unless set",
			},
			{
				Name: "env_passthrough", Type: shared.SettingEnvironment,
				Description: "names of variables that cells get from the environment of the harness",
			},
			{Name: "hosts_prompt_cells", Type: shared.SettingBool, Description: "whether prompt cells are taken; yes unless set"},
			{
				Name: "starts_from_patch", Type: shared.SettingBool,
				Description: "whether a workspace can start from a patch; yes unless set",
			},
			{
				Name: "enforced", Type: shared.SettingStrings,
				Description: "dimensions that are claimed to be enforced, whether they are or not",
			},
			{Name: "faults", Type: shared.SettingStrings, NotInKey: true, Description: "what goes wrong, as ParseFault reads it"},
			{
				Name: shared.SettingKeepWorkspaces, Type: shared.SettingString, Host: true,
				OneOf: []string{shared.KeepNever, shared.KeepOnFailure, shared.KeepAlways}, Description: "which workspaces outlive their cell",
			},
			{
				Name: shared.SettingMaxConcurrent, Type: shared.SettingNumber, Host: true,
				Description: "the most cells that may hold a workspace of this adapter at once",
			},
		}},
		Credentials: shared.Schema{Settings: []shared.Setting{
			{Name: "token", Type: shared.SettingSecret, Description: "taken and never used"},
		}},
	}
}

// FakeSettings returns settings of the fake adapter for Configure: the absolute path of its root, and faults as
// ParseFault reads them.
func FakeSettings(root string, faults ...string) []byte {
	// Strings can always be marshalled.
	settings, _ := json.Marshal(map[string]any{"root": root, "faults": faults})
	return settings
}
