package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
)

// artifactsDir holds the artifacts of an attempt.
const artifactsDir = "artifacts"

// Attempt is the folder of one attempt. Its methods may be called from many goroutines.
type Attempt struct {
	dir string

	mu    sync.Mutex
	names artifactNames
}

// Attempt makes the folder of attempt n, from 1, of the cell with the key. What an attempt of the same number has
// left that never came to its end is moved aside, so that its files are not taken for those of this one. An attempt
// that has ended is refused.
func (f *Folder) Attempt(key string, n int) (*Attempt, error) {
	what := fmt.Sprintf("make the folder of attempt %d of cell %s", n, key)
	if f.journal == nil {
		return nil, f.readOnly(what)
	}
	if n < 1 || !isName(key) {
		return nil, fmt.Errorf("%s: attempts count from 1, and a key is a plain name", what)
	}
	if f.hasEnded(key, n) {
		return nil, fmt.Errorf("%s: it has ended already", what)
	}
	dir := f.attemptDir(key, n)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if err := moveAside(dir); err != nil {
		return nil, fmt.Errorf("%s: move what an earlier try has left: %w", what, err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return &Attempt{dir: dir, names: artifactNames{}}, nil
}

func (f *Folder) attemptDir(key string, n int) string {
	return filepath.Join(f.dir, cellsDir, key, strconv.Itoa(n))
}

func (f *Folder) hasEnded(key string, n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended[attemptID{key, n}]
}

// isName tells whether s is one plain component of a path: keys are hashes, and anything else is a mistake.
func isName(s string) bool {
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 255
}

// moveAside renames dir, where it exists, to the first free of dir.abandoned-1, -2 and so on.
func moveAside(dir string) error {
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.abandoned-%d", dir, n)
		if _, err := os.Lstat(aside); err == nil {
			continue
		}
		err := os.Rename(dir, aside)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
}

// Dir returns the path of the folder.
func (a *Attempt) Dir() string { return a.dir }

// Create makes a file in the folder, such as stdout.log or verify/stdout.log, and the directories above it. name is
// relative and slash-separated. A file that exists is refused: evidence is written once. The caller closes the file.
func (a *Attempt) Create(name string) (*os.File, error) {
	root, err := os.OpenRoot(a.dir)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	file, err := createIn(root, name)
	if err = errors.Join(err, root.Close()); err != nil {
		return nil, fmt.Errorf("create %s in %s: %w", name, a.dir, err)
	}
	return file, nil
}

// Remove removes a file that Create or Artifact has made, such as half an artifact.
func (a *Attempt) Remove(name string) error {
	root, err := os.OpenRoot(a.dir)
	if err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	if err := errors.Join(root.Remove(name), root.Close()); err != nil {
		return fmt.Errorf("remove %s from %s: %w", name, a.dir, err)
	}
	return nil
}

func createIn(root *os.Root, name string) (*os.File, error) {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
}

// Artifact makes the file that the artifact at path is stored in. path is bytes, as the command named it; file is the
// name that was given to it, relative to the folder: artifacts/ and path itself where that is a harmless name on every
// system, and otherwise a readable part of it with a hash. The caller closes the file.
func (a *Attempt) Artifact(path string) (f *os.File, file string, err error) {
	a.mu.Lock()
	name := a.names.claim(path)
	a.mu.Unlock()
	file = artifactsDir + "/" + name
	f, err = a.Create(file)
	if err != nil {
		return nil, "", fmt.Errorf("store artifact %q: %w", path, err)
	}
	return f, file, nil
}
