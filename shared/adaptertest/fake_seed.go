package adaptertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"cellharness/shared"
)

// writeSeeds checks all seeds and then writes them. hasty writes each one right after its own check.
func (w *workspace) writeSeeds(seeds []shared.Seed, hasty bool) (err error) {
	if len(seeds) == 0 {
		return nil
	}
	root, err := os.OpenRoot(w.tree())
	if err != nil {
		return internal("open the workspace", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	paths := make([]shared.Path, len(seeds))
	for i, s := range seeds {
		paths[i] = s.Path
		if err := checkSeed(root, s.Path); err != nil {
			return invalid(shared.CauseSeed, fmt.Sprintf("the seed %q: %v", s.Path, err))
		}
		if hasty {
			if err := writeSeed(root, s); err != nil {
				return err
			}
		}
	}
	if err := shared.CheckDistinct(paths); err != nil {
		return invalid(shared.CauseSeed, "the seeds: "+err.Error())
	}
	for _, s := range seeds {
		if err := writeSeed(root, s); err != nil {
			return err
		}
	}
	return nil
}

// checkSeed checks the path once more: a Path can be made without ParsePath, and what is a link is known only here.
func checkSeed(root *os.Root, p shared.Path) error {
	if _, err := shared.ParsePath(string(p)); err != nil {
		return err
	}
	parts := strings.Split(string(p), "/")
	for i := range parts {
		info, err := root.Lstat(path.Join(parts[:i+1]...))
		last := i == len(parts)-1
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !last && !info.IsDir():
			return fmt.Errorf("%s is no directory", path.Join(parts[:i+1]...))
		case last && info.IsDir():
			return errors.New("there is a directory of this name")
		}
	}
	return nil
}

func writeSeed(root *os.Root, s shared.Seed) error {
	data, err := readContent(s.Content)
	if err == nil {
		err = root.MkdirAll(path.Dir(string(s.Path)), 0o755)
	}
	// A fresh file that takes the name: what had the name may be linked from elsewhere.
	fresh := path.Join(path.Dir(string(s.Path)), ".seed.new")
	if err == nil {
		err = root.WriteFile(fresh, data, 0o644)
	}
	if err == nil {
		err = root.Rename(fresh, string(s.Path))
	}
	if err != nil {
		return &shared.Error{
			Code: shared.CodePrecondition, Cause: shared.CauseSeed, Message: fmt.Sprintf("write the seed %q: %v", s.Path, err), Err: err,
		}
	}
	return nil
}
