package worktree

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// survey is what a walk over a workspace found that git would trip over.
type survey struct {
	tree       string
	submodules []string           // directories that the base leaves to other repositories
	nested     []nestedRepository // outermost only
	skipped    []string           // submodules that are not empty: git is kept away from what is in them
	refused    []string           // entries that git cannot take
}

// nestedRepository is a repository inside the workspace.
type nestedRepository struct {
	dir   string   // relative to the workspace
	files []string // relative to the workspace; those of git directories are left out
}

// surveyTree walks the workspace, makes what it can readable, and finds nested repositories, files inside of
// submodules, and entries that cannot be read.
func surveyTree(ctx context.Context, tree string, submodules []string) (*survey, error) {
	s := &survey{tree: tree, submodules: submodules}
	if err := s.walk(ctx, "", nil); err != nil {
		return nil, err
	}
	return s, nil
}

// walk visits the directory dir. Files are collected for nested, where dir is part of a nested repository.
func (s *survey) walk(ctx context.Context, dir string, nested *nestedRepository) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := s.read(dir)
	if err != nil {
		s.refused = append(s.refused, dir+"/")
		return nil
	}
	if slices.Contains(s.submodules, dir) && len(entries) > 0 {
		s.skipped = append(s.skipped, dir)
		return nil
	}
	isRepository := func(e fs.DirEntry) bool { return e.Name() == ".git" }
	if dir != "" && nested == nil && slices.ContainsFunc(entries, isRepository) {
		nested = &nestedRepository{dir: dir}
		defer func() { s.nested = append(s.nested, *nested) }()
	}
	for _, entry := range entries {
		if err := s.visit(ctx, filepath.Join(dir, entry.Name()), entry, nested); err != nil {
			return err
		}
	}
	return nil
}

func (s *survey) visit(ctx context.Context, name string, entry fs.DirEntry, nested *nestedRepository) error {
	switch {
	case entry.Name() == ".git":
		return nil
	case strings.EqualFold(entry.Name(), ".git"):
		s.refused = append(s.refused, name)
		return nil
	case entry.IsDir():
		return s.walk(ctx, name, nested)
	case entry.Type().IsRegular():
		if !s.readable(name) {
			s.refused = append(s.refused, name)
			return nil
		}
	case entry.Type() != fs.ModeSymlink: // a pipe, a socket, a device
		s.refused = append(s.refused, name)
		return nil
	}
	if nested != nil {
		nested.files = append(nested.files, name)
	}
	return nil
}

// read lists a directory, and gives itself the permission where that is missing: git would take the files of a
// directory that it cannot read for unchanged.
func (s *survey) read(dir string) ([]fs.DirEntry, error) {
	path := filepath.Join(s.tree, dir)
	if unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK|unix.X_OK, unix.AT_EACCESS) != nil {
		if err := os.Chmod(path, 0o700); err != nil {
			return nil, err
		}
	}
	return os.ReadDir(path)
}

func (s *survey) readable(name string) bool {
	path := filepath.Join(s.tree, name)
	if unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK, unix.AT_EACCESS) == nil {
		return true
	}
	info, err := os.Lstat(path)
	return err == nil && os.Chmod(path, info.Mode().Perm()|0o400) == nil
}

// notices says what of the workspace will not be in its tree.
func (s *survey) notices() []Notice {
	var notices []Notice
	if len(s.refused) > 0 {
		notices = append(notices, Notice{
			Kind: NoticeUnreadable, Count: int64(len(s.refused)),
			Detail: "entries that git cannot take: " + nameSome(s.refused),
		})
	}
	if len(s.skipped) > 0 {
		notices = append(notices, Notice{
			Kind: NoticeSubmodule, Count: int64(len(s.skipped)),
			Detail: "what is inside of submodules is not in the patch: " + nameSome(s.skipped),
		})
	}
	return notices
}

// nameSome lists the first names, so that a notice stays short whatever a cell did.
func nameSome(names []string) string {
	const most = 10
	var quoted []string
	for _, name := range names[:min(most, len(names))] {
		quoted = append(quoted, quoteC(name))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
