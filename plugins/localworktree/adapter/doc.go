// Package adapter puts the parts of the local adapter together: worktree knows git, supervise knows processes, files
// knows paths; this package knows what a cell needs from them and in which order. It is entered by the plugin's main
// and by tests.
//
// A workspace lives in the cache directory of the user, outside any repository. The user's repository is read when it
// is configured and when a mirror is cut from it, and never written.
package adapter
