package pluginhost

import (
	"context"
	"fmt"

	"cellharness/shared"
)

// Describe launches the adapter of a kind, negotiates with it, and ends it: what it is and what it can before it is
// configured, and the SHA-256 of its program. The error is a *shared.Error as that of Start.
func (h *Host) Describe(ctx context.Context, kindName string) (shared.Description, string, error) {
	var none shared.Description
	kind, ok := shared.KindByName(h.cfg.Kinds, kindName)
	if !ok {
		return none, "", &shared.Error{Code: shared.CodeInvalid, Message: fmt.Sprintf("there is no adapter %q", kindName)}
	}
	in, err := newInstance(h, Instance{Name: kind.Name, Kind: kind.Name}, kind)
	if err != nil {
		return none, "", err
	}
	bin, err := in.program()
	if err != nil {
		return none, "", err
	}
	p, _, err := in.connect(ctx, bin)
	if err != nil {
		return none, "", err
	}
	defer p.abandon()
	if err := p.negotiate(ctx); err != nil {
		return none, "", err
	}
	return p.description, p.digest, nil
}
