package adaptertest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cellharness/shared"
)

// workspace is a directory named after its lease below the root of a fake adapter. In it are meta.json, the workspace
// itself in tree, the state in which the cell started in start.json, and the process of the command in command.json.
type workspace struct {
	dir string

	Lease   string        `json:"lease"`
	Labels  shared.Labels `json:"labels"`
	Base    string        `json:"base"` // commit
	Created time.Time     `json:"created"`
}

func (w *workspace) tree() string { return filepath.Join(w.dir, "tree") }

func makeWorkspace(cfg *fakeConfig, spec shared.ProvisionSpec) (w *workspace, err error) {
	if !isLease(spec.Lease) {
		return nil, invalid(shared.CauseProvision, fmt.Sprintf("the lease %q is no name", spec.Lease))
	}
	w = &workspace{
		dir:     filepath.Join(cfg.settings.root, spec.Lease),
		Lease:   spec.Lease,
		Labels:  spec.Labels,
		Base:    cmp.Or(spec.Base, commitOf(cmp.Or(spec.Ref, cfg.settings.base))),
		Created: time.Now().UTC(),
	}
	if err := os.MkdirAll(cfg.settings.root, 0o755); err != nil {
		return nil, provisionError("make the root", err)
	}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, &shared.Error{
				Code: shared.CodeExists, Cause: shared.CauseProvision,
				Message: fmt.Sprintf("there is a workspace for the lease %s already", spec.Lease),
			}
		}
		return nil, provisionError("make the workspace", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(w.dir))
		}
	}()
	if err := w.save("meta.json", w); err != nil {
		return nil, err
	}
	return w, w.fill(spec.Patch)
}

// fill puts the files of the base commit into the workspace, with the patch applied.
func (w *workspace) fill(patch *shared.Content) error {
	files := w.baseTree()
	if patch != nil {
		data, err := readContent(*patch)
		if err != nil {
			return provisionError("read the patch", err)
		}
		if files, err = applyPatch(files, data); err != nil {
			return &shared.Error{Code: shared.CodeInvalid, Cause: shared.CauseProvision, Message: err.Error(), Err: err}
		}
		if err := w.save("start.json", files); err != nil {
			return err
		}
	}
	if err := os.Mkdir(w.tree(), 0o755); err != nil {
		return provisionError("make the workspace", err)
	}
	if err := files.write(w.tree()); err != nil {
		return provisionError("fill the workspace", err)
	}
	return nil
}

// baseTree is the tree of the workspace's commit.
func (w *workspace) baseTree() tree {
	return tree{"base.txt": {Mode: modeFile, Data: []byte(w.Base + "\n")}}
}

// startTree is the state in which the cell started: the latest that was saved, otherwise the base.
func (w *workspace) startTree() (tree, error) {
	var t tree
	err := w.load("start.json", &t)
	if errors.Is(err, fs.ErrNotExist) {
		return w.baseTree(), nil
	}
	return t, err
}

// isLease tells whether lease can be the name of a directory.
func isLease(lease string) bool {
	return lease != "." && filepath.IsLocal(lease) && lease == filepath.Base(lease)
}

// openWorkspace finds the workspace of a lease.
func openWorkspace(root, lease string) (*workspace, error) {
	w := &workspace{dir: filepath.Join(root, lease)}
	err := w.load("meta.json", w)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &shared.Error{
			Code: shared.CodeNotFound, Message: fmt.Sprintf("there is no workspace for the lease %s; it was torn down", lease),
		}
	}
	return w, err
}

// listWorkspaces returns all workspaces below root, by lease.
func listWorkspaces(root string) ([]*workspace, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, internal("list the workspaces", err)
	}
	var all []*workspace
	for _, e := range entries {
		w, err := openWorkspace(root, e.Name())
		if errors.Is(err, shared.ErrNotFound) {
			continue // being made or being removed
		}
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// remove ends a command that an earlier process left, deletes the directory and looks whether it is gone.
func (w *workspace) remove() (shared.ResourceState, string) {
	if _, err := os.Lstat(w.dir); errors.Is(err, fs.ErrNotExist) {
		return shared.ResourceAbsent, ""
	}
	w.endOrphan()
	err := os.RemoveAll(w.dir)
	if errors.Is(err, fs.ErrPermission) {
		err = errors.Join(makeWritable(w.dir), os.RemoveAll(w.dir))
	}
	if err != nil {
		return shared.ResourceLeaked, err.Error()
	}
	return shared.ResourceRemoved, ""
}

// makeWritable lets the owner remove what is below dir.
func makeWritable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // whatever it is, the removal that follows says so
		}
		return os.Chmod(path, 0o700)
	})
}

// orphan is the command of a workspace as the file system remembers it.
type orphan struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // as processStart says it
}

// endOrphan ends the process group of a command that outlived its adapter. A pid that now is another process's is left
// alone.
func (w *workspace) endOrphan() {
	var o orphan
	if err := w.load("command.json", &o); err != nil || o.PID <= 1 {
		return // none was recorded
	}
	if started, ok := processStart(o.PID); ok && started == o.Started {
		_ = signalGroup(o.PID, sigKill) // gone already is as good
	}
}

func (w *workspace) save(name string, value any) error {
	data, err := json.Marshal(value)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.dir, name), data, 0o600)
	}
	if err != nil {
		return internal("save "+name, err)
	}
	return nil
}

func (w *workspace) load(name string, value any) error {
	data, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, value); err != nil {
		return internal("read "+name, err)
	}
	return nil
}

func provisionError(doing string, err error) error {
	return &shared.Error{
		Code: shared.CodeInternal, Cause: shared.CauseProvision, Message: doing + ": " + err.Error(), Err: err,
	}
}
