package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

// cancelReserve is how long a cancelled RunCell waits for the adapter's answer beyond the grace of the cell: the time to
// end what ignored the grace, to count the output and to answer, on a busy machine.
const cancelReserve = 15 * time.Second

// RunCell sends the cell with its contents, hands the events to sink, and returns the result.
func (c *client) RunCell(
	ctx context.Context, h shared.Handle, cell shared.Cell, sink shared.EventSink,
) (shared.Result, error) {
	// The stream outlives ctx, because the answer to a cancel is what tells that the command has ended.
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stopAbort := context.AfterFunc(ctx, cancel)
	stream, err := c.rpc.RunCell(streamCtx)
	if err != nil {
		return shared.Result{}, endedBy(ctx, FromStatus(err))
	}
	if err := sendCell(stream, h, cell); err != nil && !errors.Is(err, io.EOF) {
		return shared.Result{}, endedBy(ctx, FromStatus(err))
	}
	if stopAbort() {
		stopAsking := context.AfterFunc(ctx, func() { askCancel(stream, streamCtx, cancel, cell.Grace+c.cancelReserve) })
		defer stopAsking()
	}
	result, err := (&eventReceiver{sink: sink}).receive(stream)
	return result, endedBy(ctx, err)
}

// askCancel asks for the end of the command, and ends the stream when no answer comes within bound.
func askCancel(stream pb.Adapter_RunCellClient, streamCtx context.Context, end context.CancelFunc, bound time.Duration) {
	ask := &pb.RunCellRequest{Item: &pb.RunCellRequest_Cancel{Cancel: &pb.Cancel{}}}
	if err := stream.Send(ask); err != nil {
		end() // the stream is broken already, and its reader learns why
		return
	}
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-timer.C:
		end()
	case <-streamCtx.Done():
	}
}

// endedBy gives an error that came of ending the stream the code of what ended ctx.
func endedBy(ctx context.Context, err error) error {
	if ctx.Err() == nil || Spoken(err) || !errors.Is(err, shared.ErrCancelled) {
		return err
	}
	return FromStatus(ctx.Err())
}

func sendCell(stream pb.Adapter_RunCellClient, h shared.Handle, cell shared.Cell) error {
	var b breach
	start := toCell(&b, h, cell)
	if err := b.asError(shared.CodeInvalid); err != nil {
		return err
	}
	if err := stream.Send(&pb.RunCellRequest{Item: &pb.RunCellRequest_Start{Start: start}}); err != nil {
		return err
	}
	sendChunk := func(data []byte) error {
		return stream.Send(&pb.RunCellRequest{Item: &pb.RunCellRequest_Chunk{Chunk: &pb.Chunk{Data: data}}})
	}
	for _, seed := range cell.Seeds {
		if err := stream.Send(&pb.RunCellRequest{Item: &pb.RunCellRequest_Seed{Seed: toSeed(seed)}}); err != nil {
			return err
		}
		err := sendContent(&seed.Content, sendChunk)
		if err := blame(err, shared.CauseSeed, fmt.Sprintf("the seed %q", seed.Path)); err != nil {
			return err
		}
	}
	if cell.Stdin == nil {
		return nil
	}
	return blame(sendContent(cell.Stdin, sendChunk), shared.CauseSeed, "the stdin of the command")
}

// eventReceiver checks what RunCell answers, and passes the events on.
type eventReceiver struct {
	sink    shared.EventSink
	deaf    bool  // the sink failed once, and gets nothing more
	stdout  int64 // where the last piece of stdout ended
	stderr  int64 // where the last piece of stderr ended
	result  *shared.Result
	failure *shared.Error // the final error
}

func (r *eventReceiver) receive(stream pb.Adapter_RunCellClient) (shared.Result, error) {
	for {
		m, err := stream.Recv()
		if err != nil {
			return r.end(err)
		}
		if r.result != nil || r.failure != nil {
			return shared.Result{}, breachOf(shared.CodeInternal, "a message of RunCell came after the last one")
		}
		var b breach
		r.take(&b, m)
		if err := b.asError(shared.CodeInternal); err != nil {
			return shared.Result{}, err
		}
	}
}

// end says how the call ended, from the last message and the status. What the last message says stands even when the
// connection breaks before the status: it is complete.
func (r *eventReceiver) end(err error) (shared.Result, error) {
	ok := errors.Is(err, io.EOF)
	if !ok {
		err = FromStatus(err)
	}
	switch {
	case r.failure != nil && (ok || !Spoken(err)):
		return shared.Result{}, r.failure
	case r.failure == nil && r.result == nil && ok:
		return shared.Result{}, breachOf(shared.CodeInternal, "RunCell ended without a result")
	case r.result != nil && (ok || !Spoken(err)):
		return *r.result, nil
	}
	return shared.Result{}, err
}

func (r *eventReceiver) take(b *breach, m *pb.RunCellResponse) {
	if m.GetResult() != nil {
		result := fromResult(b, m.GetResult())
		checkResult(b, result)
		r.result = &result
		return
	}
	event := fromEvent(b, m)
	r.checkOffset(b, event)
	if b.err != nil {
		return
	}
	if m.GetError().GetFinal() {
		r.failure = event.Err
		return
	}
	// The rest is still read after the sink has failed: the command goes on, and its result is wanted.
	r.deaf = r.deaf || r.sink(event) != nil
}

func (r *eventReceiver) checkOffset(b *breach, e shared.Event) {
	var end *int64
	switch e.Kind {
	case shared.EventStdout:
		end = &r.stdout
	case shared.EventStderr:
		end = &r.stderr
	default:
		return
	}
	if e.Offset < *end {
		b.add("a piece of output at byte %d came after byte %d", e.Offset, *end)
	}
	*end = e.Offset + int64(len(e.Data))
}
