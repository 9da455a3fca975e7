// Package worktree makes, reads and removes workspaces for measured cells: directories with the files of one commit
// and a private git directory, borrowing objects from a mirror that was cut from the user's repository.
//
// Nothing is ever written to the user's repository, and no git command takes configuration, attributes or hooks from
// a place that a cell can write. What a cell left is read through a git directory of our own.
//
// The package knows git and directories. It knows nothing of cells or adapters, and imports nothing of this module.
package worktree
