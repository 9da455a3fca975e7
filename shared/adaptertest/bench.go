package adaptertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"cellharness/shared"
)

// A variable in the environment of the adapter that no cell may see.
const (
	canaryName  = "ADAPTERTEST_CANARY"
	canaryValue = "canary-of-the-host"
)

const (
	// patience bounds every call. It is far above what any call needs, so that a busy machine fails no test.
	patience = 2 * time.Minute

	// soon bounds what should take a second or two, on a busy machine.
	soon = 20 * time.Second
)

// bench is what the cases of one transport share: an adapter that was negotiated and configured.
type bench struct {
	subject Subject
	open    func(t *testing.T) (shared.Adapter, shared.Configuration)

	adapter     shared.Adapter
	cfg         shared.Configuration
	description shared.Description
	configured  shared.Configured
}

func newBench(t *testing.T, s Subject, open func(t *testing.T) (shared.Adapter, shared.Configuration)) *bench {
	b := &bench{subject: s, open: open}
	b.adapter, b.cfg = open(t)
	b.ready(t)
	return b
}

// fresh returns a bench with an adapter of its own.
func (b *bench) fresh(t *testing.T) *bench { return newBench(t, b.subject, b.open) }

// reopened returns a bench with another adapter under the same configuration, as after a crash.
func (b *bench) reopened(t *testing.T) *bench {
	again := &bench{subject: b.subject, open: b.open, cfg: b.cfg}
	again.adapter, _ = b.open(t)
	again.ready(t)
	return again
}

// ready negotiates and configures.
func (b *bench) ready(t *testing.T) {
	t.Helper()
	var err error
	if b.description, err = b.adapter.Negotiate(within(t), host()); err != nil {
		t.Fatalf("Negotiate: %v", err)
	}
	if b.configured, err = b.adapter.Configure(within(t), b.cfg); err != nil {
		t.Fatalf("Configure: %v", err)
	}
}

func host() shared.HostInfo {
	return shared.HostInfo{Version: shared.Version, HandleVersions: []uint32{1}}
}

// within returns a context that bounds one call.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// support returns how well the configured adapter limits a dimension.
func (b *bench) support(d shared.Dimension) shared.Support {
	return b.configured.Capabilities.Support(d)
}

// needs skips the test where the adapter does not enforce a dimension.
func (b *bench) needs(t *testing.T, d shared.Dimension) {
	t.Helper()
	if s := b.support(d); s.Level < shared.LevelEnforced {
		t.Skipf("%s is claimed at level %s only (%s)", d, s.Level, s.Reason)
	}
}

// needsWorkspaces skips the test where the adapter makes none.
func (b *bench) needsWorkspaces(t *testing.T) {
	t.Helper()
	if !b.configured.Capabilities.Provisions {
		t.Skip("the adapter makes no workspaces")
	}
}

// commit is what the subject's ref was pinned to, empty where it was not.
func (b *bench) commit() string {
	for _, p := range b.configured.Pins {
		if p.Ref == b.subject.Ref {
			return p.Commit
		}
	}
	return ""
}

// spec asks for a workspace of its own.
func (b *bench) spec() shared.ProvisionSpec {
	lease := newID()
	return shared.ProvisionSpec{
		Lease: lease,
		Labels: shared.Labels{
			Owner: b.cfg.Owner, Run: newID(), Instance: b.cfg.Instance, Cell: "key-of-" + lease, Attempt: 1,
		},
		Ref: b.subject.Ref, Base: b.commit(), Lifetime: 10 * time.Minute,
	}
}

// newID makes an id of the form of a ULID.
func newID() string {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	id := make([]byte, 26)
	if _, err := rand.Read(id); err != nil {
		panic(err) // never: crypto/rand ends the process itself
	}
	for i := range id {
		id[i] = alphabet[int(id[i])%len(alphabet)]
	}
	id[0] = '0'
	return string(id)
}

// space is a workspace.
type space struct {
	b      *bench
	t      *testing.T
	handle shared.Handle
	base   string
	labels shared.Labels
}

// provision makes a workspace that is torn down at the end of the test.
func (b *bench) provision(t *testing.T) *space {
	t.Helper()
	return b.provisionAs(t, b.spec())
}

func (b *bench) provisionAs(t *testing.T, spec shared.ProvisionSpec) *space {
	t.Helper()
	b.needsWorkspaces(t)
	p, err := b.adapter.Provision(within(t), spec)
	if err != nil {
		t.Fatalf("Provision: %v", err)
	}
	w := &space{b: b, t: t, handle: p.Handle, base: p.BaseSHA, labels: spec.Labels}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		report, err := b.adapter.Teardown(ctx, p.Handle)
		if err != nil || !report.Complete() {
			t.Errorf("Teardown at the end of the test = %+v, %v; want a complete report", report, err)
		}
	})
	return w
}

// cell makes an exec cell of argv with limits that no test reaches.
func cell(argv ...string) shared.Cell {
	return shared.Cell{
		Address: "conformance/task/variant#1", Phase: shared.PhaseCell, Kind: shared.ExecCell, Argv: argv,
		SeedAs: shared.SeedUncommitted, Timeout: patience, Grace: time.Second,
	}
}

// sh makes an exec cell of a script.
func sh(script string) shared.Cell { return cell("sh", "-c", script) }

// as returns the cell in another phase.
func as(phase shared.Phase, c shared.Cell) shared.Cell {
	c.Phase = phase
	return c
}

// content makes a Content of data.
func content(data []byte) shared.Content {
	return shared.Content{Size: int64(len(data)), SHA256: digest(data), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}}
}

func seed(path, data string) shared.Seed {
	return shared.Seed{Path: shared.Path(path), Content: content([]byte(data))}
}

// noise returns n bytes that hold every byte value.
func noise(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return data
}

// wantError fails unless err is an *Error that matches one of the targets.
func wantError(t *testing.T, doing string, err error, targets ...error) {
	t.Helper()
	var e *shared.Error
	if !errors.As(err, &e) {
		t.Errorf("%s: error = %v (%T); want an *Error of %s", doing, err, err, wanted(targets))
		return
	}
	if !slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) }) {
		t.Errorf("%s: error = %q of code %q and cause %q; want one of %s", doing, e, e.Code, e.Cause, wanted(targets))
	}
	if e.Message == "" {
		t.Errorf("%s: the error says nothing to a person", doing)
	}
}

// wanted says which codes and causes the targets match.
func wanted(targets []error) string {
	var all []string
	for _, target := range targets {
		var e *shared.Error
		switch {
		case !errors.As(target, &e):
			all = append(all, target.Error())
		case e.Cause != "":
			all = append(all, fmt.Sprintf("cause %q", e.Cause))
		default:
			all = append(all, fmt.Sprintf("code %q", e.Code))
		}
	}
	return strings.Join(all, " or ")
}
