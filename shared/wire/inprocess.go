package wire

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"cellharness/shared"
)

// InProcess returns a client that speaks to a over a real gRPC connection inside this process. It is for tests: nothing
// of the life of an adapter process (Serve) takes part. stop ends connection and server, and cuts what still runs.
func InProcess(a shared.Adapter) (client shared.Adapter, stop func(), err error) {
	const buffer = 1 << 20 // bytes in flight, as in a socket's buffers
	listener := bufconn.Listen(buffer)
	server := GRPCServer(nil)
	RegisterAdapter(server, a)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // it ends by stop alone, which needs no reason
	}()
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
	conn, err := grpc.NewClient("passthrough:///in-process", append(DialOptions(),
		grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		server.Stop()
		<-served
		return nil, nil, fmt.Errorf("connect to the adapter in this process: %w", err)
	}
	stop = func() {
		_ = conn.Close() // fails only when it was closed before
		server.Stop()
		<-served
	}
	return NewClient(conn), stop, nil
}
