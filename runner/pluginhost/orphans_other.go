//go:build !linux

package pluginhost

// becomeReaper does nothing: the system has no such role, and the capabilities of the local adapter say what escapes.
func becomeReaper() error { return nil }

func (h *Host) sweepOrphans() {}
