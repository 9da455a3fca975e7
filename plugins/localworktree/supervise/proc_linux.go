package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// stat is what /proc/PID/stat says of a process.
type stat struct {
	pid      int
	name     string
	state    byte // Z: dead and not reaped yet
	parent   int
	session  int
	rssPages int64
}

// dead tells whether the process has ended and only its entry is left.
func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

// readStat reads /proc/PID/stat. The name, between parentheses, may hold any byte, also parentheses.
func readStat(pid int) (stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	begin, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if begin < 0 || end < begin {
		return stat{}, fmt.Errorf("/proc/%d/stat has no name: %q", pid, data)
	}
	// Field n of proc(5), counted from 1, is fields[n-3].
	fields := strings.Fields(string(data[end+1:]))
	if len(fields) < 22 {
		return stat{}, fmt.Errorf("/proc/%d/stat has too few fields: %q", pid, data)
	}
	s := stat{pid: pid, name: string(data[begin+1 : end]), state: fields[0][0]}
	s.parent, _ = strconv.Atoi(fields[1])
	s.session, _ = strconv.Atoi(fields[3])
	s.rssPages, _ = strconv.ParseInt(fields[21], 10, 64)
	return s, nil
}

// children lists the direct children of this process, dead ones included. While processes come and go it may miss
// some, so an empty answer alone proves nothing.
func children() ([]int, error) {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		return childrenByScan() // a kernel without CONFIG_PROC_CHILDREN
	}
	var pids []int
	for _, list := range lists {
		data, err := os.ReadFile(list)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return nil, fmt.Errorf("list child processes: %w", err)
		}
		for _, field := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

func childrenByScan() ([]int, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, s := range all {
		if s.parent == os.Getpid() {
			pids = append(pids, s.pid)
		}
	}
	return pids, nil
}

// processes reads the stat of every process that can be seen.
func processes() ([]stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []stat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil { // otherwise it ended meanwhile
			all = append(all, s)
		}
	}
	return all, nil
}

// descendants returns the living processes below pid.
func descendants(pid int) ([]stat, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	below := map[int][]stat{}
	for _, s := range all {
		below[s.parent] = append(below[s.parent], s)
	}
	var found []stat
	seen := map[int]bool{pid: true}
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, s := range below[queue[0]] {
			if seen[s.pid] {
				continue
			}
			seen[s.pid] = true
			queue = append(queue, s.pid)
			if !s.dead() {
				found = append(found, s)
			}
		}
	}
	return found, nil
}

// proportionalMemory returns the bytes of a process's memory with shared pages divided among their users. It is slower
// than the resident size and cannot be read of every process.
func proportionalMemory(pid int) (int64, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "Pss:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}
