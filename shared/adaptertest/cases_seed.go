package adaptertest

import (
	"errors"
	"strings"
	"testing"

	"cellharness/shared"
)

// seedCases hold what is true of files that are put into the workspace.
func seedCases() []testCase {
	return []testCase{
		{"seed_exact_bytes", testSeedBytes},
		{"seed_names", testSeedNames},
		{"seed_replaces", testSeedReplaces},
		{"seed_all_or_none", testSeedAllOrNone},
		{"seed_forged_path", testSeedForged},
		{"seed_twice", testSeedTwice},
		{"seed_through_link", testSeedThroughLink},
	}
}

func testSeedBytes(t *testing.T, b *bench) {
	w := b.provision(t)
	// More than one message on the wire, and no whole number of them.
	for name, data := range map[string][]byte{"empty": nil, "small": noise(300), "large": noise(1_300_001)} {
		c := cell("cat", "in/"+name)
		c.Seeds = []shared.Seed{{Path: shared.Path("in/" + name), Content: content(data)}}
		o := w.run(c)
		o.wantExit(t, 0)
		if digest(o.out) != digest(data) {
			t.Errorf("%s: %d bytes with the digest %s arrived, want %d with %s", name, len(o.out), digest(o.out), len(data), digest(data))
		}
	}
}

func testSeedNames(t *testing.T, b *bench) {
	w := b.provision(t)
	for _, name := range []string{"plain", "a/b/c/deep", "with blank", "a:b.txt", "-dash", "über", "odd\nname", "not\xffutf8", "..x", ".gitignore"} {
		c := cell("cat", "./"+name)
		c.Seeds = []shared.Seed{seed(name, "content of "+name)}
		o := w.run(c)
		o.wantExit(t, 0)
		o.wantOutput(t, "content of "+name, "")
	}
}

func testSeedReplaces(t *testing.T, b *bench) {
	w := b.provision(t)
	for _, data := range []string{"a longer first content\n", "second\n"} {
		c := sh("cat f; chmod 444 f")
		c.Seeds = []shared.Seed{seed("f", data)}
		o := w.run(c)
		o.wantExit(t, 0)
		o.wantOutput(t, data, "")
	}
}

func testSeedAllOrNone(t *testing.T, b *bench) {
	w := b.provision(t)
	c := sh("echo ran > ran")
	c.Seeds = []shared.Seed{seed("first", "x"), seed("../second", "y")}
	_, err := w.try(within(t), c)
	wantError(t, "RunCell with a bad second seed", err, shared.OfCause(shared.CauseSeed))
	w.script("test ! -e first && test ! -e ran")
}

func testSeedForged(t *testing.T, b *bench) {
	w := b.provision(t)
	for _, path := range []string{
		"", ".", "..", "../x", "a/../../x", "a/../x", "/tmp/adaptertest-forged", ".git/hooks/x", ".git", "a/.GIT/config",
		"a//x", "a/", "nul\x00x", strings.Repeat("x", shared.MaxComponent+1),
	} {
		c := sh("true")
		c.Seeds = []shared.Seed{seed(path, "forged")}
		_, err := w.try(within(t), c)
		if !errors.Is(err, shared.ErrInvalid) {
			t.Errorf("the seed %.40q: error = %v, want one of code %q", path, err, shared.CodeInvalid)
		}
	}
}

func testSeedTwice(t *testing.T, b *bench) {
	w := b.provision(t)
	for name, paths := range map[string][2]string{"equal": {"a", "a"}, "file and directory": {"a", "a/b"}} {
		c := sh("true")
		c.Seeds = []shared.Seed{seed(paths[0], "x"), seed(paths[1], "y")}
		_, err := w.try(within(t), c)
		wantError(t, "seeds that are "+name, err, shared.OfCause(shared.CauseSeed))
	}
	w.script("test ! -e a")
}

func testSeedThroughLink(t *testing.T, b *bench) {
	w := b.provision(t)
	w.script("mkdir seed_dir seed_target && ln -s seed_target inside && ln -s .. outside && ln -s ../escaped seed_link")
	for _, path := range []string{"inside/x", "outside/escaped", "seed_dir"} {
		c := sh("true")
		c.Seeds = []shared.Seed{seed(path, "followed")}
		_, err := w.try(within(t), c)
		wantError(t, "the seed "+path, err, shared.OfCause(shared.CauseSeed))
	}
	w.script("test ! -e seed_target/x && test ! -e ../escaped && test -d seed_dir")

	// A link that has the seed's own name is replaced or refused, and never written through.
	c := sh("true")
	c.Seeds = []shared.Seed{seed("seed_link", "followed")}
	if _, err := w.try(within(t), c); err != nil {
		wantError(t, "a seed in place of a link", err, shared.OfCause(shared.CauseSeed))
	}
	w.script("test ! -e ../escaped")
}
