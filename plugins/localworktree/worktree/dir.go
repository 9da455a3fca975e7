package worktree

// Dir returns the directory of the workspace, beside whose tree the caller may keep files of its own. It is removed
// with the workspace.
func (w *Workspace) Dir() string { return w.dir }

// Present fails with ErrVanished unless the directory at Tree is the one that was made.
func (w *Workspace) Present() error { return w.checkPresent() }
