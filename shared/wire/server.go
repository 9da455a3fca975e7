package wire

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

// RegisterAdapter serves a at s. What came with a call (patch, seeds, stdin) is received whole and checked before the
// adapter sees the call, and can be read until its method returns.
func RegisterAdapter(s grpc.ServiceRegistrar, a shared.Adapter) {
	pb.RegisterAdapterServer(s, &server{adapter: a})
}

// server answers calls with an adapter.
type server struct {
	pb.UnimplementedAdapterServer
	adapter shared.Adapter
}

// Negotiate answers with what the adapter says of itself.
func (s *server) Negotiate(ctx context.Context, m *pb.NegotiateRequest) (*pb.NegotiateResponse, error) {
	d, err := s.adapter.Negotiate(ctx, fromHost(m))
	reply, err := answer(d, err, toDescription)
	return reply, ToStatus(err)
}

// Configure hands the configuration to the adapter.
func (s *server) Configure(ctx context.Context, m *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	var b breach
	cfg := fromConfiguration(&b, m)
	if err := b.asError(shared.CodeInvalid); err != nil {
		return nil, ToStatus(err)
	}
	configured, err := s.adapter.Configure(ctx, cfg)
	reply, err := answer(configured, err, toConfigured)
	return reply, ToStatus(err)
}

// Provision receives the spec and its patch and makes the workspace.
func (s *server) Provision(stream grpc.ClientStreamingServer[pb.ProvisionRequest, pb.ProvisionResponse]) error {
	m, err := s.provision(stream)
	if err != nil {
		return ToStatus(err)
	}
	return stream.SendAndClose(m)
}

func (s *server) provision(
	stream grpc.ClientStreamingServer[pb.ProvisionRequest, pb.ProvisionResponse],
) (m *pb.ProvisionResponse, err error) {
	var patch spool
	defer closeInto(&err, &patch)
	spec, err := receiveSpec(stream, &patch)
	if err != nil {
		return nil, err
	}
	p, err := s.adapter.Provision(stream.Context(), spec)
	return answer(p, err, toProvisioned)
}

func receiveSpec(
	stream grpc.ClientStreamingServer[pb.ProvisionRequest, pb.ProvisionResponse], patch *spool,
) (shared.ProvisionSpec, error) {
	var none shared.ProvisionSpec
	first, err := stream.Recv()
	if err != nil {
		return none, endOfRequest(err)
	}
	var b breach
	b.missing(first.GetStart() == nil, "the spec, which comes first,")
	spec := fromProvisionSpec(&b, first.GetStart())
	if err := b.asError(shared.CodeInvalid); err != nil {
		return none, err
	}
	if spec.Patch != nil {
		content, err := patch.receive(*spec.Patch, func() ([]byte, error) {
			m, err := stream.Recv()
			if err != nil {
				return nil, endOfRequest(err)
			}
			return chunkData(m.GetChunk())
		})
		if err != nil {
			return none, err
		}
		spec.Patch = &content
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return none, breachOf(shared.CodeInvalid, "there is more than the spec and its patch (%v)", err)
	}
	return spec, nil
}

// Collect streams artifacts and the collection.
func (s *server) Collect(m *pb.CollectRequest, stream grpc.ServerStreamingServer[pb.CollectResponse]) error {
	var b breach
	handle, spec := fromCollectSpec(&b, m)
	if err := b.asError(shared.CodeInvalid); err != nil {
		return ToStatus(err)
	}
	collected, err := s.adapter.Collect(stream.Context(), handle, spec, &artifactSender{stream})
	collection, err := answer(collected, err, toCollection)
	if err != nil {
		return ToStatus(err)
	}
	return stream.Send(&pb.CollectResponse{Item: &pb.CollectResponse_Collection{Collection: collection}})
}

// Teardown removes the workspace.
func (s *server) Teardown(ctx context.Context, m *pb.TeardownRequest) (*pb.TeardownResponse, error) {
	var b breach
	handle := fromHandle(&b, m.GetHandle())
	if err := b.asError(shared.CodeInvalid); err != nil {
		return nil, ToStatus(err)
	}
	report, err := s.adapter.Teardown(ctx, handle)
	reply, err := answer(report, err, toTeardownReport)
	return reply, ToStatus(err)
}

// Find streams the workspaces that the adapter sees.
func (s *server) Find(m *pb.FindRequest, stream grpc.ServerStreamingServer[pb.FindResponse]) error {
	var b breach
	labels := fromLabels(&b, m.GetLabels())
	if err := b.asError(shared.CodeInvalid); err != nil {
		return ToStatus(err)
	}
	found, err := s.adapter.Find(stream.Context(), labels)
	if err != nil {
		return ToStatus(err)
	}
	for _, f := range found {
		if err := stream.Send(toFound(f)); err != nil {
			return err
		}
	}
	return nil
}

// Drain stops the adapter's work.
func (s *server) Drain(ctx context.Context, m *pb.DrainRequest) (*pb.DrainResponse, error) {
	var b breach
	within := fromDuration(&b, m.GetWithin())
	if err := b.asError(shared.CodeInvalid); err != nil {
		return nil, ToStatus(err)
	}
	report, err := s.adapter.Drain(ctx, within)
	if err != nil {
		return nil, ToStatus(err)
	}
	return toDrainReport(report), nil
}

// answer converts what an adapter returned. An answer that the contract does not know is a bug of the adapter.
func answer[G, M any](value G, err error, convert func(*breach, G) M) (M, error) {
	var none M
	if err != nil {
		return none, err
	}
	var b breach
	m := convert(&b, value)
	if err := b.asError(shared.CodeInternal); err != nil {
		return none, err
	}
	return m, nil
}

// endOfRequest says why no more of a request can be read.
func endOfRequest(err error) error {
	if errors.Is(err, io.EOF) {
		return breachOf(shared.CodeInvalid, "the request ended before it was complete")
	}
	return FromStatus(err)
}

// chunkData returns the bytes of a chunk; nil stands for a message that is something else.
func chunkData(m *pb.Chunk) ([]byte, error) {
	if n := len(m.GetData()); n == 0 || n > maxChunk {
		return nil, breachOf(shared.CodeInvalid, "a chunk of 1 to %d bytes should come here, not one of %d bytes or something else",
			maxChunk, n)
	}
	return m.GetData(), nil
}
