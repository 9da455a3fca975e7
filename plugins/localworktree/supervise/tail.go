package supervise

import "strings"

// tailSize is how much of what a supervisor said before it died is kept for the error.
const tailSize = 4 << 10

// tail keeps the last tailSize bytes that are written to it.
type tail struct{ kept []byte }

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailSize; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// String returns what was kept as one line of valid UTF-8.
func (t *tail) String() string {
	return strings.ToValidUTF8(strings.Join(strings.Fields(string(t.kept)), " "), "\uFFFD")
}
