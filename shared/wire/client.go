package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

// NewClient returns the adapter at the other end of conn. Its errors are *shared.Error values; Spoken tells which of
// them the adapter said itself.
//
// A call ends at once when its context does, except RunCell once the command may have started: it then asks the adapter
// to end the command, and waits for the answer no longer than the cell's grace and a reserve.
func NewClient(conn grpc.ClientConnInterface) shared.Adapter {
	return &client{rpc: pb.NewAdapterClient(conn), cancelReserve: cancelReserve}
}

// client is an adapter in another process.
type client struct {
	rpc           pb.AdapterClient
	cancelReserve time.Duration
}

var _ shared.Adapter = (*client)(nil)

// Negotiate calls Negotiate of the adapter.
func (c *client) Negotiate(ctx context.Context, host shared.HostInfo) (shared.Description, error) {
	m, err := c.rpc.Negotiate(ctx, toHost(host))
	return accept(m, err, fromDescription)
}

// Configure calls Configure of the adapter.
func (c *client) Configure(ctx context.Context, cfg shared.Configuration) (shared.Configured, error) {
	m, err := c.rpc.Configure(ctx, toConfiguration(cfg))
	return accept(m, err, fromConfigured)
}

// Provision sends the spec and its patch, and waits for the workspace.
func (c *client) Provision(ctx context.Context, spec shared.ProvisionSpec) (shared.Provisioned, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.rpc.Provision(ctx)
	if err != nil {
		return shared.Provisioned{}, FromStatus(err)
	}
	if err := sendSpec(stream, spec); err != nil && !errors.Is(err, io.EOF) {
		return shared.Provisioned{}, FromStatus(err)
	}
	// After io.EOF the adapter has answered already; the answer says why.
	m, err := stream.CloseAndRecv()
	return accept(m, err, fromProvisioned)
}

func sendSpec(stream pb.Adapter_ProvisionClient, spec shared.ProvisionSpec) error {
	start := &pb.ProvisionRequest{Item: &pb.ProvisionRequest_Start{Start: toProvisionSpec(spec)}}
	if err := stream.Send(start); err != nil {
		return err
	}
	if spec.Patch == nil {
		return nil
	}
	err := sendContent(spec.Patch, func(data []byte) error {
		return stream.Send(&pb.ProvisionRequest{Item: &pb.ProvisionRequest_Chunk{Chunk: &pb.Chunk{Data: data}}})
	})
	return blame(err, shared.CauseProvision, "the patch that the workspace starts from")
}

// blame makes an unreadable content an error of the host; other errors stay as they are.
func blame(err error, cause shared.Cause, what string) error {
	var unreadable *contentError
	if !errors.As(err, &unreadable) {
		return err
	}
	return &shared.Error{Code: shared.CodeInvalid, Cause: cause, Err: err, Message: fmt.Sprintf("read %s: %v", what, err)}
}

// Teardown calls Teardown of the adapter.
func (c *client) Teardown(ctx context.Context, h shared.Handle) (shared.TeardownReport, error) {
	m, err := c.rpc.Teardown(ctx, &pb.TeardownRequest{Handle: toHandle(h)})
	return accept(m, err, fromTeardownReport)
}

// Find calls Find of the adapter.
func (c *client) Find(ctx context.Context, labels shared.Labels) ([]shared.Found, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.rpc.Find(ctx, &pb.FindRequest{Labels: toLabels(labels)})
	if err != nil {
		return nil, FromStatus(err)
	}
	var found []shared.Found
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		f, err := accept(m, err, fromFound)
		if err != nil {
			return nil, err
		}
		found = append(found, f)
	}
}

// Drain calls Drain of the adapter.
func (c *client) Drain(ctx context.Context, within time.Duration) (shared.DrainReport, error) {
	m, err := c.rpc.Drain(ctx, &pb.DrainRequest{Within: toDuration(within)})
	if err != nil {
		return shared.DrainReport{}, FromStatus(err)
	}
	return fromDrainReport(m), nil
}

// accept converts an answer of the adapter. One that the contract does not know is a bug of the adapter.
func accept[M, G any](m M, err error, convert func(*breach, M) G) (G, error) {
	var none G
	if err != nil {
		return none, FromStatus(err)
	}
	var b breach
	value := convert(&b, m)
	if err := b.asError(shared.CodeInternal); err != nil {
		return none, err
	}
	return value, nil
}
