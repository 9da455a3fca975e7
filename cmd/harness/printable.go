package main

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
)

// printable escapes what could steer a terminal or reorder its text: messages quote what cells and adapters wrote.
type printable struct{ to io.Writer }

// Write passes line ends and tabs, and shows other control characters as their numbers.
func (p printable) Write(b []byte) (int, error) {
	var out bytes.Buffer
	for _, r := range string(b) {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			fmt.Fprintf(&out, "\\u%04x", r)
			continue
		}
		out.WriteRune(r)
	}
	if _, err := p.to.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}
