package adapter

import (
	"context"
	"fmt"
	"os"
	"time"

	"cellharness/plugins/localworktree/supervise"
	"cellharness/shared"
	"cellharness/shared/wire"
)

// Main is the whole life of the localworktree process: as an adapter, or, re-executed by itself, as the supervisor
// of one command. It returns the exit code.
func Main() int {
	if code, ok := supervise.Main(); ok {
		return code
	}
	if err := supervise.BecomeSubreaper(); err != nil {
		fmt.Fprintf(os.Stderr, "localworktree: adopt orphaned processes: %v\n", err)
		return 1
	}
	a, err := New(Options{Environ: os.Environ()})
	if err != nil {
		fmt.Fprintf(os.Stderr, "localworktree: %v\n", err)
		return 1
	}
	log := wire.NewLogger(Name)
	code := wire.Serve(wire.ServeConfig{Name: Name, Adapter: a, Logger: log, Umask: checkoutUmask})
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	if err := a.Close(ctx); err != nil {
		log.Error("end the commands that run", "error", err)
	}
	return code
}

// checkoutUmask gives the files of a workspace the modes that a checkout usually has. The directories above them are
// private by their own modes.
const checkoutUmask = 0o022

// closeBound is how long commands that still run have for their grace when the process ends. The harness kills an
// adapter that takes longer than two seconds to leave.
const closeBound = time.Second

// Name is the registered name of the adapter.
const Name = "local_worktree"

var _ shared.Adapter = (*Adapter)(nil)
