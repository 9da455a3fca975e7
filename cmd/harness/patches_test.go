package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"cellharness/runner/record"
)

// last is a cell's last attempt and the folder that holds its evidence.
type last struct {
	record.Result
	dir string
}

func lastAttempts(ts *testscript.TestScript, dir string) []last {
	var all []last
	for _, line := range results(ts, dir) {
		var r last
		ts.Check(json.Unmarshal(line, &r.Result))
		if !r.Last {
			continue
		}
		r.dir = filepath.Join(ts.MkAbs(dir), r.Run, "cells", r.Key, fmt.Sprint(r.Attempt))
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b last) int { return strings.Compare(a.Cell, b.Cell) })
	return all
}

// stored RESULTS VARIANT FILE prints a file of the last attempt of each cell of a variant: `stored out v stdout.log`.
func stored(ts *testscript.TestScript, neg bool, args []string) {
	found := 0
	for _, r := range lastAttempts(ts, args[0]) {
		if r.Variant != args[1] {
			continue
		}
		b, err := os.ReadFile(filepath.Join(r.dir, args[2]))
		if neg && os.IsNotExist(err) {
			found++
			continue
		}
		ts.Check(err)
		if neg {
			ts.Fatalf("%s of %s is there: %d bytes", args[2], r.Cell, len(b))
		}
		found++
		_, err = ts.Stdout().Write(b)
		ts.Check(err)
	}
	if found == 0 {
		ts.Fatalf("%s holds no cell of variant %s", args[0], args[1])
	}
}

// applies REPO RESULTS [VARIANT] holds every recorded patch to its promise: it is the file that the record describes, and
// applied to the base commit in a fresh clone it gives the recorded tree. It prints `VARIANT STATUS PATH` for each file
// in it.
func applies(ts *testscript.TestScript, _ bool, args []string) {
	found := 0
	for i, r := range lastAttempts(ts, args[1]) {
		if r.Diff == nil || len(args) > 2 && r.Variant != args[2] {
			continue
		}
		found++
		name := filepath.Join(r.dir, "diff.patch")
		b, err := os.ReadFile(name)
		ts.Check(err)
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != r.Diff.SHA256 || int64(len(b)) != r.Diff.Bytes {
			ts.Fatalf("patch of %s: %d bytes with sum %s, recorded are %d with %s", r.Cell, len(b), got, r.Diff.Bytes, r.Diff.SHA256)
		}
		clone := ts.MkAbs(fmt.Sprintf("clone-%s-%d", r.Run, i))
		plainGit(ts, "", "clone", "-q", "--no-hardlinks", "--no-checkout", ts.MkAbs(args[0]), clone)
		plainGit(ts, clone, "checkout", "-q", "--detach", r.BaseSHA)
		if len(b) > 0 {
			plainGit(ts, clone, "apply", "--index", name)
		}
		if tree := strings.TrimSpace(plainGit(ts, clone, "write-tree")); tree != r.Diff.Tree {
			ts.Fatalf("patch of %s gives tree %s, recorded is %s", r.Cell, tree, r.Diff.Tree)
		}
		for line := range strings.Lines(plainGit(ts, clone, "diff", "--cached", "--no-renames", "--name-status", r.BaseSHA)) {
			fmt.Fprintf(ts.Stdout(), "%s %s", r.Variant, strings.Replace(line, "\t", " ", 1))
		}
	}
	if found == 0 {
		ts.Fatalf("no result in %s has a patch", args[1])
	}
}

// plainGit runs git without any settings of the user that the script has made, which must not matter to a patch.
func plainGit(ts *testscript.TestScript, dir string, args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+ts.MkAbs("no-home"), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		ts.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}
