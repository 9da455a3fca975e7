package wire

import (
	"os"

	"github.com/hashicorp/go-hclog"
)

// NewLogger returns the one logger of an adapter process: JSON lines on fd 2, which the harness keeps. Make it before
// Serve, which points os.Stderr elsewhere.
func NewLogger(name string) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.Debug, Output: os.Stderr, JSONFormat: true})
}
