package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is one line of /proc/self/mountinfo, see proc(5).
type mount struct {
	root    string // directory of the file system that is mounted
	point   string
	kind    string // such as "cgroup2"
	options []string
}

// mounts reads what is mounted for this process.
func mounts() ([]mount, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read what is mounted: %w", err)
	}
	var all []mount
	for line := range strings.Lines(string(data)) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 6 || len(right) < 3 {
			return nil, fmt.Errorf("read what is mounted: unexpected line %q", line)
		}
		all = append(all, mount{root: unescape(left[3]), point: unescape(left[4]), kind: right[0], options: strings.Split(right[2], ",")})
	}
	return all, nil
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out bytes.Buffer
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// hierarchy is a tree of control groups, seen from this process.
type hierarchy struct {
	version int    // 1 or 2
	point   string // where it is mounted
	dir     string // the group of this process, below point
}

// hierarchyOf finds the hierarchy that has a controller, version 2 first.
func hierarchyOf(controller string) (hierarchy, error) {
	all, err := mounts()
	if err != nil {
		return hierarchy{}, err
	}
	memberships, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return hierarchy{}, fmt.Errorf("read the control groups of this process: %w", err)
	}
	for _, version := range []int{2, 1} {
		h, found := findHierarchy(all, memberships, version, controller)
		if found {
			return h, nil
		}
	}
	return hierarchy{}, fmt.Errorf("no mounted control group has the controller %q", controller)
}

func findHierarchy(all []mount, memberships []byte, version int, controller string) (hierarchy, bool) {
	kind, wanted := "cgroup2", ""
	if version == 1 {
		kind, wanted = "cgroup", controller
	}
	own, ok := membership(memberships, wanted)
	if !ok {
		return hierarchy{}, false
	}
	for _, m := range all {
		if m.kind != kind || version == 1 && !slices.Contains(m.options, controller) {
			continue
		}
		below, err := filepath.Rel(m.root, own)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			continue // this mount does not show the group of this process
		}
		h := hierarchy{version: version, point: m.point, dir: path.Join(m.point, below)}
		if version == 2 && !lists(filepath.Join(m.point, "cgroup.controllers"), controller) {
			continue
		}
		return h, true
	}
	return hierarchy{}, false
}

// membership returns the path of the group in the hierarchy with a controller; none stands for version 2. A line is
// "number:controllers:path".
func membership(memberships []byte, controller string) (string, bool) {
	lines := bufio.NewScanner(bytes.NewReader(memberships))
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2], true
		}
	}
	return "", false
}

func lists(file, word string) bool {
	data, err := os.ReadFile(file)
	return err == nil && slices.Contains(strings.Fields(string(data)), word)
}

// base returns the directory in which a group with the controller can be made: that of this process, or with version
// 2, where a group with processes hands no controller on, the nearest one above that does. A group that has a limit of
// its own is not left.
func (h hierarchy) base(controller string) (string, error) {
	if h.version == 1 {
		return h.dir, writable(h.dir)
	}
	for dir := h.dir; ; dir = filepath.Dir(dir) {
		if lists(filepath.Join(dir, "cgroup.subtree_control"), controller) {
			return dir, writable(dir)
		}
		if dir == h.point {
			return "", fmt.Errorf("no control group above this process hands the controller %q on", controller)
		}
		limited, err := hasLimit(dir)
		if err != nil {
			return "", err
		}
		if limited {
			return "", fmt.Errorf("the control group %s has limits of its own and does not hand the controller %q on", dir, controller)
		}
	}
}

func writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return fmt.Errorf("make a control group in %s: %w", dir, err)
	}
	return nil
}

// hasLimit tells whether a group of version 2 limits what is in it.
func hasLimit(dir string) (bool, error) {
	for _, name := range []string{"memory.max", "memory.high", "pids.max", "cpu.max"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read the limits of a control group: %w", err)
		}
		if !strings.HasPrefix(string(data), "max") {
			return true, nil
		}
	}
	return false, nil
}
