package files

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

func present(path, content string) shared.Artifact {
	return shared.Artifact{
		Kind: shared.ArtifactFile, Path: path, State: shared.ArtifactPresent,
		Bytes: int64(len(content)), SHA256: digest(content),
	}
}

func inState(path string, state shared.ArtifactState) shared.Artifact {
	return shared.Artifact{Kind: shared.ArtifactFile, Path: path, State: state}
}

func refusedFor(path, detail string) shared.Artifact {
	return shared.Artifact{Kind: shared.ArtifactFile, Path: path, State: shared.ArtifactRefused, Detail: detail}
}

func collect(t *testing.T, p place, maxBytes int64, patterns ...shared.Pattern) (*recorder, []shared.Notice) {
	t.Helper()
	r := newRecorder(t)
	notices, err := Collect(t.Context(), p.root, patterns, maxBytes, r)
	if err != nil {
		t.Fatalf("Collect = %v", err)
	}
	if r.open != "" {
		t.Errorf("artifact %q was never ended", r.open)
	}
	for path, data := range r.data {
		if strings.Contains(string(data), "canary") {
			t.Errorf("artifact %q holds bytes from outside", path)
		}
	}
	return r, notices
}

func TestCollect_States(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "out/good", "good\n")
	p.file(t, "out/empty", "")
	p.mkdir(t, "out/dir")
	p.link(t, p.secret(), "out/link")
	p.link(t, "good", "out/inside")
	p.link(t, "loop", "out/loop")
	p.link(t, "/etc/hostname", "out/abs")
	p.link(t, p.outside, "d")
	p.link(t, "out", "same")
	p.hardLink(t, "out/hard")
	p.pipe(t, "out/pipe")
	hard := "is a hard link: the file has 2 names, and not all of them need be in the workspace"
	out := []shared.Artifact{
		refusedFor("out/abs", `is a symbolic link to "/etc/hostname"`),
		inState("out/dir", shared.ArtifactDirectory),
		present("out/empty", ""),
		present("out/good", "good\n"),
		refusedFor("out/hard", hard),
		refusedFor("out/inside", `is a symbolic link to "good"`),
		refusedFor("out/link", fmt.Sprintf("is a symbolic link to %q", p.secret())),
		refusedFor("out/loop", `is a symbolic link to "loop"`),
		refusedFor("out/pipe", "is a named pipe"),
	}
	for name, c := range map[string]struct {
		patterns []shared.Pattern
		want     []shared.Artifact
	}{
		"glob": {[]shared.Pattern{"out/*"}, out},
		"exact": {[]shared.Pattern{
			"out/pipe", "out/loop", "out/link", "out/inside", "out/hard", "out/good", "out/empty", "out/dir", "out/abs",
		}, out},
		"both, each file once": {[]shared.Pattern{"out/good", "out/*", "out/*"}, out},
		"missing":              {[]shared.Pattern{"never.txt"}, []shared.Artifact{inState("never.txt", shared.ArtifactMissing)}},
		"missing directory":    {[]shared.Pattern{"no/such/x"}, []shared.Artifact{inState("no/such/x", shared.ArtifactMissing)}},
		"below a file":         {[]shared.Pattern{"out/good/x"}, []shared.Artifact{inState("out/good/x", shared.ArtifactMissing)}},
		"below a pipe":         {[]shared.Pattern{"out/pipe/x"}, []shared.Artifact{inState("out/pipe/x", shared.ArtifactMissing)}},
		"by way of a link out": {
			[]shared.Pattern{"d/secret"},
			[]shared.Artifact{refusedFor("d/secret", fmt.Sprintf(`"d" is a symbolic link to %q`, p.outside))},
		},
		"by way of a link in": {
			[]shared.Pattern{"same/good"},
			[]shared.Artifact{refusedFor("same/good", `"same" is a symbolic link to "out"`)},
		},
		"glob without a match": {[]shared.Pattern{"no/*.json"}, []shared.Artifact{inState("no/*.json", shared.ArtifactMissing)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, notices := collect(t, p, 1<<20, c.patterns...)
			if diff := cmp.Diff(c.want, r.artifacts); diff != "" {
				t.Errorf("artifacts (-want +got):\n%s", diff)
			}
			var count int64
			for _, a := range c.want {
				if a.State == shared.ArtifactRefused {
					count++
				}
			}
			if count == 0 {
				if len(notices) > 0 {
					t.Errorf("notices = %v, want none", notices)
				}
				return
			}
			if len(notices) != 1 || notices[0].Kind != shared.NoticeArtifactRefused || notices[0].Count != count {
				t.Errorf("notices = %v, want one of %d refused artifacts", notices, count)
			}
		})
	}
}

func TestCollect_Globs(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, name := range []string{
		"a.json", "b.txt", "a[1].json", "a1.json", "out/x.json", "out/deep/er/y.json", ".git/config", "sub/.GIT/x.json",
		"sub/z.json", "nested\nline.json", "\xffbytes.json", "*",
	} {
		p.file(t, name, name)
	}
	p.mkdir(t, "out/hollow")
	for name, c := range map[string]struct {
		pattern shared.Pattern
		want    []string
	}{
		"star":               {"*.json", []string{"a.json", "a1.json", "a[1].json", "nested\nline.json", "\xffbytes.json"}},
		"own name":           {"a[1].json", []string{"a1.json", "a[1].json"}},
		"escaped":            {`a\[1\].json`, []string{"a[1].json"}},
		"any depth":          {"**/[xyz].json", []string{"out/deep/er/y.json", "out/x.json", "sub/z.json"}},
		"depth of none":      {"**/a.json", []string{"a.json"}},
		"everything below":   {"out/**", []string{"out/deep/er/y.json", "out/x.json"}},
		"middle":             {"out/**/y.json", []string{"out/deep/er/y.json"}},
		"directory by name":  {"out/h*", []string{"out/hollow"}},
		"git is never found": {"**/config", []string{"**/config"}},
		"git in other case":  {"sub/*/x.json", []string{"sub/*/x.json"}},
		"one star":           {"[*]", []string{"*"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := collect(t, p, 0, c.pattern)
			var got []string
			for _, a := range r.artifacts {
				got = append(got, a.Path)
				if a.State == shared.ArtifactPresent && string(r.data[a.Path]) != a.Path {
					t.Errorf("%q holds %q, want its own name", a.Path, r.data[a.Path])
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCollect_SocketAndDevice(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	// The name of a socket has at most 108 bytes, fewer than the path of a test's folder may have.
	short, err := os.MkdirTemp("", "s")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(short)) })
	listener, err := net.Listen("unix", filepath.Join(short, "s"))
	must(t, err)
	t.Cleanup(func() { must(t, listener.Close()) })
	must(t, os.Rename(filepath.Join(short, "s"), p.path("socket")))
	r, _ := collect(t, p, 0, "socket")
	if diff := cmp.Diff([]shared.Artifact{refusedFor("socket", "is a socket")}, r.artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	const null = 1<<8 | 3 // major and minor number of /dev/null on Linux
	if err := syscall.Mknod(p.path("null"), syscall.S_IFCHR|0o666, null); err != nil {
		t.Skipf("no device can be made here: %v", err)
	}
	r, _ = collect(t, p, 0, "null")
	if diff := cmp.Diff([]shared.Artifact{refusedFor("null", "is a device")}, r.artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
}

func TestCollect_NothingBlocks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.pipe(t, "pipe")
	done := make(chan struct{})
	go func() {
		defer close(done)
		collect(t, p, 0, "pipe", "pi*", "pipe/below")
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Collect blocks on a pipe that nobody writes to")
	}
}

func TestCollect_Sizes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "at", strings.Repeat("x", 1000))
	p.file(t, "over", strings.Repeat("x", 1001))
	p.file(t, "sparse", "")
	if err := os.Truncate(p.path("sparse"), 4<<40); err != nil {
		t.Skipf("this file system has no file of 4 TiB: %v", err)
	}
	r, notices := collect(t, p, 1000, "at", "over", "sparse")
	want := []shared.Artifact{
		present("at", strings.Repeat("x", 1000)),
		{Kind: shared.ArtifactFile, Path: "over", State: shared.ArtifactTooLarge, Bytes: 1001},
		{Kind: shared.ArtifactFile, Path: "sparse", State: shared.ArtifactTooLarge, Bytes: 4 << 40},
	}
	if diff := cmp.Diff(want, r.artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	if len(notices) > 0 {
		t.Errorf("notices = %v, want none", notices)
	}
}

func TestCollect_FileThatGrowsWhileItIsRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		maxBytes int64
		grow     int
		want     shared.ArtifactState
	}{
		"past the cap":    {bufferBytes + 100, 200, shared.ArtifactTooLarge},
		"within the cap":  {2 * bufferBytes, 10, shared.ArtifactPresent},
		"without any cap": {0, 10, shared.ArtifactPresent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.file(t, "log", strings.Repeat("x", bufferBytes))
			r := newRecorder(t)
			r.onWrite = func() {
				r.onWrite = nil
				f, err := os.OpenFile(p.path("log"), os.O_APPEND|os.O_WRONLY, 0)
				must(t, err)
				_, err = f.WriteString(strings.Repeat("y", c.grow))
				must(t, err)
				must(t, f.Close())
			}
			_, err := Collect(t.Context(), p.root, []shared.Pattern{"log"}, c.maxBytes, r)
			must(t, err)
			a := r.artifacts[0]
			if size := int64(bufferBytes + c.grow); a.State != c.want || a.Bytes != size {
				t.Errorf("artifact = %+v, want %s with %d bytes", a, c.want, size)
			}
			if c.maxBytes > 0 && int64(len(r.data["log"])) > c.maxBytes {
				t.Errorf("%d bytes were sent, more than the cap of %d", len(r.data["log"]), c.maxBytes)
			}
			if c.want == shared.ArtifactPresent && !strings.Contains(a.Detail, "when it was opened") {
				t.Errorf("detail = %q, want the change of size", a.Detail)
			}
		})
	}
}

func TestCollect_Unreadable(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	p := newPlace(t)
	p.file(t, "closed/x", "x")
	p.file(t, "x", "x")
	must(t, os.Chmod(p.path("x"), 0))
	must(t, os.Chmod(p.path("closed"), 0))
	t.Cleanup(func() { must(t, os.Chmod(p.path("closed"), 0o755)) })
	r, notices := collect(t, p, 0, "x", "closed/x", "closed/*")
	want := []shared.Artifact{
		refusedFor("closed/*", `"closed" cannot be read: permission denied`),
		refusedFor("closed/x", `"closed" cannot be read: permission denied`),
		refusedFor("x", "cannot be read: permission denied"),
	}
	if diff := cmp.Diff(want, r.artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	if len(notices) != 2 || notices[1].Kind != shared.NoticeUnreadable {
		t.Errorf("notices = %v, want refused artifacts and an unreadable directory", notices)
	}
}

func TestCollect_OtherFileSystem(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "d/x", "x")
	info, err := p.root.Stat(".")
	must(t, err)
	r := newRecorder(t)
	// As if the workspace were on another device than what lies in it: a mount needs rights that tests may not have.
	c := collector{root: p.root, device: inodeOf(info).device + 1, sink: r, buffer: make([]byte, bufferBytes)}
	must(t, c.collect(t.Context(), "d/x"))
	if diff := cmp.Diff([]shared.Artifact{refusedFor("d/x", "is on another file system")}, r.artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	f := newFinder([]shared.Pattern{"d/*"}, inodeOf(info).device+1)
	must(t, f.search(t.Context(), p.root, nil))
	if len(f.found) != 0 || len(f.unread) != 1 {
		t.Errorf("found %v and left out %v, want the directory left out", f.found, f.unread)
	}
}

func TestCollect_SearchIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("names", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		for i := range 50 {
			p.file(t, fmt.Sprintf("d/%d", i), "")
		}
		f := newFinder([]shared.Pattern{"**/*"}, deviceOf(t, p))
		f.entries = 10
		must(t, f.search(t.Context(), p.root, nil))
		if len(f.found) > 10 || len(f.notices()) != 1 {
			t.Errorf("found %d paths and noticed %v, want at most 10 and a notice", len(f.found), f.notices())
		}
	})
	t.Run("depth", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.file(t, strings.Repeat("d/", maxDepth-1)+"seen", "")
		p.file(t, strings.Repeat("d/", maxDepth)+"unseen", "")
		r, notices := collect(t, p, 0, "**/*seen")
		if len(r.artifacts) != 1 || !strings.HasSuffix(r.artifacts[0].Path, "/seen") {
			t.Errorf("artifacts = %v, want the one at depth %d", r.artifacts, maxDepth)
		}
		if len(notices) != 1 || !strings.Contains(notices[0].Detail, "deeper") {
			t.Errorf("notices = %v, want the depth told", notices)
		}
	})
	t.Run("only where a pattern leads", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.file(t, "out/x.json", "")
		for i := range 50 {
			p.file(t, fmt.Sprintf("cache/%d", i), "")
		}
		f := newFinder([]shared.Pattern{"out/*.json", "*.txt"}, deviceOf(t, p))
		f.entries = 10
		must(t, f.search(t.Context(), p.root, nil))
		if diff := cmp.Diff(map[string]bool{"out/x.json": true}, f.found); diff != "" || f.cut != "" {
			t.Errorf("found (-want +got):\n%s\ncut: %q", diff, f.cut)
		}
	})
}

func deviceOf(t *testing.T, p place) uint64 {
	t.Helper()
	info, err := p.root.Stat(".")
	must(t, err)
	return inodeOf(info).device
}

func TestCollect_Errors(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "x", "x")
	t.Run("pattern", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []shared.Pattern{"../x", "/x", ".git/config", "a\x00b", "", "[x"} {
			_, err := Collect(t.Context(), p.root, []shared.Pattern{"x", bad}, 0, newRecorder(t))
			if !errors.Is(err, shared.ErrInvalid) || !errors.Is(err, shared.OfCause(shared.CauseCollect)) {
				t.Errorf("Collect(%q) = %v, want invalid", bad, err)
			}
		}
	})
	t.Run("sink", func(t *testing.T) {
		t.Parallel()
		r := newRecorder(t)
		r.writeErr = &shared.Error{Code: shared.CodeExhausted, Cause: shared.CauseStorage, Message: "the disk is full"}
		_, err := Collect(t.Context(), p.root, []shared.Pattern{"x"}, 0, r)
		if !errors.Is(err, shared.ErrExhausted) || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("Collect = %v, want what the sink said", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		r := newRecorder(t)
		r.onWrite = cancel
		_, err := Collect(ctx, p.root, []shared.Pattern{"x"}, 0, r)
		if !errors.Is(err, shared.ErrCancelled) {
			t.Errorf("Collect = %v, want cancelled", err)
		}
	})
	t.Run("workspace removed", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		must(t, os.Remove(p.dir))
		_, err := Collect(t.Context(), p.root, []shared.Pattern{"x"}, 0, newRecorder(t))
		if !errors.Is(err, shared.ErrPrecondition) {
			t.Errorf("Collect = %v, want a refusal that says the workspace is gone", err)
		}
	})
}
