package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/oklog/ulid/v2"

	"cellharness/runner/record"
	"cellharness/shared"
)

func newDir(t *testing.T) *record.Attempt {
	t.Helper()
	folder, err := record.Create(t.TempDir(), ulid.Make().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	dir, err := folder.Attempt("key", 1)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestArtifactSink_BelievesNothing holds that an adapter which breaks the order, or speaks of another patch than it
// sent, has broken the contract, whatever it says afterwards.
func TestArtifactSink_BelievesNothing(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("patch"))
	patch := shared.Artifact{
		Kind: shared.ArtifactDiff, State: shared.ArtifactPresent, Bytes: 5, SHA256: hex.EncodeToString(sum[:]),
	}
	send := func(s *artifactSink) {
		_ = s.Begin(shared.ArtifactDiff, shared.DiffName)
		_, _ = s.Write([]byte("patch"))
		_ = s.End(patch)
	}
	fits := &shared.Diff{Bytes: 5, SHA256: patch.SHA256}
	for name, test := range map[string]struct {
		do   func(*artifactSink)
		said *shared.Diff
		ok   bool
	}{
		"a patch":                {send, fits, true},
		"two patches":            {func(s *artifactSink) { send(s); send(s) }, fits, false},
		"another digest":         {send, &shared.Diff{Bytes: 5, SHA256: "00"}, false},
		"another size":           {send, &shared.Diff{Bytes: 4, SHA256: patch.SHA256}, false},
		"no summary":             {send, nil, false},
		"no patch":               {func(*artifactSink) {}, fits, false},
		"bytes outside":          {func(s *artifactSink) { _, _ = s.Write([]byte("x")); send(s) }, fits, false},
		"an end without a begin": {func(s *artifactSink) { _ = s.End(patch); send(s) }, fits, false},
		"a begin inside":         {func(s *artifactSink) { _ = s.Begin(shared.ArtifactFile, "x"); send(s) }, fits, false},
		"an unknown kind":        {func(s *artifactSink) { _ = s.Begin(99, "x"); send(s) }, fits, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAttempt()
			a.dir = newDir(t)
			s := &artifactSink{attempt: a, patches: map[shared.ArtifactKind]shared.Artifact{}}
			test.do(s)
			s.abandon()
			_, err := s.patch(shared.ArtifactDiff, test.said)
			err = errors.Join(s.err, err)
			if (err == nil) != test.ok || (err != nil && causeOf(err) != shared.CauseProtocol) {
				t.Errorf("error %v, want none: %t", err, test.ok)
			}
			if _, err := os.Stat(filepath.Join(a.dir.Dir(), "artifacts", "x")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("half an artifact is kept: %v", err)
			}
		})
	}
}

func TestArtifactSink_ThatCannotStoreSaysSo(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no device that is always full: %v", err)
	}
	a := newAttempt()
	a.dir = newDir(t)
	s := &artifactSink{attempt: a, patches: map[shared.ArtifactKind]shared.Artifact{}}
	if err := s.Begin(shared.ArtifactFile, "x"); err != nil {
		t.Fatal(err)
	}
	if err := s.open.Close(); err != nil {
		t.Fatal(err)
	}
	s.open = full
	n, err := s.Write([]byte("text"))
	if n != 0 || causeOf(err) != shared.CauseStorage || retryable(err) {
		t.Errorf("Write = %d, %v; want an error of storage", n, err)
	}
	if err := s.End(shared.Artifact{State: shared.ArtifactPresent}); err == nil {
		t.Error("the end of what was not stored is accepted")
	}
	s.abandon()
	if _, err := os.Stat(filepath.Join(a.dir.Dir(), "artifacts", "x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half an artifact is kept: %v", err)
	}
}
