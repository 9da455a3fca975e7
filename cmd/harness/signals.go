package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"cellharness/runner/event"
)

// signals turns the first interrupt into a cancelled context and the second into the end.
type signals struct {
	ctx    context.Context
	cancel context.CancelFunc
	ch     chan os.Signal
	done   chan struct{}

	mu    sync.Mutex
	first os.Signal // guarded by mu
}

// watchSignals handles interrupts for the time of a run.
func (a *app) watchSignals(ctx context.Context, s *session) *signals {
	ctx, cancel := context.WithCancel(ctx)
	w := &signals{ctx: ctx, cancel: cancel, ch: make(chan os.Signal, 2), done: make(chan struct{})}
	signal.Notify(w.ch, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	host := s.host
	go func() {
		defer close(w.done)
		sig, ok := <-w.ch
		if !ok {
			return
		}
		w.mu.Lock()
		w.first = sig
		w.mu.Unlock()
		s.out.event(&event.Interrupted{Signal: signalName(sig)})
		cancel()
		if _, ok := <-w.ch; !ok {
			return
		}
		fmt.Fprintln(a.stderr, "Interrupted again: ending everything at once. Workspaces may be left behind.")
		host.Kill()
		os.Exit(w.code())
	}()
	return w
}

// stop gives signals back to their default.
func (w *signals) stop() {
	signal.Stop(w.ch)
	close(w.ch)
	<-w.done
	w.cancel()
}

// signal is the name of the first signal, empty where none came.
func (w *signals) signal() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil {
		return ""
	}
	return signalName(w.first)
}

// code is the exit code that the first signal asks for.
func (w *signals) code() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == syscall.SIGTERM {
		return exitTerminated
	}
	return exitInterrupted
}

func signalName(s os.Signal) string {
	switch s {
	case syscall.SIGINT:
		return "INT"
	case syscall.SIGTERM:
		return "TERM"
	case syscall.SIGHUP:
		return "HUP"
	}
	return s.String()
}
