package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cellharness/shared"
)

const (
	// groupPrefix begins the name of every group that this package makes; the pid of its maker follows.
	groupPrefix = "harness-"
	// cellGroup is the group in the one with the limits that the command runs in. A command that mounts the control
	// group file system again sees its own group as the top, and so no file of a limit that counts.
	cellGroup = "cell"
	// cpuPeriod is the span, in microseconds, in which a command may use its share; the default of the kernel.
	cpuPeriod = 100_000
	// groupGone is how long the kernel may take to let go of a group whose processes have ended.
	groupGone = 2 * time.Second
	// staleAfter is the age from which a group of a process that is gone is taken for left behind. It spares one whose
	// maker this process cannot see, in the moment between its making and its use.
	staleAfter = time.Minute
)

// group is the control group of one command: with version 1 one directory for each controller.
type group struct {
	dirs   []string // with the limits
	cells  []string // those that the command joins, one in each of dirs
	join   []*os.File
	events []*os.File
	about  []shared.Dimension // what each of events is about
}

// groupName returns the name for a group of this process, distinct by pid and random bits.
func groupName() string { return fmt.Sprintf("%s%d-%x", groupPrefix, os.Getpid(), rand.Uint64()) }

// newGroup makes the group for those limits of l that by holds by one; nil when there is none.
func newGroup(l shared.Limits, by map[shared.Dimension]mechanism) (*group, error) {
	g, name := &group{}, groupName()
	for _, c := range []struct {
		dimension  shared.Dimension
		controller string
		limit      func(dir string, version int, l shared.Limits) error
	}{
		{shared.DimensionMemory, "memory", limitMemory},
		{shared.DimensionProcesses, "pids", limitProcesses},
		{shared.DimensionCPU, "cpu", limitCPU},
	} {
		if !by[c.dimension].grouped() {
			continue
		}
		dir, version, err := g.dir(name, c.controller)
		if err == nil {
			err = c.limit(dir, version, l)
		}
		if err == nil {
			err = g.listen(c.dimension, dir, version)
		}
		if err != nil {
			return nil, errors.Join(err, g.remove())
		}
	}
	if len(g.dirs) == 0 {
		return nil, nil
	}
	if err := g.open(); err != nil {
		return nil, errors.Join(err, g.remove())
	}
	return g, nil
}

// dir makes the directory for a controller, unless another controller has made the same one.
func (g *group) dir(name, controller string) (dir string, version int, err error) {
	h, err := hierarchyOf(controller)
	if err != nil {
		return "", 0, err
	}
	base, err := h.base(controller)
	if err != nil {
		return "", 0, err
	}
	dir = filepath.Join(base, name)
	for _, have := range g.dirs {
		if have == dir {
			return dir, h.version, nil
		}
	}
	removeStale(base)
	for _, d := range []string{dir, filepath.Join(dir, cellGroup)} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return "", 0, errors.Join(fmt.Errorf("make a control group: %w", err), ignoreNotExist(unix.Rmdir(dir)))
		}
	}
	g.dirs, g.cells = append(g.dirs, dir), append(g.cells, filepath.Join(dir, cellGroup))
	return dir, h.version, nil
}

func limitMemory(dir string, version int, l shared.Limits) error {
	size := strconv.FormatInt(l.MemoryBytes, 10)
	if version == 2 {
		return errors.Join(set(dir, "memory.max", size), setIfThere(dir, "memory.swap.max", "0"), setIfThere(dir, "memory.oom.group", "1"))
	}
	// Memory and swap together may never be less than memory alone, so it is set after.
	return errors.Join(set(dir, "memory.limit_in_bytes", size), setIfThere(dir, "memory.memsw.limit_in_bytes", size))
}

func limitProcesses(dir string, _ int, l shared.Limits) error {
	return set(dir, "pids.max", strconv.FormatInt(l.Processes, 10))
}

func limitCPU(dir string, version int, l shared.Limits) error {
	// 1 ms is the least quota that the kernel takes.
	quota := strconv.FormatInt(max(1000, int64(l.CPU*cpuPeriod)), 10)
	if version == 2 {
		return set(dir, "cpu.max", fmt.Sprintf("%s %d", quota, cpuPeriod))
	}
	return errors.Join(set(dir, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)), set(dir, "cpu.cfs_quota_us", quota))
}

// listen opens the file that counts how often the limit of d was met. Version 1 counts in the group of the process,
// version 2 in the one with the limit.
func (g *group) listen(d shared.Dimension, dir string, version int) error {
	file := map[shared.Dimension]string{shared.DimensionMemory: "memory.events", shared.DimensionProcesses: "pids.events"}[d]
	if file == "" {
		return nil
	}
	if version == 1 {
		dir = filepath.Join(dir, cellGroup)
		if d == shared.DimensionMemory {
			file = "memory.oom_control"
		}
	}
	f, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		return fmt.Errorf("watch a control group: %w", err)
	}
	g.events, g.about = append(g.events, f), append(g.about, d)
	return nil
}

// open opens the files through which a process joins.
func (g *group) open() error {
	for _, dir := range g.cells {
		f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("open a control group: %w", err)
		}
		g.join = append(g.join, f)
	}
	return nil
}

// files are handed to the supervisor, those to join first.
func (g *group) files() []*os.File {
	if g == nil {
		return nil
	}
	return append(append([]*os.File(nil), g.join...), g.events...)
}

// remove closes and removes the group, whose processes have ended. What cannot be removed is named in the error.
func (g *group) remove() error {
	if g == nil {
		return nil
	}
	var errs []error
	for _, f := range g.files() {
		errs = append(errs, f.Close())
	}
	deadline := time.Now().Add(groupGone)
	for _, dir := range append(append([]string(nil), g.cells...), g.dirs...) {
		errs = append(errs, removeGroup(dir, deadline))
	}
	return errors.Join(errs...)
}

func removeGroup(dir string, deadline time.Time) error {
	for {
		err := unix.Rmdir(dir)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			if err = ignoreNotExist(err); err != nil {
				return fmt.Errorf("remove the control group %s: %w; remove it with rmdir", dir, err)
			}
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// removeStale removes groups whose maker died before it could. The kernel refuses for those in which anything lives.
func removeStale(base string) {
	found, err := filepath.Glob(filepath.Join(base, groupPrefix+"*-*"))
	if err != nil {
		return // only a malformed pattern
	}
	for _, dir := range found {
		maker, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupPrefix), "-")
		pid, err := strconv.Atoi(maker)
		info, statErr := os.Stat(dir)
		if err != nil || statErr != nil || time.Since(info.ModTime()) < staleAfter || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			continue
		}
		_ = unix.Rmdir(filepath.Join(dir, cellGroup)) // refused while in use, and then the next fails too
		_ = unix.Rmdir(dir)
	}
}

func set(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set a limit: %w", err)
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set a limit: %w", err)
	}
	return nil
}

// setIfThere sets what a kernel without swap, or an old one, has no file for.
func setIfThere(dir, file, value string) error { return ignoreNotExist(set(dir, file, value)) }

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// count reads the number behind a name in an event file.
func count(f *os.File, name string) (int64, error) {
	buffer := make([]byte, 4096)
	n, err := f.ReadAt(buffer, 0)
	if n == 0 {
		return 0, fmt.Errorf("read what a control group counts: %w", err)
	}
	for line := range strings.Lines(string(buffer[:n])) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == name {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("a control group does not count %q", name)
}
