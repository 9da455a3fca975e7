package wire

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"cellharness/shared"
)

// GRPCServer returns a server with the limits of the contract. A handler may return errors of the contract as they are,
// and one that panics costs only its own call: the caller gets CodeInternal, the stack goes to the log on fd 2, and the
// process lives. It has the form that go-plugin asks for.
func GRPCServer(opts []grpc.ServerOption) *grpc.Server { return grpcServer(opts, NewLogger("grpc")) }

func grpcServer(opts []grpc.ServerOption, log hclog.Logger) *grpc.Server {
	own := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxReceive),
		grpc.MaxSendMsgSize(maxReceive),
		grpc.ChainUnaryInterceptor(guardUnary(log)),
		grpc.ChainStreamInterceptor(guardStream(log)),
	}
	return grpc.NewServer(append(append([]grpc.ServerOption{}, opts...), own...)...)
}

func guardUnary(log hclog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (reply any, err error) {
		defer recoverTo(&err, log, info.FullMethod)
		reply, err = handle(ctx, request)
		if err != nil {
			return nil, ToStatus(err)
		}
		if err := checkSize(info.FullMethod, reply, shared.CodeInternal); err != nil {
			return nil, ToStatus(err)
		}
		return reply, nil
	}
}

func guardStream(log hclog.Logger) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
		defer recoverTo(&err, log, info.FullMethod)
		return ToStatus(handle(server, &limitedServerStream{stream, info.FullMethod}))
	}
}

// recoverTo turns a panic into an error. The mark lets a person find the stack in the log. The value of a panic may hold
// anything, even a secret, so only what the runtime itself says is written.
func recoverTo(err *error, log hclog.Logger, method string) {
	value := recover()
	if value == nil {
		return
	}
	said := fmt.Sprintf("a value of type %T", value)
	if e, ok := value.(runtime.Error); ok {
		said = e.Error()
	}
	stack := debug.Stack()
	mark := fmt.Sprintf("%x", sha256.Sum256(stack))[:12]
	log.Error("a handler panicked", "method", method, "mark", mark, "panic", said, "stack", string(stack))
	*err = ToStatus(&shared.Error{Code: shared.CodeInternal, Message: fmt.Sprintf(
		"the adapter met a bug of its own: %s panicked; the stack is in the adapter's log, marked %s", method, mark)})
}
