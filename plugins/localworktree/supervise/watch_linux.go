package supervise

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"cellharness/shared"
)

// startWatching starts what samples while the command runs.
func (s *supervisor) startWatching() {
	for i := range s.order.Events {
		s.events = append(s.events, os.NewFile(uintptr(s.order.firstExtraFD()+s.order.Join+i), "events"))
	}
	if s.order.sampled(shared.DimensionMemory) || s.order.sampled(shared.DimensionProcesses) || len(s.events) > 0 {
		go s.watch(s.look)
	}
	if s.order.Disk > 0 {
		go s.watch(s.lookAtDisk)
	}
}

// watch samples until a limit is passed or the command has ended. A look that takes long is taken less often, so that
// it never costs more than a fifth of a core.
func (s *supervisor) watch(look func() (passed shared.Dimension, any bool)) {
	for {
		begin := time.Now()
		d, any := look()
		if any {
			s.exceed(d)
			return
		}
		select {
		case <-s.finished:
			return
		case <-time.After(max(sampleEvery, 4*time.Since(begin))):
		}
	}
}

// look looks at the processes of the command, and at what its control groups have counted.
func (s *supervisor) look() (passed shared.Dimension, any bool) {
	if d, any := s.lookAtEvents(); any {
		return d, true
	}
	memory, processes := s.order.sampled(shared.DimensionMemory), s.order.sampled(shared.DimensionProcesses)
	if !memory && !processes {
		return "", false
	}
	below, err := descendants(os.Getpid())
	if err != nil {
		return "", false // the next sample may succeed; the limit is best effort
	}
	if processes && int64(len(below)) > s.order.Procs {
		return shared.DimensionProcesses, true
	}
	return shared.DimensionMemory, memory && usesMoreThan(below, s.order.Memory)
}

// lookAtEvents tells whether the kernel has ended something of the command because its memory ran out. A new process
// that was refused is the command's own business.
func (s *supervisor) lookAtEvents() (passed shared.Dimension, any bool) {
	for i, d := range s.order.Events {
		if d != shared.DimensionMemory {
			continue
		}
		if n, err := count(s.events[i], "oom_kill"); err == nil && n > 0 {
			return d, true
		}
	}
	return "", false
}

// lookAtDisk tells whether the command's files have become too large together. What cannot be read is not counted.
func (s *supervisor) lookAtDisk() (passed shared.Dimension, any bool) {
	return shared.DimensionDisk, diskUsage(string(s.order.DiskRoot)) > s.order.Disk
}

// lastLook finds a limit that was passed in the last moment, and sums up.
func (s *supervisor) lastLook() {
	for i, d := range s.order.Events {
		if d == shared.DimensionProcesses {
			n, err := count(s.events[i], "max")
			s.trouble("look at what was refused", err)
			s.out.ForksDenied = n
		}
	}
	if s.out.Reason != endedItself {
		return
	}
	passed, any := s.lookAtEvents()
	if !any && s.order.Disk > 0 {
		passed, any = s.lookAtDisk()
	}
	if !any && s.order.File > 0 && s.out.Signal == signalName(unix.SIGXFSZ) {
		passed, any = shared.DimensionFileSize, true
	}
	if any {
		s.exceed(passed)
	}
}

// diskUsage returns the bytes of the blocks that a directory and what is below it occupy, a file with many names once.
// It never follows a link.
func diskUsage(root string) int64 {
	type identity struct{ device, inode uint64 }
	seen := map[identity]bool{}
	var used int64
	var walk func(dir int, name string)
	walk = func(dir int, name string) {
		var st unix.Stat_t
		if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return
		}
		if id := (identity{st.Dev, st.Ino}); st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if seen[id] {
				return
			}
			seen[id] = true
		}
		used += st.Blocks * 512 // stat(2): whatever the block size is
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return
		}
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		f := os.NewFile(uintptr(fd), name)
		defer f.Close()
		for {
			names, err := f.Readdirnames(512)
			for _, n := range names {
				walk(fd, n)
			}
			if err != nil {
				return
			}
		}
	}
	walk(unix.AT_FDCWD, root)
	return used
}

// usesMoreThan tells whether processes use more than limit bytes together. The sum of resident sizes counts shared pages
// more than once, so it only decides whether the exact and slow look is worth while.
func usesMoreThan(all []stat, limit int64) bool {
	page := int64(os.Getpagesize())
	var resident int64
	for _, p := range all {
		resident += p.rssPages * page
	}
	if resident <= limit {
		return false
	}
	var proportional int64
	for _, p := range all {
		size, ok := proportionalMemory(p.pid)
		if !ok {
			size = p.rssPages * page
		}
		proportional += size
	}
	return proportional > limit
}
