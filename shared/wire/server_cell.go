package wire

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

type cellStream = grpc.BidiStreamingServer[pb.RunCellRequest, pb.RunCellResponse]

// errCancelAsked is the cause of a context that ended because the client sent cancel.
var errCancelAsked = errors.New("the host cancelled the command")

// RunCell receives the cell, runs it and streams what happens.
func (s *server) RunCell(stream cellStream) error {
	result, err := s.runCell(stream)
	if err == nil {
		return stream.Send(&pb.RunCellResponse{Item: &pb.RunCellResponse_Result{Result: result}})
	}
	var b breach
	final := toError(&b, presentable(err))
	final.Final = true
	if err := stream.Send(&pb.RunCellResponse{Item: &pb.RunCellResponse_Error{Error: final}}); err != nil {
		return err
	}
	return ToStatus(err)
}

func (s *server) runCell(stream cellStream) (m *pb.Result, err error) {
	var inputs spool
	defer closeInto(&err, &inputs)
	handle, cell, err := (&cellReceiver{stream, &inputs}).receive()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	// It ends when the client closes its side, and at the latest with this call, which ends the stream.
	go watchCancel(stream, cancel)
	result, err := s.adapter.RunCell(ctx, handle, cell, eventSender(stream))
	if err != nil {
		return nil, orBreach(ctx, err)
	}
	var b breach
	m = toResult(&b, result)
	checkResult(&b, result)
	return m, b.asError(shared.CodeInternal)
}

// watchCancel waits for the one message that may come while the command runs.
func watchCancel(stream cellStream, cancel context.CancelCauseFunc) {
	m, err := stream.Recv()
	switch {
	case errors.Is(err, io.EOF): // the client has nothing more to say; the command goes on
	case err != nil:
		cancel(err)
	case m.GetCancel() != nil:
		cancel(errCancelAsked)
	default:
		cancel(breachOf(shared.CodeInvalid, "only cancel may follow the contents of a cell, not %T", m.GetItem()))
	}
}

// orBreach prefers the client's breach of the contract to what the adapter made of the cancelled context.
func orBreach(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && isOurs(cause) {
		return cause
	}
	return err
}

// eventSender returns a sink that sends events as they come.
func eventSender(stream cellStream) shared.EventSink {
	return func(e shared.Event) error {
		var b breach
		m := toEvent(&b, e)
		if err := b.asError(shared.CodeInternal); err != nil {
			return err
		}
		if err := stream.Send(m); err != nil {
			return fmt.Errorf("send an event of the command: %w", err)
		}
		return nil
	}
}

// cellReceiver reads the request of RunCell up to the point where the command may start.
type cellReceiver struct {
	stream cellStream
	inputs *spool
}

func (r *cellReceiver) receive() (shared.Handle, shared.Cell, error) {
	var none shared.Cell
	first, err := r.stream.Recv()
	if err != nil {
		return shared.Handle{}, none, endOfRequest(err)
	}
	var b breach
	b.missing(first.GetStart() == nil, "the cell, which comes first,")
	handle, cell := fromCell(&b, first.GetStart())
	if err := b.asError(shared.CodeInvalid); err != nil {
		return shared.Handle{}, none, err
	}
	for range first.GetStart().GetSeeds() {
		seed, err := r.seed()
		if err != nil {
			return shared.Handle{}, none, err
		}
		cell.Seeds = append(cell.Seeds, seed)
	}
	if cell.Stdin != nil {
		content, err := r.inputs.receive(*cell.Stdin, r.chunk)
		if err != nil {
			return shared.Handle{}, none, err
		}
		cell.Stdin = &content
	}
	return handle, cell, nil
}

func (r *cellReceiver) seed() (shared.Seed, error) {
	m, err := r.next()
	if err != nil {
		return shared.Seed{}, err
	}
	var b breach
	b.missing(m.GetSeed() == nil, "a seed that was announced")
	seed := fromSeed(&b, m.GetSeed())
	if err := b.asError(shared.CodeInvalid); err != nil {
		return shared.Seed{}, err
	}
	seed.Content, err = r.inputs.receive(seed.Content, r.chunk)
	return seed, err
}

func (r *cellReceiver) chunk() ([]byte, error) {
	m, err := r.next()
	if err != nil {
		return nil, err
	}
	return chunkData(m.GetChunk())
}

// next returns the next message, unless the client gives up before the command has started.
func (r *cellReceiver) next() (*pb.RunCellRequest, error) {
	m, err := r.stream.Recv()
	if err != nil {
		return nil, endOfRequest(err)
	}
	if m.GetCancel() != nil {
		return nil, &shared.Error{Code: shared.CodeCancelled, Err: errCancelAsked, Message: "cancelled before the command started"}
	}
	return m, nil
}
