package wire

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"cellharness/shared"
)

const (
	// maxMessage is the most bytes of one message that either side sends. Requests that a definition can make larger,
	// such as many settings or a huge argument, are refused with a text that says so.
	maxMessage = 1 << 20

	// maxReceive is the most bytes of one message that either side takes. It is set on both sides because the defaults
	// differ: gRPC servers take 4 MiB, and go-plugin's clients take anything, so that one answer could fill the memory
	// of the host. It leaves room above maxMessage, so that the sender's own check speaks first.
	maxReceive = 2 << 20

	// maxChunk is the most bytes of content in one message. Measured: throughput is best from 256 KiB on, and 32 KiB to
	// 64 KiB are the slowest sizes of all.
	maxChunk = 256 << 10
)

// DialOptions returns the options with which a host dials an adapter: limits of size in both directions. go-plugin
// appends them to its own, so they win.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceive), grpc.MaxCallSendMsgSize(maxReceive)),
		grpc.WithChainUnaryInterceptor(limitUnaryRequest),
		grpc.WithChainStreamInterceptor(limitStreamRequest),
	}
}

// checkSize refuses a message that is too large to send.
func checkSize(method string, message any, code shared.Code) error {
	m, ok := message.(proto.Message)
	if !ok {
		return nil
	}
	size := proto.Size(m)
	if size <= maxMessage {
		return nil
	}
	return &shared.Error{Code: code, Cause: shared.CauseProtocol, Message: fmt.Sprintf(
		"a message of %s would have %d bytes; at most %d may be sent at once (contents of files are not counted, "+
			"settings, arguments, environment and lists are)", method, size, maxMessage)}
}

func limitUnaryRequest(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if err := checkSize(method, request, shared.CodeInvalid); err != nil {
		return err
	}
	return invoke(ctx, method, request, reply, conn, opts...)
}

func limitStreamRequest(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, err
	}
	return &limitedClientStream{stream, method}, nil
}

// limitedClientStream refuses to send what is too large.
type limitedClientStream struct {
	grpc.ClientStream
	method string
}

// SendMsg sends the message unless it is too large.
func (s *limitedClientStream) SendMsg(m any) error {
	if err := checkSize(s.method, m, shared.CodeInvalid); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(m)
}

// limitedServerStream refuses to send what is too large.
type limitedServerStream struct {
	grpc.ServerStream
	method string
}

// SendMsg sends the message unless it is too large.
func (s *limitedServerStream) SendMsg(m any) error {
	if err := checkSize(s.method, m, shared.CodeInternal); err != nil {
		return ToStatus(err)
	}
	return s.ServerStream.SendMsg(m)
}
