package record

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Printable returns bytes as valid UTF-8, each byte that is none as \xNN. JSON fields that carry paths or output of a
// command hold this form; without it the encoder would replace what distinguishes two names by the same sign.
func Printable(b string) string {
	if utf8.ValidString(b) {
		return b
	}
	var out strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRuneInString(b)
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&out, `\x%02x`, b[0])
		} else {
			out.WriteString(b[:size])
		}
		b = b[size:]
	}
	return out.String()
}
