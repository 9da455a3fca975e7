package adaptertest

import (
	"testing"

	"cellharness/shared"
)

// patchCases hold what is true of the patch of a workspace.
func patchCases() []testCase {
	return []testCase{
		{"patch_of_nothing", testPatchEmpty},
		{"patch_without_setup", testPatchWithoutSetup},
		{"patch_counts", testPatchCounts},
		{"patch_round_trip", testPatchRoundTrip},
		{"patch_that_does_not_apply", testPatchBroken},
		{"patch_leaves_the_workspace", testPatchLeaves},
	}
}

// bothPatches asks for the patch from the start and the patch from the base.
func bothPatches() shared.CollectSpec { return shared.CollectSpec{Diff: true, DiffFromBase: true} }

func testPatchEmpty(t *testing.T, b *bench) {
	for name, as := range map[string]shared.SeedAs{"uncommitted": shared.SeedUncommitted, "commit": shared.SeedCommit} {
		w := b.provision(t)
		c := sh("true")
		c.Seeds = []shared.Seed{seed("seeded/file", "x\n")}
		c.SeedAs = as
		w.run(c).wantExit(t, 0)
		got := w.collect(bothPatches())
		if got.Diff == nil || got.DiffFromBase == nil {
			t.Fatalf("%s: the patches are %+v and %+v, want both", name, got.Diff, got.DiffFromBase)
		}
		if d := got.Diff; d.Files != 0 || d.Bytes != 0 || len(got.diff) != 0 || d.From != d.Tree || d.Tree == "" {
			t.Errorf("%s: a command that does nothing gives the patch %+v, %d bytes", name, d, len(got.diff))
		}
		if d := got.DiffFromBase; d.Files != 1 || d.Insertions != 1 || d.Bytes != int64(len(got.base)) || len(got.base) == 0 {
			t.Errorf("%s: the patch from the base is %+v, %d bytes; want the one seed", name, d, len(got.base))
		}
	}
	w := b.provision(t)
	w.script("true")
	if got := w.collect(shared.CollectSpec{}); got.Diff != nil || got.DiffFromBase != nil {
		t.Errorf("patches that nobody asked for: %+v, %+v", got.Diff, got.DiffFromBase)
	}
}

func testPatchWithoutSetup(t *testing.T, b *bench) {
	w := b.provision(t)
	w.run(as(shared.PhaseSetup, sh("echo installed > installed"))).wantExit(t, 0)
	w.script("echo done > done")
	got := w.collect(bothPatches())
	if got.Diff == nil || got.Diff.Files != 1 || got.Diff.Insertions != 1 {
		t.Errorf("the patch from the start is %+v, want the one file of the cell", got.Diff)
	}
	if got.DiffFromBase == nil || got.DiffFromBase.Files != 2 || got.DiffFromBase.Tree != got.Diff.Tree {
		t.Errorf("the patch from the base is %+v, want two files and the same tree", got.DiffFromBase)
	}
}

func testPatchCounts(t *testing.T, b *bench) {
	w := b.provision(t)
	c := sh("printf 'one\\nTWO\\nthree\\n' > edited && printf 'a\\nb\\n' > added && rm removed")
	c.Seeds = []shared.Seed{seed("edited", "one\ntwo\nthree\n"), seed("removed", "x\ny\nz\n")}
	w.run(c).wantExit(t, 0)
	got := w.collect(bothPatches())
	d := got.Diff
	if d == nil || d.Files != 3 || d.Insertions != 3 || d.Deletions != 4 {
		t.Fatalf("the patch is %+v, want 3 files, 3 insertions and 4 deletions", d)
	}
	if d.Bytes != int64(len(got.diff)) || d.SHA256 != digest(got.diff) || d.From == d.Tree {
		t.Errorf("the patch is said to be %+v; %d bytes with the digest %s came", d, len(got.diff), digest(got.diff))
	}
}

// manyEdits leaves what a patch finds hard.
const manyEdits = `
printf 'a\000b\377' > binary
printf 'no line end' > noend
: > empty
mkdir -p deep/er && echo x > deep/er/f
echo '#!/bin/sh' > tool && chmod +x tool
ln -s deep/er/f link
echo q > 'odd "name" \ ü'
printf 'crlf\r\n' > crlf
printf '\n\n \n' > blanks
printf 'one\n2\nthree\nfour\n5' > edited
rm removed
mv moved elsewhere
rm swapped && mkdir swapped && echo now > swapped/dir
chmod +x mode
`

func testPatchRoundTrip(t *testing.T, b *bench) {
	if !b.configured.Capabilities.StartsFromPatch {
		t.Skip("the adapter starts no workspace from a patch")
	}
	w := b.provision(t)
	c := sh(manyEdits)
	for _, name := range []string{"edited", "removed", "moved", "swapped", "mode"} {
		c.Seeds = append(c.Seeds, seed(name, "one\ntwo\nthree\nfour\nfive\n"))
	}
	w.run(c).wantExit(t, 0)
	first := w.collect(bothPatches())

	patch := content(first.base)
	spec := b.spec()
	spec.Patch = &patch
	again := b.provisionAs(t, spec)
	again.script(`test -x tool && test -L link && test -x mode && test ! -e removed && grep -q now swapped/dir`)
	second := again.collect(bothPatches())
	if first.DiffFromBase == nil || second.DiffFromBase == nil || first.DiffFromBase.Tree != second.DiffFromBase.Tree {
		t.Fatalf("the patch gives another tree than it was made from: %+v and %+v", first.DiffFromBase, second.DiffFromBase)
	}
	if second.Diff == nil || second.Diff.Bytes != 0 {
		t.Errorf("a command that does nothing in a workspace that started from a patch gives the patch %+v", second.Diff)
	}
}

func testPatchBroken(t *testing.T, b *bench) {
	b.needsWorkspaces(t)
	if !b.configured.Capabilities.StartsFromPatch {
		t.Skip("the adapter starts no workspace from a patch")
	}
	patch := content([]byte("this is no patch\n"))
	spec := b.spec()
	spec.Patch = &patch
	_, err := b.adapter.Provision(within(t), spec)
	wantError(t, "Provision with what is no patch", err, shared.ErrInvalid, shared.ErrPrecondition)
	found, err := b.adapter.Find(within(t), spec.Labels)
	if err != nil || len(found) > 0 {
		t.Errorf("Find after a failed Provision = %+v, %v; want nothing", found, err)
	}
}

func testPatchLeaves(t *testing.T, b *bench) {
	w := b.provision(t)
	w.script("echo one > file")
	first := w.collect(bothPatches())
	second := w.collect(bothPatches())
	if first.Diff == nil || second.Diff == nil || *first.Diff != *second.Diff {
		t.Errorf("two patches of one state differ: %+v and %+v", first.Diff, second.Diff)
	}
	w.run(as(shared.PhaseVerify, sh("grep one file"))).wantExit(t, 0)
}
