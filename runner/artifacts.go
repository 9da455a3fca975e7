package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"

	"cellharness/runner/event"
	"cellharness/runner/record"
	"cellharness/runner/redact"
	"cellharness/shared"
)

// maxArtifact caps one artifact. It is large enough for builds and model outputs, and small enough that one sparse
// file of terabytes cannot fill the disk of the results.
const maxArtifact = 4 << 30

// The names of the stored patches in the folder of an attempt.
const (
	diffFile     = "diff.patch"
	fromBaseFile = "diff_from_base.patch"
)

// artifactSink stores artifacts and patches as they come, and believes only what it has counted itself.
type artifactSink struct {
	attempt *attempt
	patches map[shared.ArtifactKind]shared.Artifact // that came, in whatever state
	err     error                                   // why nothing is taken any more

	open    *os.File
	name    string // of the open file, in the attempt's folder
	kind    shared.ArtifactKind
	path    string // as the adapter named it
	digest  hash.Hash
	bytes   int64
	scanner *redact.Writer // looks for secrets in what passes
}

// Begin opens the file that the artifact goes to.
func (s *artifactSink) Begin(kind shared.ArtifactKind, artifact string) error {
	return s.fail(s.begin(kind, artifact))
}

// Write stores the next bytes of the open artifact.
func (s *artifactSink) Write(p []byte) (int, error) {
	n, err := s.write(p)
	return n, s.fail(err)
}

// End closes the open artifact. What is not present, or holds a secret, is not kept on disk.
func (s *artifactSink) End(a shared.Artifact) error { return s.fail(s.end(a)) }

// fail remembers the first error. It is what ended the collect, in whatever words the adapter passes it on.
func (s *artifactSink) fail(err error) error {
	if s.err == nil {
		s.err = err
	}
	return s.err
}

func (s *artifactSink) begin(kind shared.ArtifactKind, artifact string) (err error) {
	if s.err != nil {
		return s.err
	}
	if s.open != nil {
		return protocolError("an artifact began inside the artifact %q", s.attempt.text(s.path))
	}
	switch kind {
	case shared.ArtifactDiff, shared.ArtifactDiffFromBase:
		s.name = diffFile
		if kind == shared.ArtifactDiffFromBase {
			s.name = fromBaseFile
		}
		if _, twice := s.patches[kind]; twice {
			return protocolError("a patch came twice")
		}
		s.open, err = s.attempt.dir.Create(s.name)
	case shared.ArtifactFile:
		s.open, s.name, err = s.attempt.dir.Artifact(s.attempt.masker.Mask(artifact))
	default:
		return protocolError("artifact %q is of unknown kind %d", s.attempt.text(artifact), kind)
	}
	if err != nil {
		return storageError("an artifact", s.attempt.dir.Dir(), err)
	}
	s.kind, s.path, s.digest, s.bytes = kind, artifact, sha256.New(), 0
	s.scanner = s.attempt.masker.Writer(io.Discard)
	return nil
}

func (s *artifactSink) write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.open == nil {
		return 0, protocolError("bytes came outside an artifact")
	}
	n, err := s.open.Write(p)
	s.bytes += int64(n)
	_, _ = s.digest.Write(p[:n])  // a hash never fails
	_, _ = s.scanner.Write(p[:n]) // nor does what goes nowhere
	if err != nil {
		return n, storageError("an artifact", s.attempt.dir.Dir(), err)
	}
	return n, nil
}

func (s *artifactSink) end(a shared.Artifact) error {
	if s.err != nil {
		return s.err
	}
	if s.open == nil {
		return protocolError("an artifact ended that had not begun")
	}
	err := errors.Join(s.scanner.Close(), s.open.Close())
	s.open = nil
	if err != nil {
		return storageError("an artifact", s.attempt.dir.Dir(), err)
	}
	digest := hex.EncodeToString(s.digest.Sum(nil))
	if a.State == shared.ArtifactPresent && (a.Bytes != s.bytes || a.SHA256 != digest) {
		return errors.Join(s.drop(), protocolError(
			"artifact %q arrived with %d bytes (sha256 %s), the adapter says that it sent %d (sha256 %s)",
			s.attempt.text(s.path), s.bytes, digest, a.Bytes, a.SHA256))
	}
	secret := s.scanner.Found() > 0 || s.attempt.masker.Mask(s.path) != s.path
	if a.State == shared.ArtifactPresent && secret {
		a.State, a.Detail, a.SHA256 = shared.ArtifactRefused, "secret", ""
		s.attempt.notice(shared.Notice{Kind: shared.NoticeArtifactRefused, Detail: s.path + ": secret", Count: 1})
	}
	if a.State != shared.ArtifactPresent {
		if err := s.drop(); err != nil {
			return err
		}
	}
	s.tell(a)
	return nil
}

// drop removes what was stored of the artifact.
func (s *artifactSink) drop() error {
	err := s.attempt.dir.Remove(s.name)
	s.name = ""
	if err != nil {
		return storageError("the removal of an artifact", s.attempt.dir.Dir(), err)
	}
	return nil
}

// tell records the artifact; the patches have records of their own unless they were refused.
func (s *artifactSink) tell(a shared.Artifact) {
	kept := record.Artifact{
		Path: s.attempt.text(s.path), File: s.name, State: a.State, Bytes: a.Bytes, SHA256: a.SHA256,
		Detail: s.attempt.text(a.Detail),
	}
	if s.kind != shared.ArtifactFile {
		s.patches[s.kind] = a
		kept.Path = shared.DiffName
		if a.State == shared.ArtifactPresent {
			return
		}
	}
	s.attempt.result.Artifacts = append(s.attempt.result.Artifacts, kept)
	s.attempt.cfg.Events.Emit(&event.CellArtifact{
		Cell: s.attempt.cell.Address, Attempt: s.attempt.number, Artifact: kept,
	})
}

// patch is the record of a stored patch, nil for one that was refused. What the adapter says of it has to fit what
// came.
func (s *artifactSink) patch(kind shared.ArtifactKind, said *shared.Diff) (*record.Diff, error) {
	came, ok := s.patches[kind]
	if !ok {
		return nil, protocolError("a patch was asked for, and none came")
	}
	if came.State != shared.ArtifactPresent {
		return nil, nil
	}
	if said == nil || said.Bytes != came.Bytes || said.SHA256 != came.SHA256 {
		return nil, protocolError("a patch of %d bytes (sha256 %s) came, and its summary speaks of another", came.Bytes, came.SHA256)
	}
	return &record.Diff{
		Files: said.Files, Insertions: said.Insertions, Deletions: said.Deletions, Bytes: said.Bytes,
		SHA256: said.SHA256, From: said.From, Tree: said.Tree,
	}, nil
}

// abandon closes and removes an artifact that was begun and never ended: half an artifact is no artifact.
func (s *artifactSink) abandon() {
	if s.open == nil {
		return
	}
	if err := errors.Join(s.open.Close(), s.drop()); err != nil {
		s.attempt.notice(shared.Notice{Kind: shared.NoticeUnreadable, Detail: "remove half an artifact: " + err.Error()})
	}
	s.open = nil
}
