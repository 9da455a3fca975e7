package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"cellharness/shared"
)

// maxEntries and maxDepth bound one search. A command can make millions of names; what it was asked to leave behind
// is far below.
const (
	maxEntries = 100_000
	maxDepth   = 64
	// listBatch is how many names are read of a directory at once, so that a huge one is never held whole.
	listBatch = 1024
)

// finder looks for what a set of patterns matches.
type finder struct {
	patterns []shared.Pattern
	device   uint64          // directories of another one are left alone
	matched  []bool          // for each pattern
	found    map[string]bool // paths
	entries  int             // names left to look at
	cut      string          // why something was not looked at
	unread   []string        // directories that could not be read, and why
}

func newFinder(patterns []shared.Pattern, device uint64) *finder {
	return &finder{
		patterns: patterns, device: device, entries: maxEntries,
		matched: make([]bool, len(patterns)), found: map[string]bool{},
	}
}

// search visits the directory at prefix (empty: the workspace) and what is below it, without following links. It
// enters only directories that a pattern leads to, so that a large folder elsewhere uses up nothing.
func (f *finder) search(ctx context.Context, dir *os.Root, prefix []string) error {
	below, err := f.list(ctx, dir, prefix)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		f.unread = append(f.unread, fmt.Sprintf("%q %s", path.Join(append([]string{"."}, prefix...)...), reason(err)))
	}
	for _, name := range below {
		if err := f.enter(ctx, dir, append(prefix[:len(prefix):len(prefix)], name)); err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) enter(ctx context.Context, parent *os.Root, at []string) error {
	if f.entries < 0 {
		return nil
	}
	if len(at) >= maxDepth {
		f.cut = fmt.Sprintf("directories deeper than %d are not searched", maxDepth)
		return nil
	}
	dir, err := openDir(parent, at[len(at)-1])
	if err != nil {
		f.unread = append(f.unread, fmt.Sprintf("%q %s", strings.Join(at, "/"), reason(err)))
		return nil
	}
	return firstError(f.searchHere(ctx, dir, at), dir.Close())
}

// searchHere searches the directory unless something is mounted on it.
func (f *finder) searchHere(ctx context.Context, dir *os.Root, at []string) error {
	info, err := dir.Stat(".")
	if err != nil {
		return err
	}
	if inodeOf(info).device != f.device {
		f.unread = append(f.unread, fmt.Sprintf("%q is on another file system", strings.Join(at, "/")))
		return nil
	}
	return f.search(ctx, dir, at)
}

// list looks at every name of dir and returns the directories to enter.
func (f *finder) list(ctx context.Context, dir *os.Root, prefix []string) (below []string, err error) {
	self, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, self.Close()) }()
	for ctx.Err() == nil {
		batch, err := self.ReadDir(listBatch)
		for _, entry := range batch {
			if f.entries--; f.entries < 0 {
				f.cut = fmt.Sprintf("the search ended after %d names", maxEntries)
				return nil, nil
			}
			if f.look(entry, prefix) {
				below = append(below, entry.Name())
			}
		}
		if errors.Is(err, io.EOF) {
			return below, nil
		}
		if err != nil {
			return below, err
		}
	}
	return nil, ctx.Err()
}

// look notes the entry when a pattern matches it, and tells whether to enter it.
func (f *finder) look(entry fs.DirEntry, prefix []string) (enter bool) {
	parts := append(prefix[:len(prefix):len(prefix)], entry.Name())
	name := strings.Join(parts, "/")
	if _, err := shared.ParsePath(name); err != nil {
		if len(name) > shared.MaxPath {
			f.cut = fmt.Sprintf("paths of more than %d bytes are left out", shared.MaxPath)
		}
		return false // the git directory
	}
	for i, pattern := range f.patterns {
		// What a final ** means is the files below a directory, never the directory.
		if pattern.Match(name) && !(entry.IsDir() && strings.HasSuffix(string(pattern), "**")) {
			f.matched[i], f.found[name] = true, true
		}
		enter = enter || (entry.IsDir() && leadsTo(pattern, parts))
	}
	return enter
}

// leadsTo tells whether the pattern can match anything below the directory.
func leadsTo(pattern shared.Pattern, dir []string) bool {
	parts := strings.Split(string(pattern), "/")
	for i, name := range dir {
		if parts[i] == "**" {
			return true
		}
		if ok, err := path.Match(parts[i], name); parts[i] != name && (err != nil || !ok) {
			return false
		}
		if i == len(parts)-1 {
			return false
		}
	}
	return true
}

// addTo adds what was found, and each pattern that matched nothing.
func (f *finder) addTo(paths map[string]bool) {
	for p := range f.found {
		paths[p] = true
	}
	for i, pattern := range f.patterns {
		if !f.matched[i] {
			paths[string(pattern)] = true
		}
	}
}

func (f *finder) notices() []shared.Notice {
	var out []shared.Notice
	if len(f.unread) > 0 {
		out = append(out, notice(shared.NoticeUnreadable, f.unread))
	}
	if f.cut != "" {
		out = append(out, shared.Notice{Kind: shared.NoticeArtifactRefused, Detail: f.cut, Count: 1})
	}
	return out
}
