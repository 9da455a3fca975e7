package record

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"cellharness/runner/plan"
)

// RunSchema is the version of run.json. A reader refuses a greater one.
const RunSchema = 1

// Run is run.json: under which circumstances the run was started.
type Run struct {
	Schema      int          `json:"schema"`
	ID          string       `json:"run"`
	Name        string       `json:"name"`
	Harness     string       `json:"harness"`
	Build       string       `json:"build,omitempty"` // commit of the harness, empty where unknown
	Go          string       `json:"go"`
	Protocol    int          `json:"protocol"` // of the adapters
	Started     time.Time    `json:"started"`
	Machine     Machine      `json:"machine"`
	Argv        []string     `json:"argv"`
	Dir         string       `json:"cwd"`
	Git         string       `json:"git,omitempty"` // version, where an adapter told it
	Adapters    []RunAdapter `json:"adapters"`
	Order       plan.Order   `json:"order"`
	Seed        int64        `json:"seed"`
	Parallelism int          `json:"parallelism"`
	Load        float64      `json:"load"` // load average of one minute at the start; 0 where unknown
}

// RunAdapter is an adapter instance as the run was started with it.
type RunAdapter struct {
	Instance string           `json:"instance"`
	Kind     string           `json:"kind"`
	Version  string           `json:"version"`
	Digest   string           `json:"digest"` // SHA-256 of the adapter's binary
	Profile  string           `json:"profile,omitempty"`
	Secrets  []plan.SecretRef `json:"secrets,omitempty"` // where they came from, never what they are
	Base     string           `json:"base,omitempty"`    // commit of the instance's own base
	Pins     []plan.Pin       `json:"pins,omitempty"`
	Source   string           `json:"source,omitempty"`  // root or address of the repository
	Notices  []plan.Notice    `json:"notices,omitempty"` // such as uncommitted changes that are not in the base
}

// Machine is the machine that the harness ran on.
type Machine struct {
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	CPUs        int    `json:"cpus"`
	Kernel      string `json:"kernel,omitempty"`       // release; empty where unknown
	MemoryBytes int64  `json:"memory_bytes,omitempty"` // 0 where unknown
}

// RunSpec is what run.json says of a run beside the plan and the machine.
type RunSpec struct {
	ID       string
	Plan     *plan.Plan
	Args     []string
	Dir      string // current directory
	Harness  string // version
	Build    string
	Go       string
	Protocol int
	Git      string
	Started  time.Time
}

// NewRun describes a run of a plan on this machine, now.
func NewRun(s RunSpec) Run {
	p := s.Plan
	r := Run{
		Schema: RunSchema, ID: s.ID, Name: p.Name, Harness: s.Harness, Build: s.Build, Go: s.Go, Protocol: s.Protocol,
		Started: s.Started.UTC(), Machine: ThisMachine(), Argv: s.Args, Dir: s.Dir, Git: s.Git,
		Adapters: make([]RunAdapter, 0, len(p.Adapters)),
		Order:    p.Run.Order, Seed: p.Run.Seed, Parallelism: p.Run.Parallelism, Load: loadAverage(),
	}
	for _, a := range p.Adapters {
		r.Adapters = append(r.Adapters, RunAdapter{
			Instance: a.Instance, Kind: a.Kind, Version: a.Version, Digest: a.Digest, Profile: a.Profile,
			Secrets: a.Secrets, Source: a.Source, Base: a.Base, Pins: a.Pins, Notices: a.Notices,
		})
	}
	return r
}

// ThisMachine describes the machine. What it does not tell, as outside Linux, stays zero.
func ThisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(release))
	}
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		m.MemoryBytes = memTotal(info)
	}
	return m
}

// memTotal reads the line "MemTotal:  16303428 kB" of proc(5), in which kB means 1024 bytes.
func memTotal(meminfo []byte) int64 {
	lines := bufio.NewScanner(bytes.NewReader(meminfo))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err == nil {
				return kib * 1024
			}
		}
	}
	return 0
}

// loadAverage returns the load average of one minute; 0 where the machine does not tell it.
func loadAverage() float64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(data), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load
}

// WriteRun writes run.json, with its schema and the id of the run.
func (f *Folder) WriteRun(r Run) error {
	if f.journal == nil {
		return f.readOnly("write run.json")
	}
	r.Schema, r.ID = RunSchema, f.id
	if err := writeJSON(filepath.Join(f.dir, runFile), r); err != nil {
		return fmt.Errorf("write run.json: %w", err)
	}
	return nil
}

// ReadRun reads run.json. A run of a newer schema is refused.
func (f *Folder) ReadRun() (Run, error) {
	var r Run
	if err := readJSON(filepath.Join(f.dir, runFile), RunSchema, &r); err != nil {
		return Run{}, fmt.Errorf("read run: %w", err)
	}
	return r, nil
}
