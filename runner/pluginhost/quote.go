package pluginhost

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxQuoted is how many bytes of what an adapter wrote are shown in a message; more would bury its sentence.
const maxQuoted = 200

// quoted shows hostile bytes within a message: in quotes, escaped, cut.
func quoted(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.Quote(s[:maxQuoted]), len(s))
}

// appendEscaped appends line to b with everything that could act on a terminal or break the line written as \xNN.
// Tabs and readable text stay, whatever the language.
func appendEscaped(b, line []byte) []byte {
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if r == '\t' || (strconv.IsPrint(r) && !(r == utf8.RuneError && size == 1)) {
			b = append(b, line[:size]...)
		} else {
			for _, c := range line[:size] {
				b = fmt.Appendf(b, `\x%02x`, c)
			}
		}
		line = line[size:]
	}
	return b
}

// cutLine shortens an escaped line and says how long it was.
func cutLine(line string, most int) string {
	if len(line) <= most {
		return line
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(line[:most], ""), len(line))
}
