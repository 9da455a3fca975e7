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
	"sort"

	"cellharness/shared"
)

// Mask is what stands in stored output in the place of a secret.
const Mask = "***"

// Masker knows the forms of some secrets: plain, base64, URL-escaped and JSON-escaped.
type Masker struct {
	forms   [][]byte // longest first
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
		}
	}
	if len(m.forms) == 0 {
		return nil, nil
	}
	sort.Slice(m.forms, func(i, j int) bool { return len(m.forms[i]) > len(m.forms[j]) })
	m.longest = len(m.forms[0])
	return m, nil
}

func formsOf(value string) ([]string, error) {
	quoted, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("escape a secret: %w", err)
	}
	raw := []byte(value)
	return []string{
		value,
		base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
		base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
		url.QueryEscape(value), url.PathEscape(value),
		string(quoted[1 : len(quoted)-1]),
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

// pass writes all but the last keep bytes; a secret that starts before those is complete.
func (w *Writer) pass(keep int) error {
	for {
		at, length := w.masker.first(w.held)
		if at < 0 || (keep > 0 && w.masker.mayGrow(w.held[at:], length)) {
			break
		}
		if err := w.write(w.held[:at]); err != nil {
			return err
		}
		if err := w.write([]byte(Mask)); err != nil {
			return err
		}
		w.found++
		w.held = w.held[at+length:]
	}
	if out := len(w.held) - keep; out > 0 {
		if err := w.write(w.held[:out]); err != nil {
			return err
		}
		w.held = append([]byte(nil), w.held[out:]...)
	}
	return nil
}

func (w *Writer) write(p []byte) error {
	_, err := w.to.Write(p)
	return err
}

// mayGrow tells whether b, which starts with a form of the given length, is the start of a longer form.
func (m *Masker) mayGrow(b []byte, length int) bool {
	for _, f := range m.forms { // longest first
		if len(f) <= length {
			return false
		}
		if len(b) < len(f) && bytes.HasPrefix(f, b) {
			return true
		}
	}
	return false
}

// first finds the secret that starts first in b, the longest one where two start at the same place.
func (m *Masker) first(b []byte) (at, length int) {
	at = -1
	for _, f := range m.forms {
		if i := bytes.Index(b, f); i >= 0 && (at < 0 || i < at) {
			at, length = i, len(f)
		}
	}
	return at, length
}
