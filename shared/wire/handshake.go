package wire

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"cellharness/shared"
	"cellharness/shared/worktreepb"
)

// ProtocolVersion is the version of the wire contract, negotiated by go-plugin before anything else is said.
const ProtocolVersion = 1

// The names under which go-plugin dispenses the services of an adapter process.
const (
	DispenseAdapter  = shared.ServiceAdapter
	DispenseWorktree = shared.ServiceWorktree
)

// Handshake returns what host and adapter have to agree on before they speak. The cookie is no secret: it keeps a person
// from starting an adapter by hand and waiting for something to happen.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  ProtocolVersion,
		MagicCookieKey:   "HARNESS_ADAPTER_COOKIE",
		MagicCookieValue: "b1f3a6f0c0f24d0d8f5b7d2f4f0f6a3e",
	}
}

// ClientPlugins returns the VersionedPlugins of the host. Dispensing DispenseAdapter gives a shared.Adapter, dispensing
// DispenseWorktree a worktreepb.WorktreeClient. Dispensing a service that the other side does not serve succeeds and
// fails at the first call, so ask shared.Description.Serves first.
func ClientPlugins() map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{
		ProtocolVersion: {DispenseAdapter: &adapterPlugin{}, DispenseWorktree: &worktreePlugin{}},
	}
}

// serverPlugins returns what an adapter process serves; worktree may be nil.
func serverPlugins(a shared.Adapter, worktree worktreepb.WorktreeServer) map[int]plugin.PluginSet {
	set := plugin.PluginSet{DispenseAdapter: &adapterPlugin{adapter: a}}
	if worktree != nil {
		set[DispenseWorktree] = &worktreePlugin{server: worktree}
	}
	return map[int]plugin.PluginSet{ProtocolVersion: set}
}

// errHostSide says that a plugin value made for the host was asked to serve.
var errHostSide = errors.New("there is nothing to serve: these are the host's plugins")

// adapterPlugin is the go-plugin form of the adapter service; adapter is nil on the host.
type adapterPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	adapter shared.Adapter
}

var _ plugin.GRPCPlugin = (*adapterPlugin)(nil)

// GRPCServer registers the adapter.
func (p *adapterPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	if p.adapter == nil {
		return errHostSide
	}
	RegisterAdapter(s, p.adapter)
	return nil
}

// GRPCClient returns a shared.Adapter.
func (p *adapterPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewClient(conn), nil
}

// worktreePlugin is the go-plugin form of the worktree service; server is nil on the host.
type worktreePlugin struct {
	plugin.NetRPCUnsupportedPlugin
	server worktreepb.WorktreeServer
}

var _ plugin.GRPCPlugin = (*worktreePlugin)(nil)

// GRPCServer registers the worktree service.
func (p *worktreePlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	if p.server == nil {
		return errHostSide
	}
	worktreepb.RegisterWorktreeServer(s, p.server)
	return nil
}

// GRPCClient returns a worktreepb.WorktreeClient.
func (p *worktreePlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return worktreepb.NewWorktreeClient(conn), nil
}
