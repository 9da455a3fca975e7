package adapter

import (
	"context"
	"fmt"
	"sync"
	"time"

	"cellharness/shared"
)

// driftPeriod is how long an answer about where a ref stands is taken for the cells that follow. A look costs a git
// process, which is as much as the rest of a small workspace.
const driftPeriod = time.Second

// refs knows what the bases of an instance were pinned to, and notices when they move. Cells keep the pinned commit;
// the notice tells a reader that the branch of that name is another one by now.
type refs struct {
	resolve func(ctx context.Context, ref string) (string, error)
	base    string // name of the instance's own base
	now     func() time.Time

	mu    sync.Mutex // guards looks
	pins  map[string]shared.Pin
	looks map[string]look
}

type look struct {
	at     time.Time
	commit string
	err    error
}

func newRefs(in *instance, pinned []shared.Pin) *refs {
	r := &refs{
		resolve: in.source.Commit, base: in.settings.Base, now: time.Now,
		pins: map[string]shared.Pin{}, looks: map[string]look{},
	}
	for _, p := range pinned {
		r.pins[p.Ref] = p
	}
	return r
}

// notices tells what was dirty when the ref was pinned, and whether the ref has moved since. ref is empty for the
// instance's own base.
func (r *refs) notices(ctx context.Context, ref, commit string) []shared.Notice {
	var out []shared.Notice
	for _, n := range r.pins[ref].Notices {
		if n.Kind == shared.NoticeDirtySource {
			out = append(out, n)
		}
	}
	name := ref
	if name == "" {
		name = r.base
	}
	switch now, err := r.look(ctx, name); {
	case ctx.Err() != nil:
	case err != nil:
		out = append(out, shared.Notice{Kind: shared.NoticeBaseDrift, Detail: "the base cannot be resolved any more: " + err.Error()})
	case now != commit:
		if name == "" {
			name = "HEAD"
		}
		out = append(out, shared.Notice{
			Kind: shared.NoticeBaseDrift, Detail: fmt.Sprintf("%s is at %s by now; the cell was made from %s", name, now, commit),
		})
	}
	return out
}

func (r *refs) look(ctx context.Context, name string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.looks[name]; ok && r.now().Sub(l.at) < driftPeriod {
		return l.commit, l.err
	}
	commit, err := r.resolve(ctx, name)
	if ctx.Err() != nil {
		return commit, err // says more of the caller than of the ref
	}
	r.looks[name] = look{r.now(), commit, err}
	return commit, err
}
