package supervise

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"cellharness/shared"
)

// result turns what the supervisor reported into what Run answers.
func (s *session) result(ctx context.Context) (shared.Result, error) {
	if s.unheld {
		return shared.Result{}, unheld(errors.New(s.refused))
	}
	if s.refused != "" {
		return shared.Result{}, &shared.Error{Code: shared.CodePrecondition, Message: "the command was never started: " + s.refused}
	}
	o := s.outcome
	res := shared.Result{
		Status: shared.StatusCompleted, Started: time.Unix(0, o.StartedNS), Wall: o.Wall, CPU: o.CPU, MaxRSS: o.MaxRSS,
		Stdout: shared.Stream{Bytes: o.Stdout.Bytes, Stored: o.Stdout.Stored, SHA256: o.Stdout.SHA256},
		Stderr: shared.Stream{Bytes: o.Stderr.Bytes, Stored: o.Stderr.Stored, SHA256: o.Stderr.SHA256},
		Signal: o.Signal, Notices: s.notices(),
	}
	if o.Exited && o.Signal == "" {
		code := int64(o.ExitCode)
		res.ExitCode = &code
	}
	switch o.Reason {
	case endedTimeout:
		res.Status = shared.StatusTimedOut
	case endedLimit:
		res.Status, res.Limit = shared.StatusLimitExceeded, o.Limit
	}
	return res, s.failure(ctx)
}

// failure returns why there is no measurement although the supervisor saw the end.
func (s *session) failure(ctx context.Context) error {
	o := s.outcome
	if len(o.Left) > 0 || !o.Exited {
		return &shared.Error{
			Code: shared.CodeInternal, Cause: shared.CauseAmbiguous,
			Message: "not all of the command could be ended; still there: " + names(o.Left, int64(len(o.Left))) +
				"; end it by hand, or restart this machine",
		}
	}
	if err := s.storage(); err != nil {
		return &shared.Error{
			Code: shared.CodeInternal, Cause: shared.CauseStorage, Err: err,
			Message: fmt.Sprintf("the output of the command could not be stored: %v; make room under %s",
				err, filepath.Dir(s.stdout.file.Name())),
		}
	}
	if o.Reason == endedRequest || o.Reason == endedLifeline {
		return cancelled("the command was ended before its own end", context.Cause(ctx))
	}
	if s.stdin == nil {
		return nil
	}
	if err := s.stdin.broken(); err != nil {
		return &shared.Error{
			Code: shared.CodeInternal, Cause: shared.CauseStorage, Err: err,
			Message: fmt.Sprintf("the command did not get all of its stdin: %v", err),
		}
	}
	return nil
}

func (s *session) storage() error {
	for _, text := range []string{s.outcome.Stdout.Err, s.outcome.Stderr.Err} {
		if text != "" {
			return errors.New(text)
		}
	}
	return s.unreadable
}

func cancelled(what string, cause error) error {
	return &shared.Error{Code: shared.CodeCancelled, Err: cause, Message: what + ", because it was cancelled"}
}

// notices says what a reader of the result should know.
func (s *session) notices() []shared.Notice {
	o := s.outcome
	notices := s.means.notices(s.cmd.Limits)
	if o.Survived > 0 {
		notices = append(notices, shared.Notice{
			Kind: shared.NoticeSurvivorsKilled, Count: o.Survived,
			Detail: names(o.Survivors, o.Survived),
		})
	}
	if o.OutputHeld {
		notices = append(notices, shared.Notice{
			Kind:   shared.NoticeOutputHeld,
			Detail: fmt.Sprintf("a process that outlived the command held its output open for more than %s", pumpsGet),
		})
	}
	for _, stream := range []struct {
		name string
		stored
	}{{"stdout", o.Stdout}, {"stderr", o.Stderr}} {
		if cut := stream.Bytes - stream.Stored; cut > 0 {
			notices = append(notices, shared.Notice{
				Kind: shared.NoticeOutputTruncated, Count: cut,
				Detail: fmt.Sprintf("%s: %d of %d bytes are stored", stream.name, stream.Stored, stream.Bytes),
			})
		}
	}
	if unread := o.StdinUnread; s.stdin != nil && (unread > 0 || s.stdin.wasCut()) {
		notices = append(notices, shared.Notice{
			Kind: shared.NoticeStdinUnread, Count: unread,
			Detail: fmt.Sprintf("the command left %d bytes or more of its stdin unread", unread),
		})
	}
	return notices
}

// names lists processes for a person.
func names(list []process, total int64) string {
	parts := make([]string, 0, len(list)+1)
	for _, p := range list {
		parts = append(parts, fmt.Sprintf("%s (%d)", strings.ToValidUTF8(p.Name, "\uFFFD"), p.PID))
	}
	if more := total - int64(len(list)); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// logTrouble keeps what went wrong without changing the result.
func (s *session) logTrouble() {
	if s.trouble != nil {
		s.runner.opts.Log.Warn("supervisor of a command", "error", s.trouble)
	}
	if s.outcome != nil && s.outcome.ForksDenied > 0 {
		s.runner.opts.Log.Warn("a command met its limit of processes", "refused", s.outcome.ForksDenied, "limit", s.cmd.Limits.Processes)
	}
	if s.outcome != nil && s.outcome.Trouble != "" {
		s.runner.opts.Log.Warn("supervisor of a command", "trouble", s.outcome.Trouble)
	}
}
