package adapter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

func TestRefs_Notices(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	at, fails, looks := "one", error(nil), 0
	r := &refs{
		base: "main", now: func() time.Time { return now }, looks: map[string]look{},
		pins: map[string]shared.Pin{"": {Commit: "one", Notices: []shared.Notice{
			{Kind: shared.NoticeDirtySource, Count: 2}, {Kind: shared.NoticeHistory},
		}}},
		resolve: func(_ context.Context, ref string) (string, error) {
			if ref != "main" {
				t.Errorf("looked for %q, want main", ref)
			}
			looks++
			return at, fails
		},
	}
	kinds := func() []shared.NoticeKind {
		var out []shared.NoticeKind
		for _, n := range r.notices(context.Background(), "", "one") {
			out = append(out, n.Kind)
		}
		return out
	}
	dirty := []shared.NoticeKind{shared.NoticeDirtySource}
	moved := append(dirty[:1:1], shared.NoticeBaseDrift)
	if diff := cmp.Diff(dirty, kinds()); diff != "" {
		t.Errorf("at the pinned commit: %s", diff)
	}
	at = "two"
	if diff := cmp.Diff(dirty, kinds()); diff != "" || looks != 1 {
		t.Errorf("within the period of one look: %s, %d looks", diff, looks)
	}
	now = now.Add(2 * time.Second)
	if diff := cmp.Diff(moved, kinds()); diff != "" {
		t.Errorf("after the ref has moved: %s", diff)
	}
	fails, now = errors.New("gone"), now.Add(2*time.Second)
	if diff := cmp.Diff(moved, kinds()); diff != "" {
		t.Errorf("after the ref is gone: %s", diff)
	}
}
