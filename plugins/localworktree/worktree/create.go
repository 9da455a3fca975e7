package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// CreateSpec asks for one workspace.
type CreateSpec struct {
	Name   string    // names the workspace in its store; letters, digits, ".", "_" and "-"
	Labels []byte    // kept beside the workspace, never looked into
	Patch  io.Reader // applied to the base; nil or empty: the workspace is the base
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// checkName keeps a name from reaching outside of the store.
func checkName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("the workspace name %q is not made of at most 128 letters, digits, dots, dashes and underscores",
			name)
	}
	return nil
}

// Create makes a workspace with the files of m's commit, checked out as a detached HEAD in a git directory of its
// own, of which git says that it is clean. It fails with ErrExists, with ErrMirror where a file of the mirror was
// changed (ask Store.Mirror for a new one), or with ErrPatch; then nothing of the workspace is left, or the error says
// what is.
func (st *Store) Create(ctx context.Context, m *Mirror, spec CreateSpec) (*Workspace, error) {
	if err := checkName(spec.Name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("make workspace %s: %w", spec.Name, err)
	}
	w := &Workspace{store: st, mirror: m, dir: filepath.Join(st.workspaces(), spec.Name)}
	if err := os.Mkdir(w.dir, 0o700); errors.Is(err, os.ErrExist) {
		return nil, fail(ErrExists, "the workspace %s exists already", w.dir)
	} else if err != nil {
		return nil, fmt.Errorf("make workspace %s: %w", spec.Name, err)
	}
	if err := w.make(ctx, spec); err != nil {
		return nil, errors.Join(fmt.Errorf("make workspace %s: %w", spec.Name, err), leftovers(w.Remove(context.WithoutCancel(ctx))))
	}
	return w, nil
}

// leftovers turns what could not be removed into an error.
func leftovers(removals []Removal) error {
	var errs []error
	for _, r := range removals {
		if r.State == StateLeaked {
			errs = append(errs, fmt.Errorf("%s %s is left: %s", r.Kind, r.Name, r.Detail))
		}
	}
	return errors.Join(errs...)
}

func (w *Workspace) make(ctx context.Context, spec CreateSpec) error {
	if err := errors.Join(os.Mkdir(w.Tree(), 0o755), os.Mkdir(w.gitDir(), 0o755)); err != nil {
		return err
	}
	w.meta = meta{
		Version: metaVersion, Created: time.Now().UTC(), Labels: spec.Labels,
		Mirror: filepath.Base(w.mirror.dir), Base: w.mirror.Base, BaseTree: w.mirror.Tree, Start: w.mirror.Tree,
	}
	var err error
	if w.meta.Directory, err = identify(w.Tree()); err != nil {
		return err
	}
	if w.meta.GitDirectory, err = identify(w.gitDir()); err != nil {
		return err
	}
	if w.held, err = holdDirectory(w.Tree()); err != nil {
		return err
	}
	if err := w.writeMeta(); err != nil {
		return err
	}
	stats, err := w.mirror.copyTo(ctx, w.Tree())
	if err != nil {
		return err
	}
	data, err := w.mirror.index.withStats(stats)
	if err != nil {
		return err
	}
	if err := w.writeGitDir(data); err != nil {
		return fmt.Errorf("write the git directory: %w", err)
	}
	if spec.Patch == nil {
		return nil
	}
	return w.applyPatch(ctx, spec.Patch, data)
}

// writeGitDir writes what makes the git directory of the workspace a repository at the commit of the mirror.
func (w *Workspace) writeGitDir(index []byte) error {
	dir := w.gitDir()
	var errs []error
	for _, name := range []string{"objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags"} {
		errs = append(errs, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	write := func(name string, data []byte) {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	write("HEAD", []byte(w.mirror.Commit+"\n"))
	write("config", []byte(w.cellConfig()))
	write("objects/info/alternates", []byte(w.mirror.objects()+"\n"))
	if w.mirror.packedRefs != nil {
		write("packed-refs", w.mirror.packedRefs)
	}
	if w.mirror.shallow != nil {
		write("shallow", w.mirror.shallow)
	}
	write("index", index) // last, so that as few files as possible look newer than it
	return errors.Join(errs...)
}

// cellConfig is the configuration of the workspace's own repository. It wins over the user's, which the commands in a
// workspace may well see: commits work without an identity, sign nothing, run no hook of the user, convert no line
// ends and start no filter for files that are given as stored.
func (w *Workspace) cellConfig() string {
	var text strings.Builder
	text.WriteString(repositoryConfig(w.mirror.format))
	fmt.Fprintf(&text, "[core]\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\tautocrlf = false\n"+
		"\tfsmonitor = false\n\thooksPath = %s\n", configQuote(filepath.Join(w.gitDir(), "hooks")))
	text.WriteString("[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[commit]\n\tgpgSign = false\n[tag]\n\tgpgSign = false\n")
	fmt.Fprintf(&text, "[user]\n\tname = %s\n\temail = %s\n", userName, userEmail)
	for _, name := range w.mirror.filters {
		fmt.Fprintf(&text, "[filter %s]\n\tclean =\n\tsmudge =\n\tprocess =\n\trequired = false\n", sectionQuote(name))
	}
	return text.String()
}

// sectionQuote writes s as the name of a subsection, in which only two characters are special.
func sectionQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
