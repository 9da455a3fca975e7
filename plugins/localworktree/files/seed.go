package files

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"cellharness/shared"
)

const (
	seedMode = 0o644
	dirMode  = 0o755
	// maxReasons is how many bad seeds one error lists; a definition with a wrong prefix has thousands.
	maxReasons = 10
)

// WriteSeeds puts the seeds into the workspace root. All are checked before the first is written: their paths, that
// they can all be files at once, and that nothing but a plain file lies where they go and nothing but plain directories
// on the way. Each is written under a temporary name and renamed, so that a hard link is replaced and never written
// through. A file that is there keeps its mode when it is executable; everything else gets mode 0644.
//
// Errors are *shared.Error with CauseSeed: CodeInvalid for a bad path and for content that is not what its size and
// digest say, CodePrecondition for something in the way, CodeCancelled and CodeTimeout when ctx ends, CodeInternal for
// the rest. A bad path, and something in the way, is found before anything is written; whatever fails later may leave
// some of the seeds in place.
func WriteSeeds(ctx context.Context, root *os.Root, seeds []shared.Seed) error {
	if err := checkPaths(seeds); err != nil {
		return err
	}
	if err := checkPlaces(ctx, root, seeds); err != nil {
		return err
	}
	buffer := make([]byte, bufferBytes)
	for _, seed := range seeds {
		if err := writeSeed(ctx, root, seed, buffer); err != nil {
			return seedError(ctx, seed.Path, err)
		}
	}
	return nil
}

func checkPaths(seeds []shared.Seed) error {
	paths := make([]shared.Path, len(seeds))
	var reasons []string
	for i, seed := range seeds {
		paths[i] = seed.Path
		if _, err := shared.ParsePath(string(seed.Path)); err != nil {
			reasons = append(reasons, err.Error())
		}
	}
	if len(reasons) == 0 {
		if err := shared.CheckDistinct(paths); err != nil {
			reasons = append(reasons, err.Error())
		}
	}
	return refusal(shared.CodeInvalid, reasons)
}

func checkPlaces(ctx context.Context, root *os.Root, seeds []shared.Seed) error {
	var reasons []string
	for _, seed := range seeds {
		if err := ctx.Err(); err != nil {
			return seedError(ctx, seed.Path, err)
		}
		err := checkPlace(root, string(seed.Path))
		switch {
		case errors.As(err, new(*notPlainError)):
			reasons = append(reasons, fmt.Sprintf("seed %q: %v", seed.Path, err))
		case err != nil:
			return seedError(ctx, seed.Path, err)
		}
	}
	return refusal(shared.CodePrecondition, reasons)
}

// refusal is the error for seeds that were looked at and not written; nil without a reason.
func refusal(code shared.Code, reasons []string) error {
	if len(reasons) == 0 {
		return nil
	}
	if more := len(reasons) - maxReasons; more > 0 {
		reasons = append(reasons[:maxReasons:maxReasons], fmt.Sprintf("and %d more", more))
	}
	return &shared.Error{
		Code: code, Cause: shared.CauseSeed,
		Message: "no seed was written: " + strings.Join(reasons, "; "),
	}
}

// checkPlace fails with a *notPlainError unless path is a plain file, or nothing, below plain directories.
func checkPlace(root *os.Root, path string) error {
	dir, name, err := openParent(root, path, openDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = placeMode(dir, name, path)
	return firstError(err, dir.Close())
}

// placeMode returns the mode that a seed gets at name of dir.
func placeMode(dir *os.Root, name, path string) (fs.FileMode, error) {
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return seedMode, nil
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, &stepError{path: path, err: &notPlainError{what: describe(dir, name, info)}}
	case info.Mode().Perm()&0o111 != 0:
		return info.Mode().Perm(), nil
	}
	return seedMode, nil
}

func writeSeed(ctx context.Context, root *os.Root, seed shared.Seed, buffer []byte) (err error) {
	dir, name, err := openParent(root, string(seed.Path), makeDir)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, dir.Close()) }()
	mode, err := placeMode(dir, name, string(seed.Path))
	if err != nil {
		return err
	}
	temp := ".harness-seed-" + rand.Text()
	if err := writeContent(ctx, dir, temp, mode, seed.Content, buffer); err != nil {
		return firstError(err, removeTemp(dir, temp))
	}
	if err := dir.Rename(temp, name); err != nil {
		return firstError(err, removeTemp(dir, temp))
	}
	return nil
}

func removeTemp(dir *os.Root, temp string) error {
	if err := dir.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// makeDir opens the directory name of parent and makes it where it is missing.
func makeDir(parent *os.Root, name string) (*os.Root, error) {
	err := parent.Mkdir(name, dirMode)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	dir, openErr := openDir(parent, name)
	if openErr != nil || err != nil {
		return dir, openErr
	}
	// The adapter's umask keeps its own files private; what it makes for a cell has the modes that git gives.
	if err := chmodOpen(dir, dirMode); err != nil {
		return nil, firstError(err, dir.Close())
	}
	return dir, nil
}

func chmodOpen(dir *os.Root, mode fs.FileMode) error {
	self, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(self.Chmod(mode), self.Close())
}

// seedError makes what the writing of one seed met into the error of WriteSeeds.
func seedError(ctx context.Context, path shared.Path, err error) error {
	code := shared.CodeInternal
	switch {
	case ctx.Err() != nil:
		code = ctxCode(ctx)
	case errors.As(err, new(*notPlainError)):
		code = shared.CodePrecondition
	case errors.As(err, new(*badContentError)):
		code = shared.CodeInvalid
	}
	return &shared.Error{
		Code: code, Cause: shared.CauseSeed, Err: err,
		Message: fmt.Sprintf("write seed %q: %v", path, err),
	}
}

func ctxCode(ctx context.Context) shared.Code {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return shared.CodeTimeout
	}
	return shared.CodeCancelled
}
