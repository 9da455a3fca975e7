package pluginhost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cellharness/runner/redact"
)

const (
	// maxTailLines and maxTailBytes bound what is kept in memory of an adapter's stderr, for messages: what a person
	// reads to see why a program died, and no more than a screen.
	maxTailLines = 20
	maxTailBytes = 8 << 10
	// maxTailLine bounds one line of it, so that one long line does not push out the others.
	maxTailLine = 1 << 10
	// maxReasonLines is how many of them a message shows, which is one line itself.
	maxReasonLines = 3
	// maxBufferedLine is how much of a line is held back until its end; of a longer one the rest passes as it comes,
	// so that a line without end takes no memory.
	maxBufferedLine = 64 << 10
)

// maskedLog is the log with a mask for secrets before it.
type maskedLog struct {
	mask *redact.Writer
	log  *stderrLog
}

// Write takes all of p. Secrets have one line, so at the end of a line nothing has to be held back; the last line of an
// adapter that hangs is then in the log.
func (m maskedLog) Write(p []byte) (int, error) {
	n, err := m.mask.Write(p)
	if err != nil || !bytes.HasSuffix(p, []byte{'\n'}) {
		return n, err
	}
	return n, m.mask.Close()
}

// Close lets the last bytes through and ends the log.
func (m maskedLog) Close() error { return errors.Join(m.mask.Close(), m.log.Close()) }

// stderrLog takes what one generation of an adapter writes to stderr: all of it goes to a file, each line with a
// level, and the last lines stay in memory. It accepts any bytes and is never the reason for an error of its writer.
type stderrLog struct {
	mu        sync.Mutex
	file      io.WriteCloser // nil: only the last lines are kept
	line      []byte         // start of a line whose end is not known yet
	continued bool           // the start of the current line is in the file already
	tail      []tailLine
	fatal     string // first line with which the Go runtime says why it ends the process
	err       error  // first failure of the file
}

// tailLine is one of the last lines, as it is shown.
type tailLine struct {
	text   string
	detail bool // below the level of a warning, and so not what a process died of
}

// openStderrLog appends to dir/name.log, or keeps no file where dir is empty.
func openStderrLog(dir, name string) (*stderrLog, error) {
	if dir == "" {
		return &stderrLog{}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the adapters' logs: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of an adapter: %w", err)
	}
	return &stderrLog{file: f}, nil
}

// Write takes all of p.
func (l *stderrLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			l.add(p)
			break
		}
		l.add(p[:end])
		l.endLine()
		p = p[end+1:]
	}
	return taken, nil
}

// Close ends an unfinished line and the file, and returns the first failure of the file.
func (l *stderrLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) > 0 || l.continued {
		l.endLine()
	}
	if l.file != nil {
		l.keep(l.file.Close())
		l.file = nil
	}
	return l.err
}

// lastLines returns the last lines, oldest first, escaped.
func (l *stderrLog) lastLines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := make([]string, len(l.tail))
	for i, line := range l.tail {
		lines[i] = line.text
	}
	return lines
}

// reason returns what best says in one line why the process ended, empty where it wrote nothing: the runtime's own
// word for it where there is one, since a trace of many screens follows it, else the last lines.
func (l *stderrLog) reason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal != "" {
		return cutLine(l.fatal, maxQuoted)
	}
	var shown []string
	for _, line := range l.tail {
		if !line.detail {
			shown = append(shown, cutLine(line.text, maxQuoted))
		}
	}
	return strings.Join(shown[max(0, len(shown)-maxReasonLines):], " | ")
}

func (l *stderrLog) add(part []byte) {
	if l.continued {
		l.store(appendEscaped(nil, part))
		return
	}
	room := maxBufferedLine - len(l.line)
	if len(part) <= room {
		l.line = append(l.line, part...)
		return
	}
	l.line = append(l.line, part[:room]...)
	l.storeStart()
	l.continued = true
	l.store(appendEscaped(nil, part[room:]))
}

func (l *stderrLog) endLine() {
	if !l.continued {
		l.storeStart()
	}
	l.store([]byte{'\n'})
	l.continued = false
}

// storeStart writes the start of a line, which for nearly every line is all of it, and remembers it.
func (l *stderrLog) storeStart() {
	d := decodeLine(l.line)
	l.store(appendEscaped([]byte("["+d.level+"] "), l.line))
	l.remember(tailLine{
		text:   cutLine(string(appendEscaped(nil, []byte(d.shown))), maxTailLine),
		detail: d.stated && d.level != "warn" && d.level != "error",
	})
	l.line = l.line[:0]
}

func (l *stderrLog) remember(line tailLine) {
	if l.fatal == "" && isFatal(line.text) {
		l.fatal = line.text
	}
	l.tail = append(l.tail, line)
	size := 0
	for _, t := range l.tail {
		size += len(t.text)
	}
	for len(l.tail) > maxTailLines || size > maxTailBytes {
		size -= len(l.tail[0].text)
		l.tail = l.tail[1:]
	}
}

func (l *stderrLog) store(b []byte) {
	if l.file == nil {
		return
	}
	_, err := l.file.Write(b)
	l.keep(err)
}

func (l *stderrLog) keep(err error) {
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("write the log of an adapter: %w", err)
	}
}

// isFatal recognises how a Go program says why it ends: a panic, a fatal error, or a signal that ended it.
func isFatal(line string) bool {
	if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
		return true
	}
	signal, _, found := strings.Cut(line, ":")
	return found && strings.HasPrefix(signal, "SIG") && signal == strings.ToUpper(signal) && !strings.Contains(signal, " ")
}

// decoded is what a line says.
type decoded struct {
	level  string
	stated bool // by the line itself
	shown  string
}

// decodeLine finds the level of a line and what to show of it. Lines of hclog in JSON are taken apart, whatever the
// types of their fields are; all others are shown as they stand.
func decodeLine(line []byte) decoded {
	text := string(line)
	if fields, ok := jsonFields(line); ok {
		return decodeJSON(fields, text)
	}
	if isFatal(text) {
		return decoded{level: "error", shown: text}
	}
	for _, level := range levels() {
		if strings.HasPrefix(text, "["+strings.ToUpper(level)+"]") {
			return decoded{level, true, text}
		}
	}
	return decoded{level: "info", shown: text}
}

func levels() []string { return []string{"trace", "debug", "info", "warn", "error"} }

func jsonFields(line []byte) (map[string]any, bool) {
	if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) {
		return nil, false
	}
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		return nil, false
	}
	return fields, true
}

func decodeJSON(fields map[string]any, whole string) decoded {
	d := decoded{level: "info", shown: whole}
	if level, ok := fields["@level"].(string); ok && slices.Contains(levels(), level) {
		d.level, d.stated = level, true
	}
	message, ok := fields["@message"].(string)
	if !ok {
		return d
	}
	d.shown = message
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !strings.HasPrefix(name, "@") {
			d.shown += fmt.Sprintf(" %s=%v", name, fields[name])
		}
	}
	return d
}
