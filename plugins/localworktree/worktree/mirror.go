package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// History is how much of a repository's history the workspaces of a mirror can read.
type History string

// The levels of history.
const (
	HistoryBase History = "base" // what the commit can reach
	HistoryFull History = "full" // all branches, tags and remote-tracking branches as well
	HistoryNone History = "none" // one commit with the files of the base and no parent
)

// mirrorLayout is part of a mirror's key, so that no build reads what it does not understand.
const mirrorLayout = "1"

// The names inside a mirror.
const (
	mirrorGit        = "git"         // bare repository
	mirrorTree       = "tree"        // the files of the commit, to be copied
	mirrorIndex      = "index"       // git's index of them
	mirrorAttributes = "attributes"  // the commit's attributes, for info/attributes
	mirrorMeta       = "mirror.json" // mirrorFacts
)

// mirrorRef keeps the commit of a mirror.
const mirrorRef = "refs/harness/base"

// Mirror is a finished copy of one commit, from which workspaces are made and borrow their objects. Nothing is
// written to it any more, and nothing in it is ever collected.
type Mirror struct {
	// Base is the commit that was asked for.
	Base string
	// Commit is the one that workspaces see; another one than Base where the history is HistoryNone.
	Commit string
	// Tree is the tree of both.
	Tree string
	// Notices say what history the workspaces can reach.
	Notices []Notice

	dir        string
	format     string
	filters    []string // named by the attributes of the commit
	submodules []string
	attributes []byte
	packedRefs []byte // of HistoryFull
	shallow    []byte // where history is cut
	index      *index
	seal       seal
	spoiled    atomic.Bool // a changed file was seen
}

// mirrorFacts are kept in a mirror beside its files.
type mirrorFacts struct {
	Base       string   `json:"base"`
	Commit     string   `json:"commit"`
	Tree       string   `json:"tree"`
	Format     string   `json:"format"`
	History    History  `json:"history"`
	Shallow    bool     `json:"shallow"` // the source was
	Filters    [][]byte `json:"filters,omitempty"`
	Submodules [][]byte `json:"submodules,omitempty"`
}

// Mirror returns the mirror of commit, and makes it where there is none that is as it was made. One process makes it;
// others that ask for the same wait. It may be called for every workspace: a mirror is checked whole once in each
// process, and anew when a change was seen. Objects are copied by a fetch, so nothing that the commit cannot reach comes
// along (but for HistoryFull), and nothing is linked to the user's repository.
func (st *Store) Mirror(ctx context.Context, src *Source, commit string, h History) (*Mirror, error) {
	if h != HistoryBase && h != HistoryFull && h != HistoryNone {
		return nil, fmt.Errorf("history is %q; it can be base, full or none", h)
	}
	key, err := mirrorKey(ctx, src, commit, h)
	if err != nil {
		return nil, err
	}
	if m, ok := st.cached(key); ok {
		return m, nil
	}
	lock, err := st.lock(ctx, filepath.Join(st.mirrorDir(), key+".lock"))
	if err != nil {
		return nil, err
	}
	m, err := st.lockedMirror(ctx, src, key, commit, h)
	if closeErr := lock.Close(); closeErr != nil {
		return nil, errors.Join(err, fmt.Errorf("release the lock of a mirror: %w", closeErr))
	}
	return m, err
}

func (st *Store) lockedMirror(ctx context.Context, src *Source, key, commit string, h History) (*Mirror, error) {
	dir := filepath.Join(st.mirrorDir(), key)
	if m, err := st.open(key); err == nil {
		return m, nil
	}
	// What cannot be believed is made anew at the same path, where older workspaces go on to find their objects.
	build := dir + ".build"
	for _, name := range []string{build, dir} {
		if err := st.discard(ctx, name); err != nil {
			return nil, fmt.Errorf("remove the damaged mirror %s: %w", name, err)
		}
	}
	if err := os.Mkdir(build, 0o700); err != nil {
		return nil, fmt.Errorf("make a mirror: %w", err)
	}
	b := &mirrorBuild{git: st.git, src: src, dir: build, history: h}
	if err := b.make(ctx, commit); err != nil {
		return nil, errors.Join(err, st.discard(context.WithoutCancel(ctx), build))
	}
	if err := os.Rename(build, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("put the mirror in place: %w", err), st.discard(ctx, build))
	}
	return st.open(key)
}

// mirrorKey names a mirror by all that its content depends on.
func mirrorKey(ctx context.Context, src *Source, commit string, h History) (string, error) {
	parts := []string{mirrorLayout, src.CommonDir, src.ObjectFormat, commit, string(h)}
	if h == HistoryFull {
		refs, err := src.output(ctx, "for-each-ref", "--format=%(objectname) %(refname)")
		if err != nil {
			return "", fmt.Errorf("list the refs of %s: %w", src.Root, err)
		}
		parts = append(parts, refs)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16]), nil
}

// openMirror reads a mirror and proves that it is as it was made. It fails with ErrMirror.
func openMirror(dir string) (*Mirror, error) {
	m, err := readMirror(dir)
	if err != nil {
		return nil, fail(ErrMirror, "the mirror %s cannot be used: %v", dir, err)
	}
	return m, nil
}

func readMirror(dir string) (*Mirror, error) {
	sealed, err := checkSeal(dir)
	if err != nil {
		return nil, err
	}
	m := &Mirror{dir: dir, seal: sealed}
	data, err := os.ReadFile(filepath.Join(dir, mirrorMeta))
	if err != nil {
		return nil, err
	}
	var facts mirrorFacts
	if err := json.Unmarshal(data, &facts); err != nil {
		return nil, fmt.Errorf("read %s: %w", mirrorMeta, err)
	}
	m.apply(facts)
	if data, err = os.ReadFile(filepath.Join(dir, mirrorIndex)); err != nil {
		return nil, err
	}
	if m.index, err = parseIndex(data, m.format); err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	if m.attributes, err = os.ReadFile(filepath.Join(dir, mirrorAttributes)); err != nil {
		return nil, err
	}
	if m.shallow, err = readOptional(filepath.Join(dir, mirrorGit, "shallow")); err != nil {
		return nil, err
	}
	if facts.History == HistoryFull {
		m.packedRefs, err = readOptional(filepath.Join(dir, mirrorGit, "packed-refs"))
	}
	return m, err
}

func (m *Mirror) apply(facts mirrorFacts) {
	m.Base, m.Commit, m.Tree, m.format = facts.Base, facts.Commit, facts.Tree, facts.Format
	for _, name := range facts.Filters {
		m.filters = append(m.filters, string(name))
	}
	for _, name := range facts.Submodules {
		m.submodules = append(m.submodules, string(name))
	}
	switch facts.History {
	case HistoryFull:
		m.notice("all branches and tags of the repository can be read, answers among them perhaps")
	case HistoryNone:
		m.notice(fmt.Sprintf("the workspace is at commit %s, which has the files of the base and no history", m.Commit))
	}
	if facts.Shallow && facts.History != HistoryNone {
		m.notice("the repository is a shallow clone, so its history is cut")
	}
}

func (m *Mirror) notice(detail string) {
	m.Notices = append(m.Notices, Notice{Kind: NoticeHistory, Detail: detail})
}

func (m *Mirror) objects() string { return filepath.Join(m.dir, mirrorGit, "objects") }

func readOptional(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
