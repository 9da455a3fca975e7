// Package redact keeps secrets out of stored bytes. It knows bytes and secrets, not where either comes from; the
// engine puts it between a cell's output and the disk. Output that holds no secret passes byte for byte.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"

	"cellharness/shared"
)

// Mask is what stands in stored output in the place of a secret.
const Mask = "***"

// Masker knows the forms of some secrets: plain, base64, URL-escaped and JSON-escaped.
type Masker struct {
	forms   [][]byte
	longest int
}

// New returns a Masker for the secrets, nil where there is nothing to mask.
func New(secrets []shared.Secret) (*Masker, error) {
	seen := map[string]bool{}
	m := &Masker{}
	for _, s := range secrets {
		if s.IsZero() {
			continue
		}
		forms, err := formsOf(s.Reveal())
		if err != nil {
			return nil, err
		}
		for _, f := range forms {
			if f == "" || seen[f] {
				continue
			}
			seen[f] = true
			m.forms = append(m.forms, []byte(f))
			m.longest = max(m.longest, len(f))
		}
	}
	if len(m.forms) == 0 {
		return nil, nil
	}
	return m, nil
}

func formsOf(value string) ([]string, error) {
	quoted, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("escape a secret: %w", err)
	}
	// Go escapes < > & in JSON, other languages do not.
	var bare bytes.Buffer
	e := json.NewEncoder(&bare)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, fmt.Errorf("escape a secret: %w", err)
	}
	raw := []byte(value)
	return []string{
		value,
		base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
		base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
		url.QueryEscape(value), url.PathEscape(value),
		string(quoted[1 : len(quoted)-1]), bare.String()[1 : bare.Len()-2],
	}, nil
}

// Mask returns text with its secrets masked.
func (m *Masker) Mask(text string) string {
	if m == nil {
		return text
	}
	var b bytes.Buffer
	w := m.Writer(&b)
	_, _ = w.Write([]byte(text)) // a buffer takes everything
	_ = w.Close()
	return b.String()
}

// Writer returns a writer that masks what passes to w. Close it to let the last bytes through.
func (m *Masker) Writer(w io.Writer) *Writer { return &Writer{masker: m, to: w} }

// Writer masks secrets, also those that are cut in two by the borders of writes. It holds back as many bytes as the
// longest secret has, less one.
type Writer struct {
	masker *Masker // nil: everything passes
	to     io.Writer
	held   []byte
	inside int // how many bytes at the start of held belong to a secret whose mask is written
	found  int64
}

// Found is how many secrets were masked.
func (w *Writer) Found() int64 { return w.found }

// Write takes all of p, even where some of it is held back.
func (w *Writer) Write(p []byte) (int, error) {
	if w.masker == nil {
		return w.to.Write(p)
	}
	w.held = append(w.held, p...)
	if err := w.pass(w.masker.longest - 1); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close passes what was held back. It does not close the writer underneath.
func (w *Writer) Close() error {
	if w.masker == nil {
		return nil
	}
	return w.pass(0)
}

// pass writes all but the last keep bytes. A secret that starts before those is complete. Secrets that overlap are
// masked as one, so that what is written does not depend on where the borders of writes are.
func (w *Writer) pass(keep int) error {
	final := len(w.held) - keep
	if final <= 0 {
		return nil
	}
	var out []byte
	done := w.inside // what lies before is written or masked
	for _, m := range w.masker.matches(w.held) {
		if m.start >= final {
			break
		}
		if m.start >= done {
			out = append(append(out, w.held[done:m.start]...), Mask...)
			w.found++
		}
		done = max(done, m.end)
	}
	if done < final {
		out = append(out, w.held[done:final]...)
		done = final
	}
	w.inside = done - final
	w.held = append(w.held[:0], w.held[final:]...)
	_, err := w.to.Write(out)
	return err
}

// match is a place of a secret.
type match struct{ start, end int }

// matches finds all places of all secrets in b, overlapping ones too, in the order of their starts.
func (m *Masker) matches(b []byte) []match {
	var found []match
	for _, f := range m.forms {
		for at := 0; ; {
			i := bytes.Index(b[at:], f)
			if i < 0 {
				break
			}
			found = append(found, match{at + i, at + i + len(f)})
			at += i + 1
		}
	}
	slices.SortFunc(found, func(a, b match) int { return a.start - b.start })
	return found
}
