package adaptertest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"cellharness/shared"
)

// The patch of the fake adapter is a git patch in its plainest form, which git apply reads too: files sorted by name,
// one hunk a file that spans the whole file, equal lines at both ends as context and every line between them as changed.
// Data that is not text is written in the same way. A rename is a removal and an addition.

// noNewline follows a line that is the last of its file and has no line end.
const noNewline = "\\ No newline at end of file\n"

// errPatch is wrapped by every refusal of a patch.
var errPatch = errors.New("the patch does not apply")

// makePatch returns what turns from into to. No difference is an empty patch.
func makePatch(from, to tree) ([]byte, shared.Diff) {
	var w patchWriter
	all := maps.Clone(from)
	maps.Copy(all, to)
	for _, name := range all.names() {
		before, was := from[name]
		after, is := to[name]
		switch {
		case was && is && before.Mode == after.Mode && bytes.Equal(before.Data, after.Data):
			continue
		case !was:
			w.add(name, after)
		case !is:
			w.remove(name, before)
		case (before.Mode == modeLink) != (after.Mode == modeLink):
			w.remove(name, before)
			w.add(name, after)
		default:
			w.change(name, before, after)
		}
		w.sum.Files++
	}
	digest := sha256.Sum256(w.Bytes())
	w.sum.From, w.sum.Tree = from.id(), to.id()
	w.sum.Bytes, w.sum.SHA256 = int64(w.Len()), hex.EncodeToString(digest[:])
	return w.Bytes(), w.sum
}

type patchWriter struct {
	bytes.Buffer
	sum shared.Diff
}

func (w *patchWriter) add(name string, e entry) {
	fmt.Fprintf(w, "diff --git %s %s\nnew file mode %s\n", quoteName("a/"+name), quoteName("b/"+name), e.Mode)
	w.hunk("/dev/null", quoteName("b/"+name), nil, lines(e.Data))
}

func (w *patchWriter) remove(name string, e entry) {
	fmt.Fprintf(w, "diff --git %s %s\ndeleted file mode %s\n", quoteName("a/"+name), quoteName("b/"+name), e.Mode)
	w.hunk(quoteName("a/"+name), "/dev/null", lines(e.Data), nil)
}

func (w *patchWriter) change(name string, before, after entry) {
	fmt.Fprintf(w, "diff --git %s %s\n", quoteName("a/"+name), quoteName("b/"+name))
	if before.Mode != after.Mode {
		fmt.Fprintf(w, "old mode %s\nnew mode %s\n", before.Mode, after.Mode)
	}
	if !bytes.Equal(before.Data, after.Data) {
		w.hunk(quoteName("a/"+name), quoteName("b/"+name), lines(before.Data), lines(after.Data))
	}
}

func (w *patchWriter) hunk(before, after string, old, new []string) {
	if len(old) == 0 && len(new) == 0 {
		return
	}
	fmt.Fprintf(w, "--- %s\n+++ %s\n@@ -%s +%s @@\n", before, after, lineRange(old), lineRange(new))
	head, tail := commonEnds(old, new)
	w.lines(" ", old[:head])
	w.lines("-", old[head:len(old)-tail])
	w.lines("+", new[head:len(new)-tail])
	w.lines(" ", old[len(old)-tail:])
	w.sum.Deletions += int64(len(old) - head - tail)
	w.sum.Insertions += int64(len(new) - head - tail)
}

func (w *patchWriter) lines(mark string, list []string) {
	for _, l := range list {
		w.WriteString(mark)
		w.WriteString(l)
		if !strings.HasSuffix(l, "\n") {
			w.WriteString("\n" + noNewline)
		}
	}
}

func lineRange(list []string) string {
	if len(list) == 0 {
		return "0,0"
	}
	return fmt.Sprintf("1,%d", len(list))
}

// commonEnds counts the equal lines at the start and at the end, no line twice.
func commonEnds(a, b []string) (head, tail int) {
	most := min(len(a), len(b))
	for head < most && a[head] == b[head] {
		head++
	}
	for tail < most-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, tail
}

// lines cuts data behind every line end.
func lines(data []byte) []string {
	list := strings.SplitAfter(string(data), "\n")
	return list[:len(list)-1+min(1, len(list[len(list)-1]))]
}

// quoteName quotes a name as git does where it holds a byte that is not plain.
func quoteName(name string) string {
	var quoted strings.Builder
	plain := true
	for i := range len(name) {
		c := name[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			quoted.WriteByte(c)
			continue
		}
		plain = false
		fmt.Fprintf(&quoted, `\%03o`, c)
	}
	if plain {
		return name
	}
	return `"` + quoted.String() + `"`
}

// applyPatch returns base with a patch of makePatch applied.
func applyPatch(base tree, patch []byte) (tree, error) {
	result := maps.Clone(base)
	r := patchReader{left: lines(patch)}
	for len(r.left) > 0 {
		if err := r.file(result); err != nil {
			return nil, err
		}
	}
	return result, nil
}

type patchReader struct {
	left []string // lines
}

// take returns the rest of the next line if it begins with prefix.
func (r *patchReader) take(prefix string) (string, bool) {
	if len(r.left) == 0 || !strings.HasPrefix(r.left[0], prefix) {
		return "", false
	}
	rest := strings.TrimPrefix(r.left[0], prefix)
	r.left = r.left[1:]
	return strings.TrimSuffix(rest, "\n"), true
}

// file applies the part of the patch that concerns the next file.
func (r *patchReader) file(t tree) error {
	header, ok := r.take("diff --git ")
	if !ok {
		return fmt.Errorf("%w: %q is not the start of a file", errPatch, r.left[0])
	}
	name, err := headerName(header)
	if err != nil {
		return err
	}
	e, exists := t[name]
	mode, added := r.take("new file mode ")
	_, removed := r.take("deleted file mode ")
	_, changed := r.take("old mode ")
	if changed {
		mode, _ = r.take("new mode ")
	}
	if exists == added {
		return fmt.Errorf("%w: %q is there: %t, and added: %t", errPatch, name, exists, added)
	}
	if added || changed {
		e.Mode = mode
	}
	if e.Data, err = r.hunk(name, e.Data); err != nil {
		return err
	}
	t[name] = e
	if removed {
		delete(t, name)
	}
	return nil
}

// headerName reads the name out of "a/NAME b/NAME", in which both have the same length.
func headerName(header string) (string, error) {
	if len(header) < len("a/x b/x") {
		return "", fmt.Errorf("%w: it has a file without a name", errPatch)
	}
	name := header[:len(header)/2]
	if unquoted, err := strconv.Unquote(name); err == nil {
		name = unquoted
	}
	name = strings.TrimPrefix(name, "a/")
	if _, err := shared.ParsePath(name); err != nil {
		return "", fmt.Errorf("%w: %w", errPatch, err)
	}
	return name, nil
}

// hunk reads the hunk, if there is one, and returns what it makes of before.
func (r *patchReader) hunk(name string, before []byte) ([]byte, error) {
	if _, ok := r.take("--- "); !ok {
		return before, nil
	}
	r.take("+++ ")
	if _, ok := r.take("@@ "); !ok {
		return nil, fmt.Errorf("%w: %q has no hunk", errPatch, name)
	}
	var old, new []byte
	for len(r.left) > 0 && strings.ContainsAny(r.left[0][:1], " +-") {
		line := r.left[0]
		r.left = r.left[1:]
		text := line[1:]
		if len(r.left) > 0 && r.left[0] == noNewline {
			r.left = r.left[1:]
			text = strings.TrimSuffix(text, "\n")
		}
		if line[0] != '+' {
			old = append(old, text...)
		}
		if line[0] != '-' {
			new = append(new, text...)
		}
	}
	if !bytes.Equal(old, before) {
		return nil, fmt.Errorf("%w: %q is not what the patch was made from", errPatch, name)
	}
	return new, nil
}
