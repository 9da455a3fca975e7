package worktree_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellharness/plugins/localworktree/worktree"
	"cellharness/plugins/localworktree/worktree/gittest"
)

// BenchmarkProvision makes and removes workspaces, and compares the time with that of git's own worktrees in the same
// run. The metric x-raw is the ratio.
func BenchmarkProvision(b *testing.B) {
	for _, files := range []int{10, 5000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			content := map[string]string{}
			for i := range files {
				content[fmt.Sprintf("d%02d/f%04d.txt", i%50, i)] = strings.Repeat(fmt.Sprintf("line %d\n", i), 1000)
			}
			f := newFixture(b, gittest.New(b, content))
			m := f.mirror(worktree.HistoryBase)
			dir := filepath.Join(b.TempDir(), "raw")
			var ours, raw time.Duration
			for i := range b.N {
				// In turns, because a file system that just deleted many files is slow to make new ones.
				raw += timed(func() {
					f.repo.Git("worktree", "add", "-q", "--detach", dir, "HEAD")
					f.repo.Git("worktree", "remove", "--force", dir)
				})
				ours += timed(func() { f.removeAll(f.create(m, fmt.Sprintf("w%d", i))) })
			}
			b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "us/provision")
			b.ReportMetric(float64(ours)/float64(raw), "x-raw")
		})
	}
}

func timed(work func()) time.Duration {
	start := time.Now()
	work()
	return time.Since(start)
}

// BenchmarkSnapshot reads an unchanged workspace whole.
func BenchmarkSnapshot(b *testing.B) {
	content := map[string]string{}
	for i := range 5000 {
		content[fmt.Sprintf("d%02d/f%04d.txt", i%50, i)] = strings.Repeat(fmt.Sprintf("line %d\n", i), 1000)
	}
	f := newFixture(b, gittest.New(b, content))
	w := f.workspace()
	for b.Loop() {
		f.snapshot(w)
	}
}
