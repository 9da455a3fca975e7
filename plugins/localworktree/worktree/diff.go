package worktree

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
)

// DiffStat sums up a patch. Applied to the tree From it gives the tree To.
type DiffStat struct {
	Files      int64
	Insertions int64 // lines of text files
	Deletions  int64 // lines of text files
	Bytes      int64 // of the patch
	SHA256     string
	From       string // tree id
	To         string // tree id
}

// diffFlags make the patch independent of settings. With them it was byte-identical under 24 settings of users that
// change patches. --numstat comes first in the output, one line for each file and an empty one.
var diffFlags = []string{
	"-r", "--numstat", "--patch", "--binary", "--full-index", "-U3", "--inter-hunk-context=0", "--no-ext-diff",
	"--no-textconv", "--no-color", "--no-renames", "--no-relative", "--src-prefix=a/", "--dst-prefix=b/",
	"--ignore-submodules=none", "--submodule=short", "--diff-algorithm=myers", "--no-indent-heuristic", "-O/dev/null",
}

// Diff writes the patch between two trees of the workspace: BaseTree, StartTree, or those of Snapshots. Equal trees
// give no bytes. The patch is never held in memory here, however large.
func (w *Workspace) Diff(ctx context.Context, from, to string, out io.Writer) (DiffStat, error) {
	p := &patchWriter{out: out, hash: sha256.New(), stat: DiffStat{From: from, To: to}}
	if from == to {
		return p.sum(), nil
	}
	t, err := w.trusted(nil)
	if err != nil {
		return DiffStat{}, err
	}
	args := append([]string{"diff-tree"}, diffFlags...)
	// Without a working tree, attributes come from info/attributes alone.
	c := inside(t.dir, append(args, from, to, "--")...)
	if err := p.run(ctx, w.store.git, c); err != nil {
		return DiffStat{}, fmt.Errorf("compare the trees %s and %s of workspace %s: %w", from, to, w.Name(), err)
	}
	return p.sum(), nil
}

// patchWriter separates the numbers from the patch, and counts and hashes the latter on its way.
type patchWriter struct {
	out  io.Writer
	hash hash.Hash
	stat DiffStat
}

// run runs git with its output read as it comes.
func (p *patchWriter) run(ctx context.Context, g *Git, c command) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, writer := io.Pipe()
	c.stdout = writer
	ended := make(chan error, 1)
	go func() {
		_, err := g.run(ctx, c)
		_ = writer.CloseWithError(err) // never fails, as documented
		ended <- err
	}()
	err := p.read(bufio.NewReaderSize(reader, 64<<10))
	if err != nil {
		cancel() // nobody reads any more
	}
	_ = reader.CloseWithError(err) // never fails either
	gitErr := <-ended
	if err != nil {
		return err
	}
	return gitErr
}

func (p *patchWriter) read(in *bufio.Reader) error {
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the numbers of the patch: %w", err)
		}
		if line == "\n" {
			break
		}
		if err := p.count(line); err != nil {
			return err
		}
	}
	n, err := io.Copy(io.MultiWriter(p.hash, p.out), in)
	p.stat.Bytes = n
	if err != nil {
		return fmt.Errorf("write the patch: %w", err)
	}
	return nil
}

// count reads one line of --numstat: insertions, deletions, name. Binary files have dashes for numbers.
func (p *patchWriter) count(line string) error {
	insertions, rest, _ := strings.Cut(line, "\t")
	deletions, _, found := strings.Cut(rest, "\t")
	if !found {
		return fmt.Errorf("read the numbers of the patch: %q are none", line)
	}
	p.stat.Files++
	if insertions == "-" {
		return nil
	}
	plus, errPlus := strconv.ParseInt(insertions, 10, 64)
	minus, errMinus := strconv.ParseInt(deletions, 10, 64)
	if err := errors.Join(errPlus, errMinus); err != nil {
		return fmt.Errorf("read the numbers of the patch: %w", err)
	}
	p.stat.Insertions += plus
	p.stat.Deletions += minus
	return nil
}

func (p *patchWriter) sum() DiffStat {
	p.stat.SHA256 = hex.EncodeToString(p.hash.Sum(nil))
	return p.stat
}
