package files

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

func TestWriteSeeds_PutsBytesInPlace(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "old.txt", "old")
	p.file(t, "run.sh", "#!/bin/sh\n")
	must(t, os.Chmod(p.path("run.sh"), 0o750))
	must(t, os.Chmod(p.path("old.txt"), 0o444)) // rename needs no right to write the file
	big := strings.Repeat("0123456789abcdef", 40_000)
	want := map[string]string{
		"old.txt":                "new",
		"run.sh":                 "#!/bin/sh\nexit 1\n",
		"a/b/c/deep.bin":         big,
		"empty":                  "",
		"a/with\nnewline":        "x",
		"a/\xff\xfe not UTF-8":   "\x00\x01",
		`a\b:c`:                  "ordinary characters",
		strings.Repeat("n", 255): "longest name",
	}
	var seeds []shared.Seed
	for path, content := range want {
		seeds = append(seeds, seed(path, content))
	}
	must(t, WriteSeeds(t.Context(), p.root, seeds))
	for path, content := range want {
		got, err := os.ReadFile(p.path(path))
		must(t, err)
		if string(got) != content {
			t.Errorf("%q holds %d bytes, want %d", path, len(got), len(content))
		}
		mode := os.FileMode(0o644)
		if path == "run.sh" {
			mode = 0o750
		}
		if info, err := os.Lstat(p.path(path)); err != nil || info.Mode() != mode {
			t.Errorf("mode of %q = %v (%v), want %v", path, info.Mode(), err, mode)
		}
	}
	if info, err := os.Stat(p.path("a/b/c")); err != nil || info.Mode().Perm() != dirMode {
		t.Errorf("mode of a new directory = %v (%v), want %v", info.Mode(), err, os.FileMode(dirMode))
	}
	for _, name := range p.names(t) {
		if strings.Contains(name, ".harness-seed-") {
			t.Errorf("temporary file %q is left", name)
		}
	}
}

func TestWriteSeeds_ReplacesHardLink(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.hardLink(t, "in.json")
	must(t, WriteSeeds(t.Context(), p.root, []shared.Seed{seed("in.json", "{}")}))
	p.secretUntouched(t)
	if got, err := os.ReadFile(p.path("in.json")); err != nil || string(got) != "{}" {
		t.Errorf("in.json = %q, %v; want {}", got, err)
	}
}

func TestWriteSeeds_RefusesBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 256)
	for name, c := range map[string]struct {
		bad  []string
		code shared.Code
		says string // part of the message
	}{
		"absolute":          {[]string{"/etc/passwd"}, shared.CodeInvalid, "absolute"},
		"dot dot":           {[]string{"a/../../x"}, shared.CodeInvalid, `".."`},
		"dot":               {[]string{"./x"}, shared.CodeInvalid, `"."`},
		"empty":             {[]string{""}, shared.CodeInvalid, "empty"},
		"empty component":   {[]string{"a//x"}, shared.CodeInvalid, "empty component"},
		"NUL":               {[]string{"a\x00b"}, shared.CodeInvalid, "NUL"},
		"git directory":     {[]string{".git/config"}, shared.CodeInvalid, ".git"},
		"git in other case": {[]string{"sub/.GiT/hooks/x"}, shared.CodeInvalid, ".GiT"},
		"long component":    {[]string{long}, shared.CodeInvalid, "256"},
		"equal":             {[]string{"x", "x"}, shared.CodeInvalid, "twice"},
		"prefix":            {[]string{"x", "x/y"}, shared.CodeInvalid, "directory"},
		"several":           {[]string{"/a", "../b"}, shared.CodeInvalid, `"../b"`},
		"parent leads out":  {[]string{"out/secret"}, shared.CodePrecondition, `"out" is a symbolic link`},
		"parent leads in":   {[]string{"in/x"}, shared.CodePrecondition, `"in" is a symbolic link to "dir"`},
		"link out":          {[]string{"link"}, shared.CodePrecondition, `"link" is a symbolic link`},
		"link in":           {[]string{"dir/loop"}, shared.CodePrecondition, `"dir/loop" is a symbolic link to "loop"`},
		"directory":         {[]string{"dir"}, shared.CodePrecondition, `"dir" is a directory`},
		"below a file":      {[]string{"file/x"}, shared.CodePrecondition, `"file" is a file`},
		"below a pipe":      {[]string{"pipe/x"}, shared.CodePrecondition, `"pipe" is a named pipe`},
		"pipe":              {[]string{"pipe"}, shared.CodePrecondition, `"pipe" is a named pipe`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.mkdir(t, "dir")
			p.file(t, "file", "x")
			p.link(t, p.outside, "out")
			p.link(t, "dir", "in")
			p.link(t, p.secret(), "link")
			p.link(t, "loop", "dir/loop")
			p.pipe(t, "pipe")
			before := p.names(t)
			seeds := []shared.Seed{seed("good/first", "x")}
			for _, bad := range c.bad {
				seeds = append(seeds, seed(bad, "x"))
			}
			err := WriteSeeds(t.Context(), p.root, seeds)
			want := &shared.Error{Code: c.code, Cause: shared.CauseSeed}
			if !errors.Is(err, want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("WriteSeeds = %v; want %v with %q", err, want.Code, c.says)
			}
			if diff := cmp.Diff(before, p.names(t)); diff != "" {
				t.Errorf("something was written (-before +after):\n%s", diff)
			}
			p.secretUntouched(t)
		})
	}
}

func TestWriteSeeds_LongListOfReasonsIsCut(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var seeds []shared.Seed
	for range 500 {
		seeds = append(seeds, seed("../x", ""))
	}
	err := WriteSeeds(t.Context(), p.root, seeds)
	if err == nil || len(err.Error()) > 2000 || !strings.Contains(err.Error(), "and 490 more") {
		t.Errorf("WriteSeeds = %v; want ten reasons and 490 more", err)
	}
}

func TestWriteSeeds_BadContent(t *testing.T) {
	t.Parallel()
	with := func(change func(*shared.Content)) shared.Seed {
		s := seed("dir/in", "content")
		change(&s.Content)
		return s
	}
	fails := errors.New("the disk is on fire")
	for name, c := range map[string]struct {
		seed shared.Seed
		code shared.Code
		says string
	}{
		"shorter": {with(func(c *shared.Content) { c.Size = 8 }), shared.CodeInvalid, "has 7 bytes, and 8"},
		"longer":  {with(func(c *shared.Content) { c.Size = 3 }), shared.CodeInvalid, "has 4 bytes or more, and 3"},
		"digest":  {with(func(c *shared.Content) { c.SHA256 = digest("other") }), shared.CodeInvalid, digest("content")},
		"open": {with(func(c *shared.Content) {
			c.Open = func() (io.ReadCloser, error) { return nil, fails }
		}), shared.CodeInternal, "on fire"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.file(t, "dir/in", "as it was")
			err := WriteSeeds(t.Context(), p.root, []shared.Seed{c.seed})
			want := &shared.Error{Code: c.code, Cause: shared.CauseSeed}
			if !errors.Is(err, want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `"dir/in"`) {
				t.Errorf("WriteSeeds = %v; want %v with %q", err, want.Code, c.says)
			}
			if got, err := os.ReadFile(p.path("dir/in")); err != nil || string(got) != "as it was" {
				t.Errorf("the file holds %q (%v), want it untouched", got, err)
			}
			if diff := cmp.Diff([]string{"dir", "dir/in"}, p.names(t)); diff != "" {
				t.Errorf("left behind (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWriteSeeds_Cancelled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := WriteSeeds(ctx, p.root, []shared.Seed{seed("x", "x")}); !errors.Is(err, shared.ErrCancelled) {
		t.Errorf("WriteSeeds = %v, want cancelled", err)
	}
	ctx, cancel = context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if err := WriteSeeds(ctx, p.root, []shared.Seed{seed("x", "x")}); !errors.Is(err, shared.ErrTimeout) {
		t.Errorf("WriteSeeds = %v, want timed out", err)
	}
}

// TestWriteSeeds_KeepsModesUnderPrivateUmask is not parallel: the umask belongs to the whole process.
func TestWriteSeeds_KeepsModesUnderPrivateUmask(t *testing.T) {
	p := newPlace(t)
	old := syscall.Umask(0o077)
	err := WriteSeeds(t.Context(), p.root, []shared.Seed{seed("d/x", "x")})
	syscall.Umask(old)
	must(t, err)
	for name, want := range map[string]os.FileMode{"d": dirMode, "d/x": seedMode} {
		if info, err := os.Stat(p.path(name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %s = %v (%v), want %v", name, info.Mode().Perm(), err, want)
		}
	}
}
