package supervise

import (
	"errors"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lingerBound is how long a process may take to end by itself after the command; a few times what a busy machine needs
// to run it once more.
const lingerBound = 100 * time.Millisecond

// waitLeader reaps orphans that land here while the command runs, and announces the end of the command, which it leaves
// unreaped: as long as it is not reaped neither its number nor that of its group can become another's.
func (s *supervisor) waitLeader() {
	for {
		pid, err := peekEnded()
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid == s.leader {
			s.ended <- time.Now()
			return
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// peekEnded waits until a child has ended and returns its pid without reaping it.
func peekEnded() (int, error) {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		return 0, err
	}
	// si_pid is the first field of the union behind three ints, which is aligned to a pointer.
	const pidOffset = 8 + unsafe.Sizeof(uintptr(0))
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), pidOffset))), nil
}

// sweep kills everything below this process and reaps it until the kernel says that there is no child, or until
// sweepBound; then it notes what is left. The parents of what it kills are gone, or get killed as well, so that all of
// it becomes a child of this process, the subreaper, level by level.
func (s *supervisor) sweep() {
	seen := map[int]bool{s.leader: true}
	if s.lingers() {
		below, err := descendants(os.Getpid())
		s.trouble("look for survivors", err)
		for _, p := range below {
			s.survivor(p, seen)
		}
	}
	s.trouble("end the process group", ignoreMissing(unix.Kill(-s.leader, unix.SIGKILL)))
	deadline := time.Now().Add(sweepBound)
	for pause := time.Millisecond; !s.reap(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(deadline) {
			s.noteLeft()
			return
		}
		pids, err := children()
		if err != nil {
			s.trouble("sweep", err)
		}
		for _, pid := range pids {
			if p, err := readStat(pid); err == nil && !p.dead() {
				s.survivor(p, seen)
			}
			// A child keeps its number until it is reaped, which only this loop does.
			s.trouble("end a survivor", ignoreMissing(unix.Kill(pid, unix.SIGKILL)))
		}
		time.Sleep(pause)
	}
}

// lingers tells whether anything outlives the command by more than lingerBound. What is ending anyhow, such as the rest
// of a process group that got the same signal, is no survivor.
func (s *supervisor) lingers() bool {
	for end := time.Now().Add(lingerBound); ; time.Sleep(2 * time.Millisecond) {
		alive, err := s.othersAlive()
		s.trouble("look for survivors", err)
		if err != nil || !alive {
			return err != nil
		}
		if time.Now().After(end) {
			return true
		}
	}
}

// othersAlive tells whether a child other than the command lives. Orphans have become children of this process.
func (s *supervisor) othersAlive() (bool, error) {
	pids, err := children()
	if err != nil {
		return false, err
	}
	for _, pid := range pids {
		if p, err := readStat(pid); err == nil && pid != s.leader && !p.dead() {
			return true, nil
		}
	}
	return false, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// survivor counts a process that outlived the command.
func (s *supervisor) survivor(p stat, seen map[int]bool) {
	if seen[p.pid] {
		return
	}
	seen[p.pid] = true
	s.out.Survived++
	if len(s.out.Survivors) < maxNamed {
		s.out.Survivors = append(s.out.Survivors, process{PID: p.pid, Name: p.name})
	}
}

// reap reaps every child that has ended, and tells whether no child is left. Nothing in this process uses os/exec,
// whose exit statuses this would steal.
func (s *supervisor) reap() (none bool) {
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, &usage)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			return true
		case err != nil:
			s.trouble("reap", err)
			return false
		case pid == 0:
			return false
		case pid == s.leader:
			s.noteExit(status, usage)
		}
	}
}

func (s *supervisor) noteExit(status unix.WaitStatus, usage unix.Rusage) {
	s.out.Exited = true
	if status.Signaled() {
		s.out.Signal = signalName(status.Signal())
	} else {
		s.out.ExitCode = status.ExitStatus()
	}
	s.out.CPU = max(0, time.Duration(usage.Utime.Nano()+usage.Stime.Nano())-s.spent)
	s.out.MaxRSS = int64(usage.Maxrss) << 10 // in KiB, getrusage(2)
}

func (s *supervisor) noteLeft() {
	below, err := descendants(os.Getpid())
	s.trouble("look for what is left", err)
	for _, p := range below {
		s.out.Left = append(s.out.Left, process{PID: p.pid, Name: p.name})
	}
	if len(below) == 0 {
		s.out.Left = []process{{Name: "a process that cannot be seen"}}
	}
}
