package worktree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// author makes the commits that the harness itself writes the same everywhere.
func author() []string {
	return []string{
		"GIT_AUTHOR_NAME=" + userName, "GIT_AUTHOR_EMAIL=" + userEmail, "GIT_AUTHOR_DATE=" + commitDate,
		"GIT_COMMITTER_NAME=" + userName, "GIT_COMMITTER_EMAIL=" + userEmail, "GIT_COMMITTER_DATE=" + commitDate,
	}
}

// The identity of commits that the harness writes, and of those that a cell writes without saying who it is.
const (
	userName   = "cellharness"
	userEmail  = "cellharness@localhost"
	commitDate = "946684800 +0000" // 2000-01-01
)

// mirrorBuild makes one mirror in a directory that nobody else knows yet.
type mirrorBuild struct {
	git     *Git
	src     *Source
	dir     string
	history History
}

// make fills the directory: objects, files, index, attributes, and the seal over all of them at last.
func (b *mirrorBuild) make(ctx context.Context, base string) error {
	gitDir := filepath.Join(b.dir, mirrorGit)
	commit := base
	var err error
	if b.history == HistoryNone {
		commit, err = b.fetchWithoutHistory(ctx, gitDir, base)
	} else {
		err = b.fetch(ctx, gitDir, base)
	}
	if err != nil {
		return err
	}
	facts := mirrorFacts{
		Base: base, Commit: commit, Format: b.src.ObjectFormat, History: b.history,
		Shallow: b.src.Shallow,
	}
	if facts.Tree, err = b.git.output(ctx, inside(gitDir, "rev-parse", "--verify", "-q", commit+"^{tree}")); err != nil {
		return fmt.Errorf("read the tree of %s: %w", commit, err)
	}
	found, err := readListing(ctx, b.git, inside(gitDir), commit)
	if err != nil {
		return fmt.Errorf("read the files of %s: %w", commit, err)
	}
	for _, f := range found.filters() {
		facts.Filters = append(facts.Filters, []byte(f.name))
	}
	for _, name := range found.submodules {
		facts.Submodules = append(facts.Submodules, []byte(name))
	}
	if err := b.checkout(ctx, gitDir, commit, attributeText(found.attributes)); err != nil {
		return err
	}
	return b.finish(facts)
}

// inside is a command on a repository that is named, never discovered.
func inside(gitDir string, args ...string) command {
	return command{args: args, env: []string{"GIT_DIR=" + gitDir}}
}

// fetch makes a bare repository at gitDir with what base can reach, or with all refs.
func (b *mirrorBuild) fetch(ctx context.Context, gitDir, base string, options ...string) error {
	if err := b.init(ctx, gitDir); err != nil {
		return err
	}
	specs := []string{base + ":" + mirrorRef}
	if b.history == HistoryFull {
		specs = append(specs, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", "+refs/remotes/*:refs/remotes/*")
	}
	if err := b.fetchFrom(ctx, gitDir, b.src.CommonDir, specs, options...); err != nil {
		if b.src.Partial {
			return b.src.incomplete(base)
		}
		return fmt.Errorf("copy commit %s from %s: %w", base, b.src.Root, err)
	}
	// A fetch from a shallow repository was seen to end with exit code 0 and bring nothing.
	if _, err := b.git.output(ctx, inside(gitDir, "rev-parse", "--verify", "-q", base+"^{commit}")); err != nil {
		return fmt.Errorf("find commit %s in the copy from %s: %w", base, b.src.Root, err)
	}
	if b.history != HistoryFull {
		return nil
	}
	if _, err := b.git.run(ctx, inside(gitDir, "pack-refs", "--all")); err != nil {
		return fmt.Errorf("pack the refs of the mirror: %w", err)
	}
	return nil
}

func (b *mirrorBuild) init(ctx context.Context, gitDir string) error {
	_, err := b.git.run(ctx, command{args: []string{
		"init", "--quiet", "--bare", "--template=",
		"--object-format=" + b.src.ObjectFormat, gitDir,
	}})
	if err != nil {
		return fmt.Errorf("make a mirror: %w", err)
	}
	return nil
}

func (b *mirrorBuild) fetchFrom(ctx context.Context, gitDir, from string, specs []string, options ...string) error {
	c := inside(gitDir, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head",
		"--update-shallow", "--no-auto-maintenance", "--no-recurse-submodules")
	c.args = append(append(c.args, options...), from)
	c.args = append(c.args, specs...)
	c.source, c.fetch = true, true
	_, err := b.git.run(ctx, c)
	return err
}

// fetchWithoutHistory makes a repository at gitDir that holds the files of base and one commit of them without
// parent, and returns that commit. It goes through a second repository, because the first one holds the base commit
// itself.
func (b *mirrorBuild) fetchWithoutHistory(ctx context.Context, gitDir, base string) (commit string, err error) {
	first := filepath.Join(b.dir, "with-base")
	if err := b.fetch(ctx, first, base, "--depth=1"); err != nil {
		return "", err
	}
	c := inside(first, "commit-tree", "-m", "base", base+"^{tree}")
	c.env = append(c.env, author()...)
	if commit, err = b.git.output(ctx, c); err != nil {
		return "", fmt.Errorf("make a commit without history: %w", err)
	}
	if err := b.init(ctx, gitDir); err != nil {
		return "", err
	}
	if err := b.fetchFrom(ctx, gitDir, first, []string{commit + ":" + mirrorRef}); err != nil {
		return "", fmt.Errorf("copy the commit without history: %w", err)
	}
	return commit, os.RemoveAll(first)
}

// checkout writes the files of commit and their index. Line ends and encodings follow the commit's own attributes;
// no filter is configured, so that files with one are as stored.
func (b *mirrorBuild) checkout(ctx context.Context, gitDir, commit, attributes string) error {
	tree := filepath.Join(b.dir, mirrorTree)
	info := filepath.Join(gitDir, "info")
	err := errors.Join(
		os.Mkdir(tree, 0o700),
		os.MkdirAll(info, 0o700),
		os.WriteFile(filepath.Join(info, "attributes"), []byte(attributes), 0o400),
		os.WriteFile(filepath.Join(b.dir, mirrorAttributes), []byte(attributes), 0o400),
	)
	if err != nil {
		return fmt.Errorf("make a mirror: %w", err)
	}
	c := inside(gitDir, "read-tree", "-m", "-u", commit)
	c.dir = tree
	c.env = append(c.env, "GIT_WORK_TREE="+tree, "GIT_INDEX_FILE="+filepath.Join(b.dir, mirrorIndex))
	if _, err := b.git.run(ctx, c); err != nil {
		return fmt.Errorf("check out %s: %w", commit, err)
	}
	return nil
}

func (b *mirrorBuild) finish(facts mirrorFacts) error {
	data, err := json.Marshal(facts)
	if err != nil {
		return fmt.Errorf("make a mirror: %w", err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, mirrorMeta), data, 0o400); err != nil {
		return fmt.Errorf("make a mirror: %w", err)
	}
	if err := protect(filepath.Join(b.dir, mirrorGit)); err != nil {
		return fmt.Errorf("make the mirror read-only: %w", err)
	}
	sealed, err := takeSeal(b.dir)
	if err != nil {
		return err
	}
	if err := sealed.write(b.dir); err != nil {
		return fmt.Errorf("seal the mirror: %w", err)
	}
	return nil
}

// protect takes the write permission from every file below dir, against mistakes; the seal is there against intent.
func protect(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o400)
	})
}

// repositoryConfig is what every git directory of ours says about its repository.
func repositoryConfig(format string) string {
	if format == "sha1" {
		return "[core]\n\trepositoryformatversion = 0\n"
	}
	return "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = " + format + "\n"
}
