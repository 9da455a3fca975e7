package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cellharness/shared"
)

// probeBound is the time that all of Probe may take.
const probeBound = 2 * time.Second

// probeTries is how often what a probe had no time to find out, on a machine that is very busy, is asked again: an
// answer that depends on how busy the machine is would differ from process to process.
const probeTries = 5

// probeCache keeps what a probe has found: what a machine can do does not change while a process lives, and where it
// does the command is refused. What a probe had no time for is tried again.
type probeCache struct {
	mu    sync.Mutex
	found means
}

// probed is the one of this process, whose Runner and whose answer to the host have to agree.
var probed probeCache

// Probe tells how well each dimension is limited on this machine, by trying it on a process of its own within two
// seconds, or more where the machine is too busy; the answer is kept for the life of this process. What does not hold when it is tried is not claimed: a weaker
// mechanism takes its place, or LevelNone, with what was seen as the reason.
func Probe(ctx context.Context) map[shared.Dimension]shared.Support {
	found, final := probed.get(ctx)
	for try := 1; !final && try < probeTries && ctx.Err() == nil; try++ {
		found, final = probed.get(ctx)
	}
	return found.supports()
}

// get returns what is known, and whether that is final.
func (c *probeCache) get(ctx context.Context) (found means, final bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	open := choices(os.Geteuid() == 0)
	maps.DeleteFunc(open, func(d shared.Dimension, _ []held) bool { _, known := c.found[d]; return known })
	found = probe(ctx, open)
	maps.Copy(found, c.found)
	if ctx.Err() == nil {
		c.found = found
		return maps.Clone(found), true
	}
	c.found = maps.Clone(found)
	for d, list := range open {
		if found[d].by != list[0].by { // the best one may only have been too slow
			delete(c.found, d)
		}
	}
	return found, len(c.found) == len(found)
}

// meansFor returns how limits are held. A limit of the output alone needs no probe.
func meansFor(ctx context.Context, l shared.Limits) (means, error) {
	if !slices.ContainsFunc(l.Dimensions(), func(d shared.Dimension) bool { return d != shared.DimensionOutput }) {
		return means{shared.DimensionOutput: choices(false)[shared.DimensionOutput][0]}, nil
	}
	var found means
	for final, try := false, 0; !final && try < probeTries; try++ {
		found, final = probed.get(ctx)
		if ctx.Err() != nil {
			return nil, cancelled("the command was never started", context.Cause(ctx))
		}
	}
	return found, nil
}

// probe tries for each dimension one mechanism after the other, and settles for the first one that holds.
func probe(ctx context.Context, choices map[shared.Dimension][]held) means {
	found := means{}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for d, list := range choices {
		wg.Go(func() {
			h := firstThatHolds(ctx, d, list)
			mu.Lock()
			defer mu.Unlock()
			found[d] = h
		})
	}
	wg.Wait()
	if cleanup := found[shared.DimensionProcessCleanup]; cleanup.Level > shared.LevelNone && !isSubreaper() {
		cleanup.Mechanism, cleanup.Reason = "subreaper sweep by the supervisor", "a command that kills its supervisor escapes"
		found[shared.DimensionProcessCleanup] = cleanup
	}
	return found
}

func firstThatHolds(ctx context.Context, d shared.Dimension, list []held) held {
	var failed []string
	for _, h := range list {
		why := attackOn(d, h).try(ctx, d, h)
		if why == "" {
			if len(failed) > 0 {
				h.Reason += "; better is not possible here: " + strings.Join(failed, "; ")
			}
			return h
		}
		if !slices.Contains(failed, why) {
			failed = append(failed, why)
		}
	}
	return held{byNothing, shared.Support{Level: shared.LevelNone, Reason: "it was tried here and did not hold: " + strings.Join(failed, "; ")}}
}

// attack is one thing that Probe tries.
type attack struct {
	does    []string // arguments of probeMain
	timeout time.Duration
	limits  shared.Limits
	// targets makes what is attacked from within, and returns arguments to append and what removes it; nil: nothing.
	targets func(dir string) (args []string, remove func(), err error)
	// held returns what is wrong with the result, empty when the limit held. dir is the directory of the command.
	held func(r shared.Result, dir string) string
}

// try returns why the attack succeeded, empty when it was held.
func (a attack) try(ctx context.Context, d shared.Dimension, h held) string {
	top, err := os.MkdirTemp("", "harness-probe-")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = os.RemoveAll(top) }() // holds a few MiB at most
	dir := filepath.Join(top, "workspace")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err.Error()
	}
	args := append([]string{"/proc/self/exe", probeArgument}, a.does...)
	if a.targets != nil {
		more, remove, err := a.targets(top)
		if err != nil {
			return err.Error()
		}
		defer remove()
		args = append(args, more...)
	}
	r, err := New(Options{})
	if err != nil {
		return err.Error()
	}
	result, err := r.run(ctx, Command{
		Dir: dir, Argv: args, Timeout: a.timeout, Limits: a.limits,
		StdoutPath: filepath.Join(top, "stdout"), StderrPath: filepath.Join(top, "stderr"),
	}, means{d: h}, nil)
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil {
			err = cause
		}
		return err.Error()
	}
	return a.held(result, dir)
}

// exceeds is what has to be seen where the command is ended at its limit.
func exceeds(d shared.Dimension) func(shared.Result, string) string {
	return func(r shared.Result, _ string) string {
		if r.Status != shared.StatusLimitExceeded || r.Limit != d {
			return fmt.Sprintf("a process beyond the limit ended as %s", r.Status)
		}
		return ""
	}
}

// exits is what has to be seen where the attacking process tells by itself whether it was held.
func exits(want int64, otherwise string) func(shared.Result, string) string {
	return func(r shared.Result, _ string) string {
		if r.ExitCode == nil || *r.ExitCode != want {
			return otherwise
		}
		return ""
	}
}
