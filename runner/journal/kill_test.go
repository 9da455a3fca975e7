package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// childEnv makes the test binary a writer that appends until it is killed.
const childEnv = "JOURNAL_TEST_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		writeUntilKilled(path)
	}
	os.Exit(m.Run())
}

// writeUntilKilled appends from eight goroutines and says on stdout what was acknowledged.
func writeUntilKilled(path string) {
	j, err := Create(path, time.Now)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var said sync.Mutex
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for n := 0; ; n++ {
				if err := j.Append("work", work{g, n}); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				said.Lock()
				fmt.Printf("%d %d\n", g, n)
				said.Unlock()
			}
		})
	}
	group.Wait()
	os.Exit(1)
}

func TestKilledWriterLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	for _, acks := range []int{1, 25, 200} {
		t.Run(strconv.Itoa(acks), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			said := killAfter(t, path, acks)
			j, entries, err := Open(path, clock())
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			have := map[work]bool{}
			for _, e := range entries {
				var w work
				if err := json.Unmarshal(e.Body, &w); err != nil {
					t.Fatal(err)
				}
				if have[w] {
					t.Errorf("%+v is there twice", w)
				}
				have[w] = true
			}
			for _, w := range said {
				if !have[w] {
					t.Errorf("%+v was acknowledged and is lost", w)
				}
			}
		})
	}
}

// killAfter starts a writer, kills it after so many acknowledgements, and returns all that it acknowledged.
func killAfter(t *testing.T, path string, acks int) []work {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(60*time.Second, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	var said []work
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var w work
		if _, err := fmt.Sscanf(lines.Text(), "%d %d", &w.G, &w.N); err != nil {
			break // the line was cut by the kill
		}
		said = append(said, w)
		if len(said) == acks {
			_ = cmd.Process.Kill()
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL || len(said) < acks {
		t.Fatalf("the writer ended with %v after %d acknowledgements: %s", err, len(said), stderr.String())
	}
	return said
}
