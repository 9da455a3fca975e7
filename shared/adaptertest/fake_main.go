package adaptertest

import (
	"context"
	"fmt"
	"os"
	"time"

	"cellharness/shared/wire"
)

// hostGonePatience bounds the ending of commands after the host has died.
const hostGonePatience = time.Second

// FakeMain is the main function of the fake adapter's process. It returns the exit code. It reads nothing but the
// handshake: what is to go wrong comes with the settings and with the cells.
func FakeMain() int { return NewFake(FakeName).Serve() }

// Serve serves the fake from this process and returns the exit code. Faults at start happen before the handshake, so
// that a test can register programs that fail in this way.
func (f *Fake) Serve() int {
	if _, err := f.meet(context.Background(), call{at: []string{"start"}}, ""); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", f.name, err)
		return 1
	}
	return wire.Serve(wire.ServeConfig{
		Name: f.name, Adapter: f, Logger: wire.NewLogger(f.name), OnHostGone: f.endAll,
	})
}

// endAll ends every command at once, since nobody is left to ask for its result.
func (f *Fake) endAll() {
	ctx, cancel := context.WithTimeout(context.Background(), hostGonePatience)
	defer cancel()
	if _, err := f.drain(ctx, 0, errHostGone); err != nil {
		fmt.Fprintf(os.Stderr, "%s: end the commands: %v\n", f.name, err)
	}
}
