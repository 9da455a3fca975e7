package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"cellharness/shared"
)

// Collect reads what the patterns name from the workspace root and hands it to sink, one artifact after another, each
// path once, sorted by its bytes. A pattern without a wildcard names one file and always gives one artifact; one with
// wildcards gives what it matches, or one ArtifactMissing under the pattern itself. Links are never followed; links,
// hard links, pipes, sockets, devices, what lies on another file system and what cannot be read is ArtifactRefused with
// the reason. maxBytes is the most that is read of one file; 0 is no bound. The notices tell what was refused and what
// a search left out.
//
// What is wrong with a file is the state of its artifact. The error is that of ctx, of sink, or of the root itself.
func Collect(
	ctx context.Context, root *os.Root, patterns []shared.Pattern, maxBytes int64, sink shared.ArtifactSink,
) ([]shared.Notice, error) {
	if err := checkPatterns(patterns); err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err != nil {
		return nil, collectError(ctx, fmt.Errorf("look at the workspace: %w", err))
	}
	if inodeOf(info).links == 0 {
		return nil, &shared.Error{
			Code: shared.CodePrecondition, Cause: shared.CauseCollect,
			Message: "collect artifacts: the directory of the workspace was removed",
		}
	}
	c := collector{
		root: root, device: inodeOf(info).device, maxBytes: maxBytes, sink: sink, buffer: make([]byte, bufferBytes),
	}
	paths, notices, err := c.find(ctx, patterns)
	if err != nil {
		return nil, collectError(ctx, err)
	}
	for _, p := range paths {
		if err := c.collect(ctx, p); err != nil {
			return nil, collectError(ctx, fmt.Errorf("artifact %q: %w", p, err))
		}
	}
	return append(c.refusals(), notices...), nil
}

func checkPatterns(patterns []shared.Pattern) error {
	for _, p := range patterns {
		if _, err := shared.ParsePattern(string(p)); err != nil {
			return &shared.Error{Code: shared.CodeInvalid, Cause: shared.CauseCollect, Message: "artifact: " + err.Error()}
		}
	}
	return nil
}

// collectError keeps what the sink said, and gives the rest its code.
func collectError(ctx context.Context, err error) error {
	if errors.As(err, new(*shared.Error)) {
		return err
	}
	code := shared.CodeInternal
	if ctx.Err() != nil {
		code = ctxCode(ctx)
	}
	return &shared.Error{Code: code, Cause: shared.CauseCollect, Message: "collect artifacts: " + err.Error(), Err: err}
}

// collector reads the files of one workspace.
type collector struct {
	root     *os.Root
	device   uint64
	maxBytes int64
	sink     shared.ArtifactSink
	buffer   []byte
	refused  []string // for the notice
}

// find returns what to collect, sorted; a pattern that matches nothing stands for itself.
func (c *collector) find(ctx context.Context, patterns []shared.Pattern) ([]string, []shared.Notice, error) {
	paths := map[string]bool{}
	var globs []shared.Pattern
	for _, p := range patterns {
		if p.IsGlob() {
			globs = append(globs, p)
			continue
		}
		paths[string(p)] = true
	}
	var notices []shared.Notice
	if len(globs) > 0 {
		f := newFinder(globs, c.device)
		if err := f.search(ctx, c.root, nil); err != nil {
			return nil, nil, err
		}
		f.addTo(paths)
		notices = f.notices()
	}
	sorted := make([]string, 0, len(paths))
	for p := range paths {
		sorted = append(sorted, p)
	}
	slices.Sort(sorted)
	return sorted, notices, nil
}

// collect hands over one artifact. Its error is that of ctx or of the sink.
func (c *collector) collect(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.sink.Begin(shared.ArtifactFile, path); err != nil {
		return err
	}
	a := shared.Artifact{Kind: shared.ArtifactFile, Path: path}
	file, err := c.open(path)
	if err == nil {
		err = c.read(ctx, file, &a)
		err = firstError(err, file.Close())
	}
	if err := c.settle(ctx, err, &a); err != nil {
		return err
	}
	return c.sink.End(a)
}

// settle turns what was met into the state of the artifact, and returns what was not the artifact's fault.
func (c *collector) settle(ctx context.Context, err error, a *shared.Artifact) error {
	var sinkErr *sinkError
	var state *stateError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &sinkErr):
		return sinkErr.err
	case errors.As(err, &state):
		a.State, a.Bytes, a.Detail = state.state, state.bytes, state.detail
	default:
		a.State, a.Bytes, a.Detail = shared.ArtifactRefused, 0, reason(err)
	}
	a.SHA256 = ""
	if a.State == shared.ArtifactRefused {
		c.refused = append(c.refused, fmt.Sprintf("%q: %s", a.Path, a.Detail))
	}
	return nil
}

// stateError ends an artifact in a state other than present.
type stateError struct {
	state  shared.ArtifactState
	bytes  int64
	detail string
}

func (e *stateError) Error() string { return string(e.state) + ": " + e.detail }

func refused(detail string) error { return &stateError{state: shared.ArtifactRefused, detail: detail} }

// sinkError is an error of the sink, which is not the file's fault.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }
func (e *sinkError) Unwrap() error { return e.err }

// open opens a plain file of the workspace, and fails with a *stateError for anything else.
func (c *collector) open(path string) (file *os.File, err error) {
	dir, name, err := openParent(c.root, path, openDir)
	if err != nil {
		return nil, missingBelow(err)
	}
	defer func() { err = firstError(err, dir.Close()) }()
	seen, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &stateError{state: shared.ArtifactMissing}
	}
	if err != nil {
		return nil, err
	}
	if err := c.admit(dir, name, seen); err != nil {
		return nil, err
	}
	// A pipe that took the file's place would block an open without O_NONBLOCK for ever.
	file, err = dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := file.Stat()
	if err == nil && !os.SameFile(seen, opened) {
		err = refused("was replaced while it was opened")
	}
	if err == nil {
		err = c.admit(dir, name, opened)
	}
	if err != nil {
		return nil, firstError(err, file.Close())
	}
	return file, nil
}

// missingBelow turns the end of a way into a state: nothing can exist below what does not exist or is a file.
func missingBelow(err error) error {
	var plain *notPlainError
	if errors.Is(err, fs.ErrNotExist) || (errors.As(err, &plain) && plain.empty) {
		return &stateError{state: shared.ArtifactMissing}
	}
	return refused(err.Error())
}

// admit fails with a *stateError unless info is that of a file which may be read.
func (c *collector) admit(dir *os.Root, name string, info fs.FileInfo) error {
	node := inodeOf(info)
	switch {
	case info.IsDir():
		return &stateError{state: shared.ArtifactDirectory}
	case !info.Mode().IsRegular():
		return refused(describe(dir, name, info))
	case node.links > 1:
		return refused(fmt.Sprintf("is a hard link: the file has %d names, and not all of them need be in the workspace", node.links))
	case node.device != c.device:
		return refused("is on another file system")
	}
	return nil
}

// read hands the bytes of the file to the sink and completes the artifact.
func (c *collector) read(ctx context.Context, file *os.File, a *shared.Artifact) error {
	before, err := file.Stat()
	if err != nil {
		return err
	}
	if c.maxBytes > 0 && before.Size() > c.maxBytes {
		return &stateError{state: shared.ArtifactTooLarge, bytes: before.Size()}
	}
	digest, reader := sha256.New(), contextReader{ctx, file}
	for {
		n, err := reader.Read(c.buffer)
		if c.maxBytes > 0 && a.Bytes+int64(n) > c.maxBytes {
			return tooLarge(file, a.Bytes+int64(n))
		}
		a.Bytes += int64(n)
		digest.Write(c.buffer[:n])
		if sinkErr := c.write(c.buffer[:n]); sinkErr != nil {
			return sinkErr
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	a.State, a.SHA256 = shared.ArtifactPresent, hex.EncodeToString(digest.Sum(nil))
	if a.Bytes != before.Size() {
		a.Detail = fmt.Sprintf("had %d bytes when it was opened and %d when it was read", before.Size(), a.Bytes)
	}
	return nil
}

func (c *collector) write(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if _, err := c.sink.Write(data); err != nil {
		return &sinkError{err}
	}
	return nil
}

// tooLarge tells the apparent size of a file that has more bytes than it had when it was opened.
func tooLarge(file *os.File, read int64) error {
	size := read
	if info, err := file.Stat(); err == nil {
		size = max(size, info.Size())
	}
	return &stateError{state: shared.ArtifactTooLarge, bytes: size}
}

// refusals is the notice of what was refused, if anything was.
func (c *collector) refusals() []shared.Notice {
	if len(c.refused) == 0 {
		return nil
	}
	return []shared.Notice{notice(shared.NoticeArtifactRefused, c.refused)}
}

func notice(kind shared.NoticeKind, details []string) shared.Notice {
	shown := details
	if len(shown) > maxReasons {
		shown = append(slices.Clone(shown[:maxReasons]), "…")
	}
	return shared.Notice{Kind: kind, Detail: strings.Join(shown, "; "), Count: int64(len(details))}
}
