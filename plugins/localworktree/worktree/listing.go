package worktree

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

var errMissingObject = errors.New("it is missing")

// listing is what has to be known of a commit's files: which attributes they carry and which are submodules.
type listing struct {
	attributes []attributeFile // shallow directories first
	submodules []string
}

// attributeFile is one .gitattributes of a commit.
type attributeFile struct {
	dir  string // its directory, "." for the top
	data []byte
}

// readListing reads the listing of commit from the repository that the given command is set up for.
func readListing(ctx context.Context, g *Git, repository command, commit string) (listing, error) {
	var out bytes.Buffer
	ls := repository
	ls.args = slices.Concat(repository.args, []string{"ls-tree", "-r", "-z", "--full-tree", commit})
	ls.stdout = &out
	if _, err := g.run(ctx, ls); err != nil {
		return listing{}, err
	}
	var found listing
	var ids []string
	for entry := range strings.SplitSeq(out.String(), "\x00") {
		head, name, _ := strings.Cut(entry, "\t")
		fields := strings.Fields(head)
		switch {
		case len(fields) < 3:
		case fields[0] == "160000":
			found.submodules = append(found.submodules, name)
		case path.Base(name) == ".gitattributes" && strings.HasPrefix(fields[0], "100"):
			found.attributes = append(found.attributes, attributeFile{dir: path.Dir(name)})
			ids = append(ids, fields[2])
		}
	}
	blobs, err := readBlobs(ctx, g, repository, ids)
	if err != nil {
		return listing{}, err
	}
	for i := range blobs {
		found.attributes[i].data = blobs[i]
	}
	slices.SortStableFunc(found.attributes, func(a, b attributeFile) int { return depth(a.dir) - depth(b.dir) })
	return found, nil
}

func depth(dir string) int {
	if dir == "." {
		return 0
	}
	return 1 + strings.Count(dir, "/")
}

// readBlobs reads blobs by id, in order, with one git process.
func readBlobs(ctx context.Context, g *Git, repository command, ids []string) ([][]byte, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var out bytes.Buffer
	cat := repository
	cat.args = slices.Concat(repository.args, []string{"cat-file", "--batch"})
	cat.stdin = strings.NewReader(strings.Join(ids, "\n") + "\n")
	cat.stdout = &out
	if _, err := g.run(ctx, cat); err != nil {
		return nil, err
	}
	in := bufio.NewReader(&out)
	blobs := make([][]byte, len(ids))
	for i, id := range ids {
		head, err := in.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("read object %s: %w", id, err)
		}
		fields := strings.Fields(head)
		if len(fields) != 3 {
			return nil, fmt.Errorf("read object %s: %w", id, errMissingObject)
		}
		size, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read object %s: %w", id, err)
		}
		blobs[i] = make([]byte, size+1) // with the newline that follows each object
		if _, err := io.ReadFull(in, blobs[i]); err != nil {
			return nil, fmt.Errorf("read object %s: %w", id, err)
		}
		blobs[i] = blobs[i][:size]
	}
	return blobs, nil
}

// notices says what of the commit is not checked out as a user's own git would.
func (l listing) notices() []Notice {
	var notices []Notice
	if n := len(l.submodules); n > 0 {
		notices = append(notices, Notice{
			Kind: NoticeSubmodule, Count: int64(n),
			Detail: fmt.Sprintf("%d submodules, not checked out", n),
		})
	}
	for _, f := range l.filters() {
		notices = append(notices, Notice{Kind: NoticeFilterNotApplied, Count: f.rules, Detail: fmt.Sprintf(
			"files of filter %q are given as stored (rule %q of .gitattributes)", f.name, f.rule)})
	}
	return notices
}

// filter is a filter that attributes name.
type filter struct {
	name  string
	rule  string // the first rule that names it
	rules int64
}

// filters lists the filters that the attributes name, in their order.
func (l listing) filters() []filter {
	var found []filter
	for _, file := range l.attributes {
		for _, r := range parseAttributes(file.data) {
			for _, attribute := range r.attributes {
				name, isFilter := strings.CutPrefix(attribute, "filter=")
				if !isFilter {
					continue
				}
				i := slices.IndexFunc(found, func(f filter) bool { return f.name == name })
				if i < 0 {
					i = len(found)
					found = append(found, filter{name: name, rule: r.pattern + " " + attribute})
				}
				found[i].rules++
			}
		}
	}
	return found
}
