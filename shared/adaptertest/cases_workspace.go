package adaptertest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

// workspaceCases hold what is true of the life of a workspace.
func workspaceCases() []testCase {
	return []testCase{
		{"provision", testProvision},
		{"provision_same_lease", testProvisionSameLease},
		{"provision_concurrent", testProvisionConcurrent},
		{"workspaces_are_apart", testWorkspacesApart},
		{"phases_share_a_workspace", testPhases},
		{"teardown_twice", testTeardownTwice},
		{"teardown_by_lease", testTeardownByLease},
		{"teardown_removes", testTeardownRemoves},
		{"teardown_running", testTeardownRunning},
		{"teardown_hostile_modes", testTeardownModes},
		{"run_after_teardown", testRunAfterTeardown},
		{"find", testFind},
		{"another_process_finishes", testAnotherProcess},
	}
}

func testProvision(t *testing.T, b *bench) {
	spec := b.spec()
	w := b.provisionAs(t, spec)
	h := w.handle
	if h.Adapter != b.subject.Name || h.Instance != b.cfg.Instance || h.Lease != spec.Lease {
		t.Errorf("the handle is of %s.%s with the lease %s; want %s.%s with %s",
			h.Adapter, h.Instance, h.Lease, b.subject.Name, b.cfg.Instance, spec.Lease)
	}
	if h.Resource == "" || h.Root == "" {
		t.Errorf("the handle names the resource %q and the root %q; want both", h.Resource, h.Root)
	}
	if w.base == "" || w.base != h.Base || (spec.Base != "" && w.base != spec.Base) {
		t.Errorf("the workspace was made from %q, the handle says %q; %q was asked for", w.base, h.Base, spec.Base)
	}
	w.script("echo made-here > mark")
	if b.configured.Capabilities.Transfer != shared.TransferMount {
		return
	}
	if data, err := os.ReadFile(filepath.Join(h.Root, "mark")); err != nil || string(data) != "made-here\n" {
		t.Errorf("the file that the command wrote is %q, %v below the handle's root", data, err)
	}
}

func testProvisionSameLease(t *testing.T, b *bench) {
	spec := b.spec()
	w := b.provisionAs(t, spec)
	w.script("echo first > mark")
	_, err := b.adapter.Provision(within(t), spec)
	wantError(t, "Provision with a lease that is taken", err, shared.ErrExists)
	w.script("grep first mark")
}

func testProvisionConcurrent(t *testing.T, b *bench) {
	b.needsWorkspaces(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			// Fatal may end the test's own goroutine only, so a failure is said in another way.
			if err := useOnce(t, b, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// useOnce takes a workspace from Provision to Teardown.
func useOnce(t *testing.T, b *bench, mark string) error {
	p, err := b.adapter.Provision(within(t), b.spec())
	if err != nil {
		return fmt.Errorf("Provision: %w", err)
	}
	var out []byte
	c := cell("sh", "-c", `test ! -e mark && printf %s "$1" > mark && cat mark`, "sh", mark)
	result, runErr := b.adapter.RunCell(within(t), p.Handle, c, func(e shared.Event) error {
		if e.Kind == shared.EventStdout {
			out = append(out, e.Data...)
		}
		return nil
	})
	report, err := b.adapter.Teardown(within(t), p.Handle)
	switch {
	case runErr != nil:
		return fmt.Errorf("RunCell: %w", runErr)
	case string(out) != mark || result.ExitCode == nil || *result.ExitCode != 0:
		return fmt.Errorf("the command said %q with exit code %s, want %q and 0", out, code(result.ExitCode), mark)
	case err != nil || !report.Complete():
		return fmt.Errorf("Teardown = %+v, %w; want a complete report", report, err)
	}
	return nil
}

func testWorkspacesApart(t *testing.T, b *bench) {
	one, two := b.provision(t), b.provision(t)
	if one.handle.Root == two.handle.Root && one.handle.Resource == two.handle.Resource {
		t.Errorf("both workspaces are %q in %q", one.handle.Root, one.handle.Resource)
	}
	one.script("echo one > mark")
	two.script("test ! -e mark")
	two.script("echo two > mark")
	one.script("grep one mark")
	if _, err := b.adapter.Teardown(within(t), one.handle); err != nil {
		t.Fatalf("Teardown: %v", err)
	}
	two.script("grep two mark")
}

func testPhases(t *testing.T, b *bench) {
	w := b.provision(t)
	setup := as(shared.PhaseSetup, sh("echo prepared > tool"))
	w.run(setup).wantExit(t, 0)
	measured := sh("test ! -e hidden_test && cat tool input > answer; exit 4")
	measured.Seeds = []shared.Seed{seed("input", "in\n")}
	w.run(measured).wantExit(t, 4)
	found := w.collect(shared.CollectSpec{Patterns: []shared.Pattern{"answer"}})
	if got := string(found.data["answer"]); got != "prepared\nin\n" {
		t.Errorf("the answer is %q", got)
	}
	verify := as(shared.PhaseVerify, sh("cmp answer hidden_test"))
	verify.Seeds = []shared.Seed{seed("hidden_test", "prepared\nin\n")}
	w.run(verify).wantExit(t, 0)
}

func testTeardownTwice(t *testing.T, b *bench) {
	w := b.provision(t)
	for _, state := range []shared.ResourceState{shared.ResourceRemoved, shared.ResourceAbsent} {
		report, err := b.adapter.Teardown(within(t), w.handle)
		if err != nil || !report.Complete() {
			t.Fatalf("Teardown = %+v, %v; want a complete report", report, err)
		}
		for _, r := range report.Resources {
			if state == shared.ResourceAbsent && r.State != state {
				t.Errorf("the second Teardown removed %s %q again", r.Kind, r.Name)
			}
		}
	}
}

// testTeardownByLease holds that whoever knows no more than a lease can have its workspace removed.
func testTeardownByLease(t *testing.T, b *bench) {
	w := b.provision(t)
	h := shared.Handle{Adapter: w.handle.Adapter, Instance: w.handle.Instance, Version: w.handle.Version, Lease: w.handle.Lease}
	for range 2 {
		report, err := b.adapter.Teardown(within(t), h)
		if err != nil || !report.Complete() {
			t.Fatalf("Teardown by the lease = %+v, %v; want a complete report", report, err)
		}
	}
	found, err := b.adapter.Find(within(t), b.spec().Labels)
	if err != nil {
		t.Fatalf("Find: %v", err)
	}
	for _, f := range found {
		if f.Handle.Lease == h.Lease {
			t.Errorf("Find still sees %s", h.Lease)
		}
	}
}

func testTeardownRemoves(t *testing.T, b *bench) {
	w := b.provision(t)
	w.script("mkdir -p a/b && echo x > a/b/c && ln -s / link")
	report, err := b.adapter.Teardown(within(t), w.handle)
	if err != nil || !report.Complete() || len(report.Resources) == 0 {
		t.Errorf("Teardown = %+v, %v; want a complete report of some resources", report, err)
	}
	for _, r := range report.Resources {
		if r.Kind == "" || r.Name == "" {
			t.Errorf("a resource of kind %q has the name %q; want both", r.Kind, r.Name)
		}
	}
	found, err := b.adapter.Find(within(t), w.labels)
	if err != nil || len(found) > 0 {
		t.Errorf("Find after Teardown = %+v, %v; want nothing", found, err)
	}
	if b.configured.Capabilities.Transfer != shared.TransferMount {
		return
	}
	if _, err := os.Lstat(w.handle.Root); !os.IsNotExist(err) {
		t.Errorf("the root %q is still there: %v", w.handle.Root, err)
	}
}

func testTeardownRunning(t *testing.T, b *bench) {
	w := b.provision(t)
	running := w.start(sh("echo running; sleep 60"))
	running.waitOutput(t)
	report, err := b.adapter.Teardown(within(t), w.handle)
	if err != nil || !report.Complete() {
		t.Errorf("Teardown under a command = %+v, %v; want a complete report", report, err)
	}
	if result, err := running.wait(t); err == nil {
		t.Errorf("the command that was torn down gave the result %+v; want an error", result)
	}
}

func testTeardownModes(t *testing.T, b *bench) {
	w := b.provision(t)
	w.script("mkdir -p locked/in && echo x > locked/in/f && chmod 0 locked/in/f locked/in locked")
	report, err := b.adapter.Teardown(within(t), w.handle)
	if err != nil || !report.Complete() {
		t.Errorf("Teardown of directories without a mode = %+v, %v; want a complete report", report, err)
	}
}

func testRunAfterTeardown(t *testing.T, b *bench) {
	w := b.provision(t)
	if _, err := b.adapter.Teardown(within(t), w.handle); err != nil {
		t.Fatalf("Teardown: %v", err)
	}
	_, err := w.try(within(t), sh("true"))
	wantError(t, "RunCell after Teardown", err, shared.ErrPrecondition, shared.ErrNotFound)
	_, err = b.adapter.Collect(within(t), w.handle, shared.CollectSpec{Diff: true}, &shelf{t: t})
	wantError(t, "Collect after Teardown", err, shared.ErrPrecondition, shared.ErrNotFound)
}

func testFind(t *testing.T, b *bench) {
	one, two, three := b.spec(), b.spec(), b.spec()
	two.Labels.Run = one.Labels.Run
	two.Labels.Attempt = 2
	for _, spec := range []shared.ProvisionSpec{one, two, three} {
		b.provisionAs(t, spec)
	}
	for name, c := range map[string]struct {
		labels shared.Labels
		want   []string
	}{
		"all labels":  {one.Labels, []string{one.Lease}},
		"run":         {shared.Labels{Run: one.Labels.Run}, []string{one.Lease, two.Lease}},
		"run, number": {shared.Labels{Run: one.Labels.Run, Attempt: 2}, []string{two.Lease}},
		"cell":        {shared.Labels{Cell: three.Labels.Cell}, []string{three.Lease}},
		"no such run": {shared.Labels{Run: newID()}, nil},
		"other owner": {shared.Labels{Owner: "someone-else", Run: one.Labels.Run}, nil},
	} {
		found, err := b.adapter.Find(within(t), c.labels)
		if err != nil {
			t.Errorf("Find(%s): %v", name, err)
		}
		got := map[string]bool{}
		for _, f := range found {
			got[f.Handle.Lease] = true
			if !f.Labels.Match(c.labels) || f.Created.IsZero() {
				t.Errorf("Find(%s) gave a workspace with the labels %+v, created %s", name, f.Labels, f.Created)
			}
		}
		want := map[string]bool{}
		for _, lease := range c.want {
			want[lease] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Find(%s): leases (-want +got):\n%s", name, diff)
		}
	}
}

func testAnotherProcess(t *testing.T, b *bench) {
	w := b.provision(t)
	c := sh("echo work >> input")
	c.Seeds = []shared.Seed{seed("input", "seeded\n")}
	w.run(c).wantExit(t, 0)

	again := b.reopened(t)
	found, err := again.adapter.Find(within(t), shared.Labels{Run: w.labels.Run})
	if err != nil || len(found) != 1 {
		t.Fatalf("Find by another process = %+v, %v; want the one workspace", found, err)
	}
	if diff := cmp.Diff(w.labels, found[0].Labels); diff != "" {
		t.Errorf("labels (-given +found):\n%s", diff)
	}
	for name, h := range map[string]shared.Handle{"recorded": stored(t, w.handle), "found": found[0].Handle} {
		other := &space{b: again, t: t, handle: h}
		got := other.collect(shared.CollectSpec{Patterns: []shared.Pattern{"input"}, Diff: true})
		if string(got.data["input"]) != "seeded\nwork\n" || got.Diff == nil || got.Diff.Insertions != 1 {
			t.Errorf("by the %s handle the file is %q and the patch %+v", name, got.data["input"], got.Diff)
		}
	}
	report, err := again.adapter.Teardown(within(t), found[0].Handle)
	if err != nil || !report.Complete() {
		t.Errorf("Teardown by another process = %+v, %v; want a complete report", report, err)
	}
}
