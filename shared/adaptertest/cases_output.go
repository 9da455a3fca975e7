package adaptertest

import (
	"bytes"
	"errors"
	"strconv"
	"testing"
	"time"

	"cellharness/shared"
)

// outputCases hold what is true of the output of a command.
func outputCases() []testCase {
	return []testCase{
		{"output_streams_apart", testStreamsApart},
		{"output_bytes", testOutputBytes},
		{"output_large", testOutputLarge},
		{"output_streaming", testStreaming},
		{"output_sink_fails", testSinkFails},
		{"output_limit", testOutputLimit},
		{"output_limit_reached_exactly", testOutputLimitExact},
	}
}

func testStreamsApart(t *testing.T, b *bench) {
	w := b.provision(t)
	o := w.run(sh("echo out; echo err >&2; echo out again; printf 'no end' >&2; exit 2"))
	o.wantExit(t, 2)
	o.wantOutput(t, "out\nout again\n", "err\nno end")
}

func testOutputBytes(t *testing.T, b *bench) {
	w := b.provision(t)
	o := w.run(sh(`printf 'a\000b\377\376\r\n\033[31m\n'; printf '\300\200' >&2`))
	o.wantExit(t, 0)
	o.wantOutput(t, "a\x00b\xff\xfe\r\n\x1b[31m\n", "\xc0\x80")
}

func testOutputLarge(t *testing.T, b *bench) {
	const lines = 1_300_000 // 10 MB
	var want bytes.Buffer
	for i := range lines {
		want.Write(strconv.AppendInt(nil, int64(i+1), 10))
		want.WriteByte('\n')
	}
	w := b.provision(t)
	o := w.run(cell("seq", strconv.Itoa(lines)))
	o.wantExit(t, 0)
	if digest(o.out) != digest(want.Bytes()) {
		t.Errorf("%d bytes with the digest %s arrived, want %d with %s", len(o.out), digest(o.out), want.Len(), digest(want.Bytes()))
	}
	if o.Stdout.Bytes != int64(want.Len()) || o.Stdout.Stored != o.Stdout.Bytes {
		t.Errorf("stdout counts %+v, want %d bytes", o.Stdout, want.Len())
	}
}

func testStreaming(t *testing.T, b *bench) {
	if !b.configured.Capabilities.Streaming {
		t.Skip("the adapter does not stream")
	}
	w := b.provision(t)
	o := w.script("echo early; sleep 3; echo late")
	o.wantOutput(t, "early\nlate\n", "")
	if ahead := o.end.Sub(o.first); ahead < time.Second {
		t.Errorf("the first output came %s before the end of a command that wrote it 3 s before", ahead)
	}
}

func testSinkFails(t *testing.T, b *bench) {
	w := b.provision(t)
	calls := 0
	result, err := b.adapter.RunCell(within(t), w.handle, sh("echo one; sleep 0.3; echo two > file; seq 100000; exit 6"),
		func(shared.Event) error {
			calls++
			return errors.New("no more")
		})
	if err != nil || result.ExitCode == nil || *result.ExitCode != 6 {
		t.Errorf("RunCell with a failing sink = exit code %s, %v; want 6", code(result.ExitCode), err)
	}
	if calls != 1 {
		t.Errorf("the sink was called %d times, want no call after its error", calls)
	}
	if result.Stdout.Bytes < 500_000 {
		t.Errorf("stdout counts %+v, want all that the command wrote", result.Stdout)
	}
	w.script("grep two file")
}

func testOutputLimit(t *testing.T, b *bench) {
	b.needs(t, shared.DimensionOutput)
	const limit = 100_000
	w := b.provision(t)
	c := sh("echo kept > file; seq 1000000; echo never > file")
	c.Limits = shared.Limits{OutputBytes: limit, Require: shared.LevelEnforced}
	o := w.run(c)
	if o.Status != shared.StatusLimitExceeded || o.Limit != shared.DimensionOutput {
		t.Errorf("status = %s, limit = %q; want the output limit", o.Status, o.Limit)
	}
	if o.Stdout.Stored != limit || o.Stdout.Bytes <= limit {
		t.Errorf("stdout counts %+v; want %d bytes stored and more produced", o.Stdout, limit)
	}
	w.script("grep kept file")
}

func testOutputLimitExact(t *testing.T, b *bench) {
	b.needs(t, shared.DimensionOutput)
	w := b.provision(t)
	c := sh("printf 1234567890; printf 1234567890 >&2")
	c.Limits = shared.Limits{OutputBytes: 10, Require: shared.LevelEnforced}
	o := w.run(c)
	o.wantExit(t, 0)
	o.wantOutput(t, "1234567890", "1234567890")
}
