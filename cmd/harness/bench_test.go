package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkTrueCell measures what a cell of the command `true` costs, one at a time, provision to teardown with all
// records, and beside it what `git worktree add --detach` and `git worktree remove --force` cost by script. The two are
// measured in turn; x-raw is the median of the ratios of the pairs.
func BenchmarkTrueCell(b *testing.B) {
	for files, n := range map[int]int{10: 40, 5000: 5} { // n cells a measurement, so that its figure is not that of the start
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			w := newBenchmark(b, files, n)
			w.cells(b) // cuts the mirror, which the cells of later runs borrow from
			var ratios, cells, raws []float64
			for b.Loop() {
				cell, raw := w.cells(b), w.raw(b)
				ratios = append(ratios, cell.Seconds()/raw.Seconds())
				cells = append(cells, cell.Seconds()*1000)
				raws = append(raws, raw.Seconds()*1000)
			}
			b.ReportMetric(median(ratios), "x-raw")
			b.ReportMetric(median(cells), "ms/cell")
			b.ReportMetric(median(raws), "ms/raw")
			b.ReportMetric(0, "ns/op") // one operation is a whole run, which says nothing
		})
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// benchmark is a repository, a definition that runs `true` in it, and an environment of its own.
type benchmark struct {
	dir, repo string
	env       []string
	n, runs   int
}

func newBenchmark(b *testing.B, files, n int) *benchmark {
	b.Helper()
	dir := b.TempDir()
	w := &benchmark{n: n, dir: dir, repo: filepath.Join(dir, "repo"), env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
	}}
	w.write(b, filepath.Join(dir, ".gitconfig"), gitConfig)
	w.write(b, filepath.Join(dir, "bench.hcl"), benchDefinition)
	content := strings.Repeat("a line of a source file that is neither long nor short\n", 190) // 10 kB
	for i := range files {
		w.write(b, filepath.Join(w.repo, fmt.Sprintf("dir%02d", i%50), fmt.Sprintf("file%d.txt", i)), fmt.Sprint(i, content))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "base"}} {
		w.exec(b, "git", append([]string{"-C", w.repo}, args...)...)
	}
	return w
}

const benchDefinition = `
adapter "local_worktree" "here" {
  repo            = "repo"
  env_passthrough = ["PATH"]
}
task "t" {
  prompt = "go"
}
variant "v" {}
trial "x" {
  adapters = [adapter.local_worktree.here]
  tasks    = [task.t]
  variants = [variant.v]
  cell {
    kind       = "exec_cell"
    entrypoint = ["true"]
  }
}
`

func (w *benchmark) write(b *testing.B, path, content string) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.Fatal(err)
	}
}

func (w *benchmark) exec(b *testing.B, name string, args ...string) {
	b.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// cells runs the definition and returns the time of one cell: from the start of the run, when the adapter is ready, to
// the end of its last cell.
func (w *benchmark) cells(b *testing.B) time.Duration {
	b.Helper()
	w.runs++
	out := fmt.Sprintf("out%d", w.runs)
	w.exec(b, "harness", "run", "bench.hcl", "--repeat", fmt.Sprint(w.n), "--parallelism", "1", "--results-dir", out)
	names, err := filepath.Glob(filepath.Join(w.dir, out, "*", "events.jsonl"))
	if err != nil || len(names) != 1 {
		b.Fatalf("events of the run: %v, %v", names, err)
	}
	f, err := os.Open(names[0])
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var start, end time.Time
	finished := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		var e struct {
			Type   string
			Time   time.Time
			Result struct{ Status string }
		}
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			b.Fatal(err)
		}
		switch {
		case e.Type == "run_started":
			start = e.Time
		case e.Type == "cell_finished" && e.Result.Status == "completed":
			finished, end = finished+1, e.Time
		}
	}
	if finished != w.n {
		b.Fatalf("%d cells were measured, want %d", finished, w.n)
	}
	return end.Sub(start) / time.Duration(w.n)
}

// raw makes and removes worktrees of the same repository by script and returns the time of one.
func (w *benchmark) raw(b *testing.B) time.Duration {
	b.Helper()
	script := fmt.Sprintf(`set -e; i=0; while [ $i -lt %d ]; do
git -C repo worktree add -q --detach ../raw HEAD; (cd raw && true); git -C repo worktree remove --force ../raw
i=$((i + 1)); done`, w.n)
	start := time.Now()
	w.exec(b, "sh", "-c", script)
	return time.Since(start) / time.Duration(w.n)
}
