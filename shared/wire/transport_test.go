package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

func TestUnaryCalls(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	description := filled[shared.Description](t)
	configured := filled[shared.Configured](t)
	report := filled[shared.TeardownReport](t)
	found := filled[[]shared.Found](t)
	client := connect(t, &stub{
		negotiate: func(_ context.Context, host shared.HostInfo) (shared.Description, error) {
			if host.Version != "1" {
				return shared.Description{}, fmt.Errorf("the host says %+v", host)
			}
			return description, nil
		},
		configure: func(_ context.Context, cfg shared.Configuration) (shared.Configured, error) {
			if cfg.Secrets["k"].Reveal() != "canary" {
				return shared.Configured{}, errors.New("the secret did not arrive")
			}
			return configured, nil
		},
		teardown: func(_ context.Context, h shared.Handle) (shared.TeardownReport, error) {
			return report, nil
		},
		find: func(_ context.Context, labels shared.Labels) ([]shared.Found, error) {
			return found, nil
		},
		drain: func(_ context.Context, within time.Duration) (shared.DrainReport, error) {
			return shared.DrainReport{Ended: int64(within)}, nil
		},
	})
	check := func(name string, want, got any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	d, err := client.Negotiate(ctx, shared.HostInfo{Version: "1"})
	check("Negotiate", description, d, err)
	c, err := client.Configure(ctx, shared.Configuration{Secrets: map[string]shared.Secret{"k": shared.NewSecret("canary")}})
	check("Configure", configured, c, err)
	r, err := client.Teardown(ctx, shared.Handle{})
	check("Teardown", report, r, err)
	f, err := client.Find(ctx, shared.Labels{})
	check("Find", found, f, err)
	dr, err := client.Drain(ctx, 7*time.Second)
	check("Drain", shared.DrainReport{Ended: int64(7 * time.Second)}, dr, err)
}

func TestProvision_Patch(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"empty": 0, "one chunk": maxChunk, "in memory": maxSpoolMemory, "in a file": 3*maxSpoolMemory + 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := pattern(size)
			client := connect(t, &stub{
				provision: func(_ context.Context, spec shared.ProvisionSpec) (shared.Provisioned, error) {
					got, err := read(*spec.Patch)
					if err != nil || !bytes.Equal(got, data) {
						return shared.Provisioned{}, fmt.Errorf("%d bytes arrived changed: %w", len(got), err)
					}
					return shared.Provisioned{BaseSHA: spec.Base}, nil
				},
			})
			p, err := client.Provision(bounded(t), shared.ProvisionSpec{Base: "abc", Patch: contentOf(data)})
			if err != nil || p.BaseSHA != "abc" {
				t.Errorf("Provision = %+v, %v", p, err)
			}
		})
	}
}

func TestRunCell_Contents(t *testing.T) {
	t.Parallel()
	inputs := map[string][]byte{"empty": {}, "small": []byte("x\xff"), "large": pattern(2*maxSpoolMemory + 17), "last": pattern(9)}
	stdin := pattern(maxChunk + 1)
	cell := execCell()
	cell.SeedAs, cell.Stdin = shared.SeedUncommitted, contentOf(stdin)
	for _, name := range []string{"empty", "small", "large", "last"} {
		cell.Seeds = append(cell.Seeds, shared.Seed{Path: shared.Path(name), Content: content(inputs[name])})
	}
	client := connect(t, &stub{
		runCell: func(_ context.Context, _ shared.Handle, cell shared.Cell, _ shared.EventSink) (shared.Result, error) {
			for range 2 { // a content may be read more than once
				for _, seed := range cell.Seeds {
					if got, err := read(seed.Content); err != nil || !bytes.Equal(got, inputs[string(seed.Path)]) {
						return shared.Result{}, fmt.Errorf("the seed %q has %d bytes and is wrong: %w", seed.Path, len(got), err)
					}
				}
			}
			if got, err := read(*cell.Stdin); err != nil || !bytes.Equal(got, stdin) {
				return shared.Result{}, fmt.Errorf("stdin has %d bytes and is wrong: %w", len(got), err)
			}
			return exited(int64(len(cell.Seeds))), nil
		},
	})
	result, err := client.RunCell(bounded(t), shared.Handle{}, cell, ignoreEvents)
	if err != nil || *result.ExitCode != 4 {
		t.Errorf("RunCell = %+v, %v, want the exit code 4", result, err)
	}
}

func TestRunCell_Events(t *testing.T) {
	t.Parallel()
	events := []shared.Event{
		{Kind: shared.EventStdout, Data: pattern(shared.MaxOutputFrame)},
		{Kind: shared.EventStderr, Data: []byte("e")},
		{Kind: shared.EventStdout, Data: []byte("o\xff"), Offset: shared.MaxOutputFrame},
		{Kind: shared.EventError, Err: &shared.Error{Code: shared.CodeInternal, Message: "a line was lost"}},
		{Kind: shared.EventStdout, Data: []byte("later"), Offset: 1 << 20},
		{Kind: shared.EventSignal, Signal: "TERM"},
	}
	want := filled[shared.Result](t)
	want.Status, want.Signal, want.Stdout.Stored, want.Stderr.Stored = shared.StatusTimedOut, "", 0, 0
	client := connect(t, &stub{
		runCell: func(_ context.Context, _ shared.Handle, _ shared.Cell, sink shared.EventSink) (shared.Result, error) {
			for _, e := range events {
				if err := sink(e); err != nil {
					return shared.Result{}, err
				}
			}
			return want, nil
		},
	})
	var got []shared.Event
	result, err := client.RunCell(bounded(t), shared.Handle{}, execCell(), func(e shared.Event) error {
		e.Data = slices.Clone(e.Data)
		got = append(got, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(events, got); diff != "" {
		t.Errorf("events: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(want, result); diff != "" {
		t.Errorf("result: -want +got:\n%s", diff)
	}
}

func TestRunCell_SinkFails(t *testing.T) {
	t.Parallel()
	const frames = 2000 // more than the transport buffers, so the client has to go on reading
	client := connect(t, &stub{
		runCell: func(_ context.Context, _ shared.Handle, _ shared.Cell, sink shared.EventSink) (shared.Result, error) {
			frame := pattern(4096)
			for i := range frames {
				if err := sink(shared.Event{Kind: shared.EventStdout, Data: frame, Offset: int64(i * len(frame))}); err != nil {
					return shared.Result{}, err
				}
			}
			return exited(3), nil
		},
	})
	calls := 0
	result, err := client.RunCell(bounded(t), shared.Handle{}, execCell(), func(shared.Event) error {
		calls++
		return errors.New("disk full")
	})
	if err != nil || *result.ExitCode != 3 || calls != 1 {
		t.Errorf("RunCell = %+v, %v after %d events, want the exit code 3 after 1", result, err, calls)
	}
}

func TestRunCell_Fails(t *testing.T) {
	t.Parallel()
	want := &shared.Error{
		Code: shared.CodeUnavailable, Cause: shared.CauseRemote, Message: "the sandbox is gone", RetryAfter: time.Second,
	}
	client := connect(t, &stub{
		runCell: func(_ context.Context, _ shared.Handle, _ shared.Cell, sink shared.EventSink) (shared.Result, error) {
			if err := sink(shared.Event{Kind: shared.EventStdout, Data: []byte("x")}); err != nil {
				return shared.Result{}, err
			}
			return shared.Result{}, want
		},
	})
	var kinds []shared.EventKind
	_, err := client.RunCell(bounded(t), shared.Handle{}, execCell(), func(e shared.Event) error {
		kinds = append(kinds, e.Kind)
		return nil
	})
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !Spoken(err) {
		t.Error("not taken for the adapter's word")
	}
	if !slices.Equal(kinds, []shared.EventKind{shared.EventStdout}) {
		t.Errorf("events %v, want stdout alone: the failure is the answer, not an event", kinds)
	}
}

func TestRunCell_Cancel(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	client := connect(t, &stub{
		runCell: func(ctx context.Context, _ shared.Handle, _ shared.Cell, sink shared.EventSink) (shared.Result, error) {
			if err := sink(shared.Event{Kind: shared.EventStdout, Data: []byte("started")}); err != nil {
				return shared.Result{}, err
			}
			<-ctx.Done()
			if err := sink(shared.Event{Kind: shared.EventSignal, Signal: "TERM"}); err != nil {
				return shared.Result{}, err
			}
			close(ended)
			return shared.Result{}, &shared.Error{Code: shared.CodeCancelled, Message: "cancelled; TERM ended the command"}
		},
	})
	ctx, cancel := context.WithCancel(bounded(t))
	var last shared.Event
	_, err := client.RunCell(ctx, shared.Handle{}, execCell(), func(e shared.Event) error {
		cancel()
		last = e
		return nil
	})
	select {
	case <-ended:
	default:
		t.Error("RunCell returned before the command had ended")
	}
	if !errors.Is(err, shared.ErrCancelled) || !Spoken(err) || !strings.Contains(err.Error(), "TERM ended") {
		t.Errorf("RunCell: %v, want the adapter's own word on the cancel", err)
	}
	if last.Signal != "TERM" {
		t.Errorf("the last event is %+v, want the signal", last)
	}
}

// TestRunCell_CancelUnanswered holds that a cancelled RunCell ends even when the adapter does not listen.
func TestRunCell_CancelUnanswered(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	inProcess := connect(t, &stub{
		runCell: func(_ context.Context, _ shared.Handle, _ shared.Cell, sink shared.EventSink) (shared.Result, error) {
			err := sink(shared.Event{Kind: shared.EventStdout, Data: []byte("started")})
			<-release
			return exited(0), err
		},
	})
	deaf := &client{rpc: inProcess.(*client).rpc, cancelReserve: 50 * time.Millisecond}
	for name, want := range map[string]error{"cancel": shared.ErrCancelled, "deadline": shared.ErrTimeout} {
		ctx, cancel := context.WithCancel(bounded(t))
		if name == "deadline" {
			ctx, cancel = context.WithTimeout(bounded(t), 200*time.Millisecond)
		}
		start := time.Now()
		_, err := deaf.RunCell(ctx, shared.Handle{}, execCell(), func(shared.Event) error {
			if name == "cancel" {
				cancel()
			}
			return nil
		})
		cancel()
		if !errors.Is(err, want) || Spoken(err) {
			t.Errorf("%s: %v (spoken %t), want %v, unspoken", name, err, Spoken(err), want)
		}
		if took := time.Since(start); took > patience/2 {
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

func TestRunCell_CancelledBefore(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := connect(t, &stub{}).RunCell(ctx, shared.Handle{}, execCell(), ignoreEvents)
	if !errors.Is(err, shared.ErrCancelled) {
		t.Errorf("RunCell: %v, want a cancel", err)
	}
}

func TestContents_Wrong(t *testing.T) {
	t.Parallel()
	good := []byte("0123456789")
	open := func(data []byte) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	}
	short, long, other, unreadable := content(good), content(good), content(good), content(good)
	short.Open, long.Open, other.Open = open(good[:9]), open(append(good, '!')), open([]byte("012345678x"))
	unreadable.Open = func() (io.ReadCloser, error) { return nil, errors.New("permission denied") }
	client := connect(t, &stub{})
	for name, tc := range map[string]struct {
		content shared.Content
		want    string
	}{
		"short":      {short, "ends 10 bytes before"},
		"long":       {long, "has more"},
		"other":      {other, "SHA-256"},
		"unreadable": {unreadable, "permission denied"},
	} {
		cell := execCell()
		cell.SeedAs, cell.Seeds = shared.SeedUncommitted, []shared.Seed{{Path: "in.json", Content: tc.content}}
		_, err := client.RunCell(bounded(t), shared.Handle{}, cell, ignoreEvents)
		checkBlame(t, name+" seed", err, shared.CauseSeed, tc.want, `"in.json"`)
		_, err = client.Provision(bounded(t), shared.ProvisionSpec{Patch: &tc.content})
		checkBlame(t, name+" patch", err, shared.CauseProvision, tc.want, "the patch")
	}
}

func checkBlame(t *testing.T, name string, err error, cause shared.Cause, texts ...string) {
	t.Helper()
	if !errors.Is(err, &shared.Error{Code: shared.CodeInvalid, Cause: cause}) || !Spoken(err) {
		t.Errorf("%s: %#v, want an invalid request of the cause %q", name, err, cause)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %q does not say %q", name, err, text)
		}
	}
}

func TestUnaryCancel(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{})
	client := connect(t, &stub{
		teardown: func(ctx context.Context, _ shared.Handle) (shared.TeardownReport, error) {
			<-ctx.Done()
			close(seen)
			return shared.TeardownReport{}, ctx.Err()
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := client.Teardown(ctx, shared.Handle{}); !errors.Is(err, shared.ErrTimeout) || Spoken(err) {
		t.Errorf("Teardown: %v (spoken %t), want an unspoken timeout", err, Spoken(err))
	}
	select {
	case <-seen:
	case <-time.After(patience):
		t.Error("the handler did not see the end of the context")
	}
}
