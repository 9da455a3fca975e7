package files

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cellharness/shared"
)

const (
	// raceRounds is how often each racer tries; raceTime bounds it on a machine that is busy with other things.
	raceRounds = 5000
	raceTime   = 3 * time.Second
)

// swap keeps replacing name by what put makes there, and back, until the test ends. The returned function tells how
// often it did.
func (p place) swap(t *testing.T, name string, put func(path string) error) (swaps func() int64) {
	t.Helper()
	var n atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	kept := filepath.Join(filepath.Dir(p.dir), "kept")
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			// A failed step leaves one of the two states, and the next round tries again.
			if os.Rename(p.path(name), kept) != nil {
				_ = os.RemoveAll(kept) // the other side made one of its own meanwhile
			}
			_ = put(p.path(name))
			if os.Remove(p.path(name)) == nil {
				_ = os.Rename(kept, p.path(name))
				n.Add(1)
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	return n.Load
}

func linkTo(target string) func(string) error {
	return func(path string) error { return os.Symlink(target, path) }
}

func race(round func()) {
	for i, end := 0, time.Now().Add(raceTime); i < raceRounds && time.Now().Before(end); i++ {
		round()
	}
}

func TestCollect_RaceNeverReadsBehindALink(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]func(place) string{
		"outside": func(p place) string { return p.outside },
		"inside":  func(place) string { return "hidden" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.file(t, "d/secret", "own")
			p.file(t, "hidden/secret", canary)
			swaps := p.swap(t, "d", linkTo(target(p)))
			present := 0
			race(func() {
				r := newRecorder(t)
				if _, err := Collect(t.Context(), p.root, []shared.Pattern{"d/secret", "d/*"}, 0, r); err != nil {
					t.Fatal(err)
				}
				for path, data := range r.data {
					if bytes.Contains(data, []byte("canary")) {
						t.Fatalf("%q was read behind the link", path)
					}
					present++
				}
			})
			if swaps() < 10 || present == 0 {
				t.Errorf("%d swaps and %d files read: the race did not take place", swaps(), present)
			}
		})
	}
}

func TestCollect_RaceOfTheFileItself(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(string) error{
		"link":  linkTo("hidden"),
		"pipe":  func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"other": func(path string) error { return os.Link(filepath.Join(filepath.Dir(path), "hidden"), path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.file(t, "f", "own")
			p.file(t, "hidden", canary)
			swaps := p.swap(t, "f", put)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			present := 0
			race(func() {
				r := newRecorder(t)
				if _, err := Collect(ctx, p.root, []shared.Pattern{"f"}, 0, r); err != nil {
					t.Fatal(err)
				}
				if got := string(r.data["f"]); got != "" && got != "own" {
					t.Fatalf("f holds %q, want its own bytes or none", got)
				}
				present += len(r.data)
			})
			if swaps() < 10 || present == 0 {
				t.Errorf("%d swaps and %d files read: the race did not take place", swaps(), present)
			}
		})
	}
}

func TestWriteSeeds_RaceNeverWritesBehindALink(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]func(place) string{
		"outside": func(p place) string { return p.outside },
		"inside":  func(place) string { return "hidden" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.mkdir(t, "d")
			p.file(t, "hidden/secret", canary)
			swaps := p.swap(t, "d", linkTo(target(p)))
			written := 0
			race(func() {
				if WriteSeeds(t.Context(), p.root, []shared.Seed{seed("d/secret", "seed")}) == nil {
					written++
				}
				if got, err := os.ReadFile(p.path("hidden/secret")); err != nil || string(got) != canary {
					t.Fatalf("the file behind the link holds %q (%v)", got, err)
				}
			})
			if swaps() < 10 || written == 0 {
				t.Errorf("%d swaps and %d seeds written: the race did not take place", swaps(), written)
			}
			p.secretUntouched(t)
		})
	}
}
