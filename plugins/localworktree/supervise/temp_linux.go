package supervise

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// boxTemp is where a command in a box sees its temporary directory.
const boxTemp = "/tmp"

// removeTemp removes the temporary directory of a command that has ended, also where the command took rights away.
func removeTemp(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("remove a temporary directory: %w", err)
	}
	defer root.Close()
	// A directory is visited before it is opened, which its new mode allows.
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if d == nil || !d.IsDir() {
			return nil // what is left is told by the removal
		}
		if err == nil {
			return root.Chmod(path, 0o700)
		}
		return nil
	})
	if removeErr := os.RemoveAll(dir); removeErr != nil {
		return fmt.Errorf("remove a temporary directory: %w", removeErr)
	}
	return err
}

// unixSockets lists the paths of the Unix sockets that are bound in the network namespace of this process.
func unixSockets() ([]string, error) {
	data, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		return nil, fmt.Errorf("list Unix sockets: %w", err)
	}
	var paths []string
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		// The path is the eighth field, and goes to the end of the line.
		fields := strings.SplitN(strings.Join(strings.Fields(lines.Text()), " "), " ", 8)
		if len(fields) == 8 && filepath.IsAbs(fields[7]) && !slices.Contains(paths, fields[7]) {
			paths = append(paths, fields[7])
		}
	}
	return paths, lines.Err()
}
