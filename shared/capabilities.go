package shared

import "time"

// Capabilities say what one configured adapter instance can do. The zero value can nothing.
type Capabilities struct {
	// Provisions says that the adapter can make workspaces. One that cannot is there to be negotiated and configured,
	// so that a definition which names it can be checked; no cell is ever placed on it.
	Provisions bool      `json:"provisions"`
	ColdStart  ColdStart `json:"cold_start"` // class, declared
	// MeasuredColdStart is zero until it was measured.
	MeasuredColdStart time.Duration `json:"measured_cold_start_ns"`
	Streaming         bool          `json:"streaming"` // output arrives while the command runs
	Transfer          Transfer      `json:"transfer"`
	ImageBuild        bool          `json:"image_build"`
	// HostsPromptCells says that prompt cells run on the host, with the host's own sign-in.
	HostsPromptCells bool `json:"hosts_prompt_cells"`
	// StartsFromPatch says that Provision takes a Patch, which verify in a fresh workspace needs.
	StartsFromPatch bool                  `json:"starts_from_patch"`
	Limits          map[Dimension]Support `json:"limits"`
}

// Support returns how well a dimension is limited; LevelNone where the adapter says nothing.
func (c Capabilities) Support(d Dimension) Support {
	if s, ok := c.Limits[d]; ok {
		return s
	}
	return Support{Level: LevelNone, Reason: "the adapter does not mention it"}
}

// Support is how well one dimension is limited.
type Support struct {
	Level     Level  `json:"level"`
	Mechanism string `json:"mechanism,omitempty"` // such as "cgroup memory.max"
	Reason    string `json:"reason,omitempty"`    // why not more, and for LevelBestEffort what escapes
}

// Dimension is something that a limit may be set for, or that the adapter contains by itself.
type Dimension string

// The dimensions.
const (
	DimensionWallTime       Dimension = "wall_time"
	DimensionOutput         Dimension = "output"
	DimensionMemory         Dimension = "memory"
	DimensionCPU            Dimension = "cpu"
	DimensionProcesses      Dimension = "processes"
	DimensionDisk           Dimension = "disk"
	DimensionFileSize       Dimension = "file_size"
	DimensionNetwork        Dimension = "network"
	DimensionFilesystem     Dimension = "filesystem"
	DimensionProcessCleanup Dimension = "process_cleanup"
)

// Dimensions lists every dimension in the order in which they are shown.
func Dimensions() []Dimension {
	return []Dimension{
		DimensionWallTime, DimensionOutput, DimensionMemory, DimensionCPU, DimensionProcesses, DimensionDisk,
		DimensionFileSize, DimensionNetwork, DimensionFilesystem, DimensionProcessCleanup,
	}
}

// Level is how far a limit can be trusted. Levels are ordered: a greater one includes the smaller ones.
type Level uint8

// The levels.
const (
	LevelUnspecified Level = iota
	LevelNone              // nothing is done
	LevelObserved          // the use is recorded
	LevelBestEffort        // the limit holds except for what Support.Reason names
	LevelEnforced          // the limit holds against a hostile command; an attack in the tests proves it
)

// String returns the level as definitions spell it.
func (l Level) String() string {
	names := [...]string{"unspecified", "none", "observed", "best_effort", "enforced"}
	if int(l) >= len(names) {
		return names[0]
	}
	return names[l]
}

// MarshalText writes the level as definitions spell it.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// ParseLevel reads a level as definitions spell it.
func ParseLevel(s string) (Level, bool) {
	for l := LevelNone; l <= LevelEnforced; l++ {
		if l.String() == s {
			return l, true
		}
	}
	return LevelUnspecified, false
}

// ColdStart is a class of the time from Provision to a workspace in which a command can start.
type ColdStart string

// The classes of cold start.
const (
	ColdStartSub100ms ColdStart = "sub100ms"
	ColdStartSeconds  ColdStart = "seconds"
	ColdStartMinutes  ColdStart = "minutes"
)

// Transfer is how seeds and artifacts reach the workspace.
type Transfer string

// The ways of transfer.
const (
	TransferMount  Transfer = "mount"  // the workspace is on the host's file system
	TransferUpload Transfer = "upload" // bytes are sent
)

// Dimensions returns the dimensions for which l sets a limit.
func (l Limits) Dimensions() []Dimension {
	var set []Dimension
	for _, d := range []struct {
		dimension Dimension
		set       bool
	}{
		{DimensionOutput, l.OutputBytes > 0},
		{DimensionMemory, l.MemoryBytes > 0},
		{DimensionCPU, l.CPU > 0},
		{DimensionProcesses, l.Processes > 0},
		{DimensionDisk, l.DiskBytes > 0},
		{DimensionFileSize, l.FileBytes > 0},
		{DimensionNetwork, l.NoNetwork},
		{DimensionFilesystem, l.WorkspaceOnly},
	} {
		if d.set {
			set = append(set, d.dimension)
		}
	}
	return set
}
