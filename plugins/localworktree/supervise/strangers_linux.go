package supervise

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"cellharness/shared"
)

// ambiguous ends what a lost supervisor left behind and says that the end of its command is not known.
func (r *Runner) ambiguous(s *session) error {
	left, err := r.endStrangers()
	message := "the process that watched over the command was lost, so that how the command ended is not known; "
	switch {
	case err != nil:
		message += fmt.Sprintf("whether something of it is left is not known either: %v", err)
	case !isSubreaper():
		message += "parts of it may be left, because this process is no reaper of orphans"
	case len(left) > 0:
		message += "still there: " + names(left, int64(len(left)))
	default:
		message += "nothing of it is left"
	}
	if s.trouble != nil {
		message += fmt.Sprintf(" (%v)", s.trouble)
	}
	return &shared.Error{Code: shared.CodeInternal, Cause: shared.CauseAmbiguous, Message: message, Err: errors.Join(err, s.trouble)}
}

// endStrangers kills and reaps what has landed below this process after supervisors were lost, until nothing of it is
// seen twice in a row or sweepBound has passed. It reaps one number at a time, so that children that other parts of
// this process wait for keep their exit status.
func (r *Runner) endStrangers() (left []process, err error) {
	deadline := time.Now().Add(sweepBound)
	for unseen := 0; unseen < 2; {
		found, err := r.endStrangersOnce()
		if err != nil {
			return nil, err
		}
		unseen++
		if len(found) > 0 {
			unseen = 0
		}
		if time.Now().After(deadline) {
			return found, nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil, nil
}

// endStrangersOnce does one round and returns what it found.
func (r *Runner) endStrangersOnce() ([]process, error) {
	r.starting.Lock()
	defer r.starting.Unlock()
	pids, err := children()
	if err != nil {
		return nil, err
	}
	var found []process
	for _, pid := range pids {
		p, err := readStat(pid)
		if err != nil || p.session == r.session || r.knows(pid) {
			continue
		}
		found = append(found, process{PID: pid, Name: p.name})
		// The number is safe: a child keeps it until it is reaped, here.
		if err := unix.Kill(pid, unix.SIGKILL); ignoreMissing(err) != nil {
			return nil, fmt.Errorf("end process %d: %w", pid, err)
		}
		if _, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err != nil && !errors.Is(err, unix.ECHILD) && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("reap process %d: %w", pid, err)
		}
	}
	return found, nil
}
