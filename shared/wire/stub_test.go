package wire

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

// patience bounds every wait of a test. It is passed only when something is wrong.
const patience = 30 * time.Second

// stub is an adapter of which a test says only what it needs; the rest succeeds with zero values.
type stub struct {
	negotiate func(ctx context.Context, host shared.HostInfo) (shared.Description, error)
	configure func(ctx context.Context, cfg shared.Configuration) (shared.Configured, error)
	provision func(ctx context.Context, spec shared.ProvisionSpec) (shared.Provisioned, error)
	runCell   func(ctx context.Context, h shared.Handle, cell shared.Cell, sink shared.EventSink) (shared.Result, error)
	collect   func(ctx context.Context, h shared.Handle, spec shared.CollectSpec, sink shared.ArtifactSink) (shared.Collection, error)
	teardown  func(ctx context.Context, h shared.Handle) (shared.TeardownReport, error)
	find      func(ctx context.Context, labels shared.Labels) ([]shared.Found, error)
	drain     func(ctx context.Context, within time.Duration) (shared.DrainReport, error)
}

var _ shared.Adapter = (*stub)(nil)

func (s *stub) Negotiate(ctx context.Context, host shared.HostInfo) (shared.Description, error) {
	if s.negotiate == nil {
		return shared.Description{Name: "stub", Fits: true}, nil
	}
	return s.negotiate(ctx, host)
}

func (s *stub) Configure(ctx context.Context, cfg shared.Configuration) (shared.Configured, error) {
	if s.configure == nil {
		return shared.Configured{}, nil
	}
	return s.configure(ctx, cfg)
}

func (s *stub) Provision(ctx context.Context, spec shared.ProvisionSpec) (shared.Provisioned, error) {
	if s.provision == nil {
		return shared.Provisioned{}, nil
	}
	return s.provision(ctx, spec)
}

func (s *stub) RunCell(ctx context.Context, h shared.Handle, cell shared.Cell, sink shared.EventSink) (shared.Result, error) {
	if s.runCell == nil {
		return exited(0), nil
	}
	return s.runCell(ctx, h, cell, sink)
}

func (s *stub) Collect(
	ctx context.Context, h shared.Handle, spec shared.CollectSpec, sink shared.ArtifactSink,
) (shared.Collection, error) {
	if s.collect == nil {
		return shared.Collection{}, nil
	}
	return s.collect(ctx, h, spec, sink)
}

func (s *stub) Teardown(ctx context.Context, h shared.Handle) (shared.TeardownReport, error) {
	if s.teardown == nil {
		return shared.TeardownReport{}, nil
	}
	return s.teardown(ctx, h)
}

func (s *stub) Find(ctx context.Context, labels shared.Labels) ([]shared.Found, error) {
	if s.find == nil {
		return nil, nil
	}
	return s.find(ctx, labels)
}

func (s *stub) Drain(ctx context.Context, within time.Duration) (shared.DrainReport, error) {
	if s.drain == nil {
		return shared.DrainReport{}, nil
	}
	return s.drain(ctx, within)
}

func exited(code int64) shared.Result {
	return shared.Result{Status: shared.StatusCompleted, ExitCode: &code}
}

// connect returns a client of a over gRPC.
func connect(t *testing.T, a shared.Adapter) shared.Adapter {
	t.Helper()
	client, stop, err := InProcess(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return client
}

// connectRaw returns a connection to a server on which register has put a service.
func connectRaw(t *testing.T, register func(grpc.ServiceRegistrar)) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := GRPCServer(nil)
	register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///raw", append(DialOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// rawClient returns a client that may break the contract against an adapter.
func rawClient(t *testing.T, a shared.Adapter) pb.AdapterClient {
	t.Helper()
	return pb.NewAdapterClient(connectRaw(t, func(s grpc.ServiceRegistrar) { RegisterAdapter(s, a) }))
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func content(data []byte) shared.Content {
	digest := sha256.Sum256(data)
	return shared.Content{
		Size: int64(len(data)), SHA256: hex.EncodeToString(digest[:]),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
	}
}

func contentOf(data []byte) *shared.Content {
	c := content(data)
	return &c
}

// read returns what a content holds.
func read(c shared.Content) ([]byte, error) {
	r, err := c.Open()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	closeInto(&err, r)
	return data, err
}

// pattern returns n bytes in which a piece that is lost, moved or doubled shows.
func pattern(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i>>16) ^ byte(i>>8)*31 ^ byte(i)*7
	}
	return data
}

func ignoreEvents(shared.Event) error { return nil }

func execCell() shared.Cell {
	return shared.Cell{Phase: shared.PhaseCell, Kind: shared.ExecCell, Argv: []string{"true"}, Timeout: time.Minute}
}
