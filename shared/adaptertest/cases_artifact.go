package adaptertest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

// artifactCases hold what is true of files that are brought back.
func artifactCases() []testCase {
	return []testCase{
		{"artifact_states", testArtifactStates},
		{"artifact_links", testArtifactLinks},
		{"artifact_hard_link", testArtifactHardLink},
		{"artifact_globs", testArtifactGlobs},
		{"artifact_too_large", testArtifactTooLarge},
		{"artifact_large", testArtifactLarge},
		{"artifact_names", testArtifactNames},
		{"artifact_forged_pattern", testArtifactForged},
	}
}

// patterns makes the spec of a Collect.
func patterns(list ...string) shared.CollectSpec {
	var spec shared.CollectSpec
	for _, p := range list {
		spec.Patterns = append(spec.Patterns, shared.Pattern(p))
	}
	return spec
}

func testArtifactStates(t *testing.T, b *bench) {
	w := b.provision(t)
	w.script(`printf 'the content' > present; : > empty; mkdir -p dir; mkfifo fifo`)
	got := w.collect(patterns("present", "empty", "missing", "no/such/dir", "present/below", "dir", "fifo"))
	for path, want := range map[string]shared.ArtifactState{
		"present": shared.ArtifactPresent, "empty": shared.ArtifactPresent, "missing": shared.ArtifactMissing,
		"no/such/dir": shared.ArtifactMissing, "present/below": shared.ArtifactMissing,
		"dir": shared.ArtifactDirectory, "fifo": shared.ArtifactRefused,
	} {
		a := got.file(t, path)
		if a.State != want {
			t.Errorf("%s is %q, want %q", path, a.State, want)
		}
		if a.State == shared.ArtifactRefused && a.Detail == "" {
			t.Errorf("%s is refused without a reason", path)
		}
	}
	if string(got.data["present"]) != "the content" || len(got.data["empty"]) > 0 {
		t.Errorf("present holds %q, empty holds %q", got.data["present"], got.data["empty"])
	}
}

func testArtifactLinks(t *testing.T, b *bench) {
	w := b.provision(t)
	w.script(`echo inside > inside; ln -s inside link; ln -s /etc/passwd out; ln -s /etc outdir; ln -s . here`)
	got := w.collect(patterns("link", "out", "outdir/passwd", "here/inside", "o*"))
	for _, path := range []string{"link", "out", "outdir/passwd", "here/inside", "outdir"} {
		if a := got.file(t, path); a.State != shared.ArtifactRefused && a.State != shared.ArtifactMissing {
			t.Errorf("%s is %q, want it refused", path, a.State)
		}
	}
	if a := got.file(t, "link"); a.State != shared.ArtifactRefused {
		t.Errorf("link is %q, want %q", a.State, shared.ArtifactRefused)
	}
	refused := 0
	for _, n := range got.Notices {
		if n.Kind == shared.NoticeArtifactRefused {
			refused++
		}
	}
	if refused == 0 {
		t.Errorf("notices = %+v, want one of kind %q", got.Notices, shared.NoticeArtifactRefused)
	}
}

func testArtifactHardLink(t *testing.T, b *bench) {
	if b.configured.Capabilities.Transfer != shared.TransferMount {
		t.Skip("the workspace is on no file system of this machine, so there is nothing to link to")
	}
	w := b.provision(t)
	w.script("echo x > one; ln one two")
	if a := w.collect(patterns("one")).file(t, "one"); a.State != shared.ArtifactRefused {
		t.Errorf("a file that has a second name is %q, want %q: the other name may be anywhere", a.State, shared.ArtifactRefused)
	}
}

func testArtifactGlobs(t *testing.T, b *bench) {
	w := b.provision(t)
	w.script(`mkdir -p out/deep .git/x; for f in out/b.json out/a.json out/c.txt out/deep/d.json .git/x/e.json 'out/[x].json'; do echo "$f" > "$f"; done`)
	for pattern, want := range map[string][]string{
		"out/*.json":   {"out/[x].json", "out/a.json", "out/b.json"},
		"out/[ab].*":   {"out/a.json", "out/b.json"},
		"**/*.json":    {"out/[x].json", "out/a.json", "out/b.json", "out/deep/d.json"},
		"out/[x].json": {"out/[x].json"},
		"none/*.json":  {"none/*.json"},
	} {
		got := w.collect(patterns(pattern))
		var paths []string
		for _, a := range got.files {
			paths = append(paths, a.Path)
			if missing := strings.HasPrefix(pattern, "none"); missing != (a.State == shared.ArtifactMissing) {
				t.Errorf("%s: %s is %q", pattern, a.Path, a.State)
			}
		}
		if diff := cmp.Diff(want, paths); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", pattern, diff)
		}
	}
	if got := w.collect(patterns("out/a.json", "out/*.json", "**/a.json")); len(got.files) != 3 {
		t.Errorf("patterns that overlap gave %+v, want every file once", got.files)
	}
}

func testArtifactTooLarge(t *testing.T, b *bench) {
	w := b.provision(t)
	w.script(`printf 1234567890 > fits; printf 12345678901 > larger; truncate -s 4G sparse || dd if=/dev/null of=sparse bs=1 seek=4294967296`)
	spec := patterns("fits", "larger", "sparse")
	spec.MaxBytes = 10
	got := w.collect(spec)
	for path, want := range map[string]shared.Artifact{
		"fits":   {State: shared.ArtifactPresent, Bytes: 10},
		"larger": {State: shared.ArtifactTooLarge, Bytes: 11},
		"sparse": {State: shared.ArtifactTooLarge, Bytes: 4 << 30},
	} {
		if a := got.file(t, path); a.State != want.State || a.Bytes != want.Bytes {
			t.Errorf("%s is %q of %d bytes, want %q of %d", path, a.State, a.Bytes, want.State, want.Bytes)
		}
	}
}

func testArtifactLarge(t *testing.T, b *bench) {
	w := b.provision(t)
	data := noise(3_000_001)
	c := sh("true")
	c.Seeds = []shared.Seed{{Path: "large", Content: content(data)}}
	w.run(c).wantExit(t, 0)
	if got := w.collect(patterns("large")); digest(got.data["large"]) != digest(data) {
		t.Errorf("%d bytes came back, want the %d that were seeded", len(got.data["large"]), len(data))
	}
}

func testArtifactNames(t *testing.T, b *bench) {
	w := b.provision(t)
	names := []string{"with blank", "line\nend", "not\xffutf8", "-dash", "ü", `quo"te`}
	c := sh("true")
	for _, name := range names {
		c.Seeds = append(c.Seeds, seed(name, "content of "+name))
	}
	w.run(c).wantExit(t, 0)
	got := w.collect(patterns(names...))
	for _, name := range names {
		if string(got.data[name]) != "content of "+name {
			t.Errorf("%q holds %q", name, got.data[name])
		}
	}
}

func testArtifactForged(t *testing.T, b *bench) {
	w := b.provision(t)
	for _, p := range []string{"", "../x", "/etc/passwd", ".git/config", "a/../../etc/passwd", "nul\x00", "[bad"} {
		_, err := b.adapter.Collect(within(t), w.handle, patterns(p), &shelf{t: t, collected: collected{data: map[string][]byte{}}})
		wantError(t, "the pattern "+p, err, shared.ErrInvalid)
	}
}
