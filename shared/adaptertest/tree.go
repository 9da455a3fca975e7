package adaptertest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Modes of a tree entry, as git writes them.
const (
	modeFile    = "100644"
	modeProgram = "100755"
	modeLink    = "120000"
)

// entry is a file or a symbolic link, whose data is its target.
type entry struct {
	Mode string
	Data []byte
}

// tree is all that a patch of the fake adapter knows of a workspace: regular files and symbolic links by their
// slash-separated path, nothing below a .git.
type tree map[string]entry

// readTree reads what is below dir. Entries that cannot be read are left out and listed.
func readTree(dir string) (t tree, unreadable []string, err error) {
	t = tree{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(dir, path)
		switch {
		case relErr != nil:
			return relErr
		case err != nil && name == ".":
			return err
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			unreadable = append(unreadable, name)
			return nil
		case d.IsDir() && strings.EqualFold(d.Name(), ".git"):
			return fs.SkipDir
		case d.IsDir() || !(d.Type().IsRegular() || d.Type() == fs.ModeSymlink):
			return nil
		}
		e, err := readEntry(path, d)
		if err != nil {
			unreadable = append(unreadable, name)
			return nil
		}
		t[filepath.ToSlash(name)] = e
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the workspace: %w", err)
	}
	return t, unreadable, nil
}

func readEntry(path string, d fs.DirEntry) (entry, error) {
	if d.Type() == fs.ModeSymlink {
		target, err := os.Readlink(path)
		return entry{Mode: modeLink, Data: []byte(target)}, err
	}
	info, err := d.Info()
	if err != nil {
		return entry{}, err
	}
	data, err := os.ReadFile(path)
	if info.Mode()&0o100 != 0 {
		return entry{Mode: modeProgram, Data: data}, err
	}
	return entry{Mode: modeFile, Data: data}, err
}

// write puts the tree below dir, which is empty.
func (t tree) write(dir string) error {
	for _, name := range t.names() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := t[name].write(path); err != nil {
			return err
		}
	}
	return nil
}

func (e entry) write(path string) error {
	switch e.Mode {
	case modeLink:
		return os.Symlink(string(e.Data), path)
	case modeProgram:
		return os.WriteFile(path, e.Data, 0o755)
	}
	return os.WriteFile(path, e.Data, 0o644)
}

func (t tree) names() []string { return slices.Sorted(maps.Keys(t)) }

// id is a digest of the whole tree. It is no id of git.
func (t tree) id() string {
	sum := sha256.New()
	for _, name := range t.names() {
		fmt.Fprintf(sum, "%s %d %s\x00%d\x00", t[name].Mode, len(name), name, len(t[name].Data))
		sum.Write(t[name].Data)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
