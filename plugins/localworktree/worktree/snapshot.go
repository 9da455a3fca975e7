package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Snapshot is the state of all files of a workspace that git can hold.
type Snapshot struct {
	Tree    string   // id of the tree, for Diff
	Notices []Notice // what is not in it as it is on disk
}

// Snapshot reads every file of the workspace and writes their tree. Nothing of the workspace's own git directory
// counts, be it commits, index, excludes or settings; line ends and encodings follow the attributes of the base.
// What .gitignore files in the workspace hide is not in it. Files of repositories inside the workspace are. Nothing may
// run in the workspace meanwhile. It fails with ErrVanished where the workspace is gone.
func (w *Workspace) Snapshot(ctx context.Context) (Snapshot, error) {
	if err := w.checkPresent(); err != nil {
		return Snapshot{}, err
	}
	if err := w.checkMirror(); err != nil {
		return Snapshot{}, err
	}
	survey, err := surveyTree(ctx, w.Tree(), w.mirror.submodules)
	if err != nil {
		return Snapshot{}, fmt.Errorf("look through the workspace %s: %w", w.Tree(), err)
	}
	// An index without stat data makes git read every file.
	data, err := w.mirror.index.withoutStats()
	if err != nil {
		return Snapshot{}, fmt.Errorf("prepare an index: %w", err)
	}
	t, err := w.trusted(data)
	if err != nil {
		return Snapshot{}, err
	}
	notices, err := t.addAll(ctx, survey)
	if exitCode(err) > 1 && bytes.Contains(w.mirror.attributes, []byte(encodingAttribute)) {
		notices, err = t.addUnencoded(ctx, survey, data, w.mirror.attributes)
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf("read the workspace %s: %w", w.Tree(), err)
	}
	tree, err := t.output(ctx, "write-tree")
	if err != nil {
		return Snapshot{}, fmt.Errorf("write the tree of %s: %w", w.Tree(), err)
	}
	// Once more, because a directory that goes away during the walk looks like one whose files were deleted.
	if err := w.checkPresent(); err != nil {
		return Snapshot{}, err
	}
	return Snapshot{Tree: tree, Notices: notices}, nil
}

// addAll takes the files of the workspace into the index.
func (t *trusted) addAll(ctx context.Context, s *survey) ([]Notice, error) {
	notices := s.notices()
	nested, err := t.visibleNested(ctx, s)
	if err != nil {
		return nil, err
	}
	text, err := t.add(ctx, nested, s.skipped)
	switch {
	case exitCode(err) == 1 && len(notices) == 0:
		// The survey names what git cannot take; this is for what it does not know of.
		notices = append(notices, Notice{Kind: NoticeUnreadable, Detail: "git could not take everything: " + text})
	case exitCode(err) > 1:
		return nil, err
	case err != nil && exitCode(err) != 1:
		return nil, err
	}
	for _, n := range nested {
		if err := t.addNested(ctx, n); err != nil {
			return nil, err
		}
		notices = append(notices, Notice{Kind: NoticeNestedRepository, Count: int64(len(n.files)), Detail: fmt.Sprintf(
			"%q is a repository of its own; its %d files are in the patch, its history is not", n.dir, len(n.files))})
	}
	return notices, nil
}

// encodingAttribute makes git convert files, and stop when one does not fit.
const encodingAttribute = "working-tree-encoding"

// addUnencoded starts anew with the files as they are on disk, whatever encoding the base says they have. One file that
// does not fit must not cost the patch of all others.
func (t *trusted) addUnencoded(ctx context.Context, s *survey, index, attributes []byte) ([]Notice, error) {
	plain := slices.Concat(attributes, []byte("* -"+encodingAttribute+"\n"))
	err := errors.Join(
		os.WriteFile(filepath.Join(t.dir, "info", "attributes"), plain, 0o600),
		os.WriteFile(filepath.Join(t.dir, "index"), index, 0o600),
	)
	if err != nil {
		return nil, err
	}
	notices, err := t.addAll(ctx, s)
	return append(notices, Notice{
		Kind:   NoticeUnreadable,
		Detail: "a file is not in the encoding that its attributes say, so all such files are in the patch unconverted",
	}), err
}

// add takes all files but those of nested repositories, which would become one line without content, and of
// submodules, in which git would run a command under settings that a cell can write.
func (t *trusted) add(ctx context.Context, nested []nestedRepository, skipped []string) (string, error) {
	var specs strings.Builder
	specs.WriteString(".\x00")
	for _, n := range nested {
		specs.WriteString(":(exclude,literal)" + n.dir + "\x00")
	}
	for _, dir := range skipped {
		specs.WriteString(":(exclude,literal)" + dir + "\x00")
	}
	c := t.command("add", "--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
	c.stdin = strings.NewReader(specs.String())
	return t.git.run(ctx, c)
}

// addNested takes the files of a nested repository, and drops those of the base that are gone from it.
func (t *trusted) addNested(ctx context.Context, n nestedRepository) error {
	tracked := t.command("ls-files", "-z", "--", ":(literal)"+n.dir)
	names, err := t.git.output(ctx, tracked)
	if err != nil {
		return err
	}
	list := names + strings.Join(n.files, "\x00") + "\x00"
	if len(n.files) == 0 {
		list = names
	}
	update := t.command("update-index", "--add", "--remove", "-z", "--stdin")
	update.stdin = strings.NewReader(list)
	_, err = t.git.run(ctx, update)
	return err
}

// visibleNested returns the nested repositories that no .gitignore hides, with their files that none hides.
func (t *trusted) visibleNested(ctx context.Context, s *survey) ([]nestedRepository, error) {
	if len(s.nested) == 0 {
		return nil, nil
	}
	var names strings.Builder
	for _, n := range s.nested {
		names.WriteString(n.dir + "\x00")
		for _, file := range n.files {
			names.WriteString(file + "\x00")
		}
	}
	check := t.command("check-ignore", "-z", "--stdin")
	check.stdin = strings.NewReader(names.String())
	out, err := t.git.output(ctx, check)
	if err != nil && exitCode(err) != 1 { // 1: nothing is ignored
		return nil, err
	}
	ignored := map[string]bool{}
	for name := range strings.SplitSeq(out, "\x00") {
		ignored[name] = true
	}
	var visible []nestedRepository
	for _, n := range s.nested {
		if ignored[n.dir] {
			continue
		}
		kept := nestedRepository{dir: n.dir}
		for _, file := range n.files {
			if !ignored[file] {
				kept.files = append(kept.files, file)
			}
		}
		visible = append(visible, kept)
	}
	return visible, nil
}
