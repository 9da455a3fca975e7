package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cellharness/runner/journal"
	"cellharness/shared"
)

func TestResultsAreTheJournals(t *testing.T) {
	t.Parallel()
	f := started(t)
	first := completed("a", 1)
	first.Status, first.Cause, first.Message, first.Last = shared.StatusError, shared.CauseProvision, "no", false
	end(t, f, first)
	end(t, f, completed("a", 2))
	never := completed("b", 0)
	never.Status, never.Passed, never.ExitCode = shared.StatusNotRun, nil, nil
	end(t, f, never)

	results, err := f.Results()
	if err != nil {
		t.Fatal(err)
	}
	want := []Result{first, completed("a", 2), never}
	for i := range want {
		want[i].Schema, want[i].Run = Schema, runA
	}
	if diff := cmp.Diff(want, results, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(filepath.Join(f.Dir(), "cells", "b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cell that never started has a folder: %v", err)
	}
	var stored Result
	data, err := os.ReadFile(filepath.Join(f.Dir(), "cells", "a", "2", "result.json"))
	if err := errors.Join(err, json.Unmarshal(data, &stored)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[1], stored, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestEndTwiceIsRefused(t *testing.T) {
	t.Parallel()
	f := started(t)
	end(t, f, completed("a", 1))
	if err := f.End(completed("a", 1)); err == nil || !strings.Contains(err.Error(), "ended already") {
		t.Errorf("second end: %v", err)
	}
	if _, err := f.Attempt("a", 1); err == nil || !strings.Contains(err.Error(), "ended already") {
		t.Errorf("folder after the end: %v", err)
	}
	if results, err := f.Results(); err != nil || len(results) != 1 {
		t.Errorf("%d results, %v", len(results), err)
	}
	never := completed("b", 0)
	end(t, f, never)
	end(t, f, never)
}

func TestMetricKeepsItsDigits(t *testing.T) {
	t.Parallel()
	f := started(t)
	r := completed("a", 1)
	large := json.Number("9007199254740993")
	r.Metrics = map[string]*json.Number{"large": &large, "none": nil}
	end(t, f, r)
	results, err := f.Results()
	if err != nil || len(results) != 1 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	if diff := cmp.Diff(r.Metrics, results[0].Metrics); diff != "" {
		t.Error(diff)
	}
}

func TestConcurrentEndsKeepTheOrderOfTheJournal(t *testing.T) {
	t.Parallel()
	f := started(t)
	var group sync.WaitGroup
	for g := range 16 {
		group.Go(func() {
			for n := range 5 {
				r := completed(fmt.Sprintf("k%d-%d", g, n), 1)
				if _, err := f.Attempt(r.Key, 1); err != nil {
					t.Error(err)
				}
				if err := f.End(r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if stale, err := f.Stale(); err != nil || len(stale) > 0 {
		t.Errorf("stale: %v, %v", stale, err)
	}
	if results, err := f.Results(); err != nil || len(results) != 80 {
		t.Errorf("%d results, %v", len(results), err)
	}
}

// TestRebuildIsByteIdentical damages derived files at random and compares the whole folder after Rebuild.
func TestRebuildIsByteIdentical(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			chance := rand.New(rand.NewPCG(seed, 1))
			f := started(t)
			for n := range 1 + chance.IntN(12) {
				r := completed(fmt.Sprintf("k%d", n), chance.IntN(3))
				r.Message = strings.Repeat("<&é\u2028\x00", chance.IntN(5))
				end(t, f, r)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			before := tree(t, f.Dir())
			damaged := damage(t, f.Dir(), chance)
			reader, err := Open(f.Dir())
			if err != nil {
				t.Fatal(err)
			}
			stale, err := reader.Stale()
			if err != nil {
				t.Fatal(err)
			}
			sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
			if diff := cmp.Diff(damaged, stale, sorted, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("what is stale differs from what was damaged:\n%s", diff)
			}
			if err := reader.Rebuild(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, tree(t, f.Dir())); diff != "" {
				t.Errorf("after Rebuild:\n%s", diff)
			}
		})
	}
}

// damage removes, cuts or edits about half of the derived files and returns their names.
func damage(t *testing.T, dir string, chance *rand.Rand) []string {
	t.Helper()
	var damaged []string
	for name, content := range tree(t, dir) {
		if filepath.Base(name) != "result.json" && name != "results.jsonl" || chance.IntN(2) == 0 || content == "" {
			continue
		}
		path, data := filepath.Join(dir, name), []byte(content)
		damaged = append(damaged, name)
		var err error
		switch chance.IntN(4) {
		case 0:
			err = os.Remove(path)
		case 1:
			err = os.WriteFile(path, data[:chance.IntN(len(data))], 0o644)
		case 2:
			data[chance.IntN(len(data))] ^= 1
			err = os.WriteFile(path, data, 0o644)
		default:
			err = os.WriteFile(path, append(data, "{}\n"...), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return damaged
}

func TestRebuildKeepsAwayFromAWriter(t *testing.T) {
	t.Parallel()
	f := started(t)
	reader, err := Open(f.Dir())
	if err != nil {
		t.Fatal(err)
	}
	var busy *journal.BusyError
	if err := reader.Rebuild(); !errors.As(err, &busy) || busy.PID != os.Getpid() {
		t.Errorf("got %v, wanted a *BusyError", err)
	}
	if _, err := Resume(f.Dir()); !errors.As(err, &busy) {
		t.Errorf("resume beside a writer: %v", err)
	}
	if err := f.Rebuild(); err != nil {
		t.Errorf("the writer itself: %v", err)
	}
}

func TestResultIsSafeWhereADerivedFileIsNot(t *testing.T) {
	t.Parallel()
	f := started(t)
	path := filepath.Join(f.Dir(), "results.jsonl")
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := f.End(completed("a", 1)); err == nil || !strings.Contains(err.Error(), "in the journal") {
		t.Errorf("got %v", err)
	}
	if results, err := f.Results(); err != nil || len(results) != 1 {
		t.Errorf("%d results, %v", len(results), err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Rebuild(); err != nil {
		t.Fatal(err)
	}
	if stale, err := f.Stale(); err != nil || len(stale) > 0 {
		t.Errorf("stale: %v, %v", stale, err)
	}
}
