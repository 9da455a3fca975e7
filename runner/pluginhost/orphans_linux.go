package pluginhost

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// orphanGrace is what the supervisors of a dead adapter get to end their own cells, which they do better than we:
	// they take 0.1 s.
	orphanGrace = 500 * time.Millisecond
	// orphanBound is how long SIGKILL is repeated. What lives on then sits in the kernel, where no signal reaches it.
	orphanBound = 3 * time.Second
	orphanPoll  = 5 * time.Millisecond
)

// becomeReaper makes this process the one that orphans of its descendants come to, in place of PID 1.
func becomeReaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of orphaned processes: %w", err)
	}
	return nil
}

// sweepOrphans ends what a dead adapter has left. It comes to us when its adapter and its supervisor are both gone: a
// cell that kills both has nobody else to end it. It returns when nothing of it is left, or after orphanBound.
func (h *Host) sweepOrphans() {
	began := time.Now()
	for {
		h.starting.Lock()
		orphans, err := h.orphans()
		if time.Since(began) > orphanGrace {
			for _, pid := range orphans {
				_ = unix.Kill(pid, unix.SIGKILL) // gone already is as good
			}
		}
		h.starting.Unlock()
		for _, pid := range orphans {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // whether it is gone is looked at in the next round
		}
		switch {
		case err != nil:
			h.note(fmt.Errorf("look for orphaned processes: %w", err))
			return
		case len(orphans) == 0:
			return
		case time.Since(began) > orphanBound:
			h.note(fmt.Errorf("processes %v of a dead adapter do not end", orphans))
			return
		}
		time.Sleep(orphanPoll)
	}
}

// orphans lists our children that we did not start: those in another session than ours, adapters left out. Whatever
// else the harness starts stays in its session. h.starting is held, so that a fresh adapter is never among them.
func (h *Host) orphans() ([]int, error) {
	ours, err := unix.Getsid(0)
	if err != nil {
		return nil, err
	}
	adapters := h.adapterPIDs()
	var orphans []int
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	for _, task := range tasks {
		b, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return nil, err
		}
		for _, field := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("%q is no process", field)
			}
			session, err := unix.Getsid(pid)
			if err == nil && session != ours && !slices.Contains(adapters, pid) {
				orphans = append(orphans, pid)
			}
		}
	}
	return orphans, nil
}

func (h *Host) adapterPIDs() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	var pids []int
	for c := range h.children {
		pids = append(pids, c.pid())
	}
	return pids
}
