package shared

// Kind is a registered kind of adapter: what its blocks in a definition may hold, and which program serves it.
type Kind struct {
	Name        string // as definitions spell it
	Binary      string // name of its executable, which lies beside the harness
	Settings    Schema
	Credentials Schema // of a credentials block of this kind; empty where it takes none
}

// Kinds returns the registry of adapters. It is closed: there are two.
func Kinds() []Kind {
	return []Kind{localWorktree(), daytona()}
}

// KindByName finds a kind in a registry.
func KindByName(kinds []Kind, name string) (Kind, bool) {
	for _, k := range kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// Schema says what a block may hold. It is data, so that the host can point at the line of a wrong argument without
// knowing any adapter.
type Schema struct {
	Settings []Setting
	Blocks   map[string]Schema // nested blocks, each at most once
}

// Setting is one argument of a block.
type Setting struct {
	Name        string
	Type        SettingType
	Required    bool
	OneOf       []string // the values allowed, where the type is SettingString; empty: any
	Conflicts   []string // names of arguments and blocks that may not stand beside it
	Why         string   // said when a conflict is met
	Host        bool     // acted on by the harness; not part of Configuration.Settings
	NotInKey    bool     // left out of a cell's key, since it cannot change what is measured
	Description string
}

// SettingType is the type of a Setting and its form in Configuration.Settings.
type SettingType uint8

// The types of setting.
const (
	SettingUnspecified SettingType = iota
	SettingString                  // JSON string
	SettingPath                    // JSON string, made absolute relative to the file that says it
	SettingNumber                  // JSON number
	SettingBool                    // JSON boolean
	SettingStrings                 // JSON array of strings
	SettingDuration                // JSON number of nanoseconds; in definitions a string such as "30s"
	SettingSize                    // JSON number of bytes; in definitions a string such as "4GiB"
	SettingSecret                  // never in Settings; handed over in Configuration.Secrets
	SettingEnvironment             // JSON array of names; their values are handed over in Configuration.Environment
)

// Names of settings that the harness itself acts on.
const (
	SettingMaxConcurrent  = "max_concurrent"
	SettingKeepWorkspaces = "keep_workspaces"
)

// The values of keep_workspaces.
const (
	KeepNever     = "never"
	KeepOnFailure = "on_failure"
	KeepAlways    = "always"
)

func maxConcurrent() Setting {
	return Setting{
		Name: SettingMaxConcurrent, Type: SettingNumber, Host: true,
		Description: "the most cells that may hold a workspace of this adapter at once",
	}
}

func localWorktree() Kind {
	return Kind{
		Name:   "local_worktree",
		Binary: "localworktree",
		Settings: Schema{Settings: []Setting{
			{
				Name: "repo", Type: SettingPath, Required: true, NotInKey: true,
				Description: "the repository whose commits are measured",
			},
			{Name: "base", Type: SettingString, Description: "what cells start from; HEAD unless set", NotInKey: true},
			{
				Name: "history", Type: SettingString, OneOf: []string{"base", "full", "none"},
				Description: "the commits that a cell can reach",
			},
			{
				Name: SettingKeepWorkspaces, Type: SettingString, Host: true,
				OneOf: []string{KeepNever, KeepOnFailure, KeepAlways}, Description: "which workspaces outlive their cell",
			},
			{
				Name: "env_passthrough", Type: SettingEnvironment,
				Description: "names of variables that cells get from the environment of the harness",
			},
			{
				Name: "workspaces_dir", Type: SettingPath, NotInKey: true,
				Description: "where workspaces and mirrors are kept",
			},
			{
				Name: "git_timeout", Type: SettingDuration, NotInKey: true,
				Description: "bound of one git command, beside the bound of the phase",
			},
			maxConcurrent(),
		}},
	}
}

func daytona() Kind {
	sizeNeedsImage := "a sandbox made from a snapshot takes its size from the snapshot; use image instead, or drop the resources block"
	return Kind{
		Name:   "daytona",
		Binary: "daytona",
		Settings: Schema{
			Settings: []Setting{
				{
					Name: "snapshot", Type: SettingString, Conflicts: []string{"image", "resources"}, Why: sizeNeedsImage,
					Description: "the snapshot that sandboxes are made from",
				},
				{Name: "image", Type: SettingString, Description: "the image that sandboxes are made from"},
				{Name: "repo_url", Type: SettingString, Description: "the repository that is cloned into a sandbox"},
				{Name: "ref", Type: SettingString, Description: "commit (40 hex digits), branch or tag that is checked out"},
				{Name: "target", Type: SettingString, Description: "the region"},
				{Name: "create_timeout", Type: SettingDuration, NotInKey: true, Description: "bound of making a sandbox"},
				maxConcurrent(),
			},
			Blocks: map[string]Schema{
				"resources": {Settings: []Setting{
					{Name: "cpu", Type: SettingNumber, Description: "cores"},
					{Name: "memory", Type: SettingSize, Description: "memory"},
					{Name: "disk", Type: SettingSize, Description: "disk"},
				}},
				"network": {Settings: []Setting{
					{Name: "block_all", Type: SettingBool, Description: "no network in the sandbox"},
				}},
			},
		},
		Credentials: Schema{Settings: []Setting{
			{Name: "api_key", Type: SettingSecret, Required: true, Description: "key of the account"},
			{Name: "organization_id", Type: SettingSecret, Description: "organization within the account"},
			{Name: "api_url", Type: SettingString, Description: "address of the API"},
		}},
	}
}
