package adapter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"cellharness/shared"
)

// TestTeardown_DuringProvision holds that a workspace whose making is cancelled at any moment is gone when Teardown has
// answered, and stays gone.
func TestTeardown_DuringProvision(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range 2000 {
		files[fmt.Sprintf("d%d/f%d.txt", i%40, i)] = "x\n"
	}
	env := home(t)
	cfg := configurationOf(t, repository(t, env, files))
	a, err := New(Options{Environ: env})
	if err != nil {
		t.Fatal(err)
	}
	configured, err := a.Configure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	base := configured.Pins[0].Commit
	for i := range 20 {
		lease := fmt.Sprintf("L%02d", i)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*3*time.Millisecond)
		answered := make(chan error, 1)
		go func() {
			_, err := a.Provision(ctx, shared.ProvisionSpec{
				Lease: lease, Base: base, Labels: shared.Labels{Owner: cfg.Owner, Run: "r", Cell: lease, Attempt: 1},
			})
			answered <- err
		}()
		<-ctx.Done()
		cancel()
		report, err := a.Teardown(t.Context(), shared.Handle{Adapter: Name, Version: handleVersion, Lease: lease})
		if err != nil || !report.Complete() {
			t.Errorf("%s: Teardown = %+v, %v", lease, report, err)
		}
		if err := <-answered; err != nil && !errors.Is(err, shared.ErrCancelled) && !errors.Is(err, shared.ErrTimeout) {
			t.Errorf("%s: Provision: %v", lease, err)
		}
	}
	for _, dir := range []string{"workspaces", "trash"} {
		left, err := os.ReadDir(a.instance.store.Root() + "/" + dir)
		if err != nil || len(left) > 0 {
			t.Errorf("%s holds %v, %v", dir, left, err)
		}
	}
}
