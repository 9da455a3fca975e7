//go:build !linux

package worktree

import "os"

// holdDirectory holds nothing: the system does not say where a directory was moved.
func holdDirectory(string) (*os.File, error) { return nil, nil }

func whereabouts(*os.File) string { return "" }
