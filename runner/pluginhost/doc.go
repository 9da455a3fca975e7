// Package pluginhost owns the adapter processes: it launches them, negotiates with them, watches them, says why they
// died, and stops them. One process serves one adapter instance; each start of it is a generation, and a generation
// never comes back.
//
// The package is the only one on the harness's side that knows go-plugin, which it trusts for the handshake, TLS and
// the connection, and for nothing else. The processes, their pipes, their end and the words for it are its own, since
// go-plugin's clean-up waits without a bound for whoever holds an adapter's output, reads hostile log lines with a
// parser that panics, and guesses at reasons.
//
// The command makes a [Host]; the engine asks it for adapters and sees no more than the interface of package shared.
package pluginhost
