package pluginhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"cellharness/shared"
)

// maxSocketBase returns the longest base directory of sockets, in bytes. An address of a Unix socket holds 108 bytes
// on Linux and 104 elsewhere, with the NUL at its end, and go-plugin adds up to 38 to the base for a directory and a
// file with random numbers (measured with version 1.8.0: 70 bytes worked, 71 did not).
func maxSocketBase() int {
	if runtime.GOOS == "linux" {
		return 69
	}
	return 65
}

// runtimeDirs returns where the directory of the sockets may be made, best first: XDG_RUNTIME_DIR is not swept by
// cleaners of temporary files.
func runtimeDirs(environ []string) []string {
	var dirs []string
	for _, dir := range []string{lookup(environ, "XDG_RUNTIME_DIR"), lookup(environ, "TMPDIR"), "/tmp"} {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// makeSocketDir makes the private directory (mode 0700) of this host's sockets in the first candidate that takes it.
func makeSocketDir(candidates []string) (string, error) {
	var tried []string
	for _, candidate := range candidates {
		dir, err := tempDirIn(candidate)
		if err == nil {
			return dir, nil
		}
		tried = append(tried, fmt.Sprintf("%s (%v)", candidate, err))
	}
	return "", &shared.Error{
		Code: shared.CodeUnavailable,
		Message: "no directory for the sockets of the adapters: tried " + strings.Join(tried, ", ") +
			"; set XDG_RUNTIME_DIR or TMPDIR to a short path that can be written to",
	}
}

func tempDirIn(candidate string) (string, error) {
	if !filepath.IsAbs(candidate) {
		return "", errors.New("not an absolute path")
	}
	dir, err := os.MkdirTemp(candidate, "harness")
	if err != nil {
		var pathErr *os.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err
		}
		return "", err
	}
	if len(dir) > maxSocketBase() {
		return "", errors.Join(fmt.Errorf("too long for a socket by %d bytes", len(dir)-maxSocketBase()), os.Remove(dir))
	}
	return dir, nil
}
