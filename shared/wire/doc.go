// Package wire carries the contract of shared over gRPC: handshake, client, server, and the life of an adapter process.
//
// Whoever is on either side holds a shared.Adapter and shared.Error values; nobody else sees generated code, statuses or
// streams. Both sides check what they receive, as the text in shared/proto says, and neither holds more than a few
// messages in memory. Adapters come in through Serve, the host through ClientPlugins, tests through InProcess.
package wire
