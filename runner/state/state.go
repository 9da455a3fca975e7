// Package state keeps what belongs to this installation rather than to one run, below the user's state directory: the
// mark that tells our workspaces from others', and an index of the leases of all runs, so that a workspace is found
// even when the folder of its run is gone. The engine writes leases here; commands that look after workspaces read them.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/google/renameio/v2"
)

// Lease says that a workspace may exist, and where more is known of it.
type Lease struct {
	Lease    string    `json:"lease"` // ULID that names the workspace
	Owner    string    `json:"owner"` // mark of this installation
	Run      string    `json:"run"`
	Folder   string    `json:"folder"` // of the run
	Instance string    `json:"instance"`
	Cell     string    `json:"cell"` // address
	Key      string    `json:"key"`
	Attempt  int       `json:"attempt"`
	Opened   time.Time `json:"opened"`
}

// State is the state directory of an installation.
type State struct{ dir string }

// Dir is where the state is kept: $XDG_STATE_HOME/harness, or .local/state/harness in the home directory.
func Dir(lookup func(string) (string, bool)) (string, error) {
	if dir, ok := lookup("XDG_STATE_HOME"); ok && filepath.IsAbs(dir) {
		return filepath.Join(dir, "harness"), nil
	}
	if home, ok := lookup("HOME"); ok && filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "harness"), nil
	}
	return "", errors.New("neither XDG_STATE_HOME nor HOME is set, so there is no place to keep track of workspaces; set one of them")
}

// Open makes the directory where there is none.
func Open(dir string) (*State, error) {
	if err := os.MkdirAll(filepath.Join(dir, "leases"), 0o700); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	return &State{dir: dir}, nil
}

// Owner returns the mark of this installation. The first call makes one with newID; processes that race for it agree.
func (s *State) Owner(newID func() string) (string, error) {
	name := filepath.Join(s.dir, "installation")
	for range 2 {
		b, err := os.ReadFile(name)
		if err == nil && strings.TrimSpace(string(b)) != "" {
			return strings.TrimSpace(string(b)), nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read the mark of this installation: %w", err)
		}
		if err := s.mint(name, newID()); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("the mark of this installation in %s is empty; remove the file", name)
}

// mint writes the mark aside and links it into place, which fails where another process was first.
func (s *State) mint(name, id string) error {
	f, err := os.CreateTemp(s.dir, "installation-*")
	if err != nil {
		return fmt.Errorf("make the mark of this installation: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(id + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the mark of this installation: %w", err)
	}
	if err := os.Link(f.Name(), name); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keep the mark of this installation: %w", err)
	}
	return nil
}

// Add records that a workspace may exist. The record is there whole or not at all, whoever is killed when.
func (s *State) Add(l Lease) error {
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode lease %s: %w", l.Lease, err)
	}
	if err := renameio.WriteFile(s.path(l.Lease), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("record lease %s: %w", l.Lease, err)
	}
	return nil
}

// Remove strikes a lease out after its workspace was seen gone.
func (s *State) Remove(lease string) error {
	if err := os.Remove(s.path(lease)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("strike out lease %s: %w", lease, err)
	}
	return nil
}

// Leases lists every workspace that may exist, oldest first.
func (s *State) Leases() ([]Lease, error) {
	names, err := filepath.Glob(s.path("*"))
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	var leases []Lease
	for _, name := range names {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // struck out in between
		}
		if err != nil {
			return nil, fmt.Errorf("read a lease: %w", err)
		}
		var l Lease
		if err := json.Unmarshal(b, &l); err != nil {
			return nil, fmt.Errorf("read lease %s: %w", name, err)
		}
		leases = append(leases, l)
	}
	return leases, nil
}

func (s *State) path(lease string) string {
	return filepath.Join(s.dir, "leases", lease+".json")
}
