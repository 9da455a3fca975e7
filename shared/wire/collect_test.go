package wire

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

// memorySink keeps artifacts.
type memorySink struct {
	open bytes.Buffer
	ends []shared.Artifact
	data map[string][]byte
	fail error
}

func (s *memorySink) Begin(shared.ArtifactKind, string) error {
	s.open.Reset()
	return nil
}

func (s *memorySink) Write(data []byte) (int, error) {
	if s.fail != nil {
		return 0, s.fail
	}
	return s.open.Write(data)
}

func (s *memorySink) End(a shared.Artifact) error {
	s.ends = append(s.ends, a)
	if s.data == nil {
		s.data = map[string][]byte{}
	}
	s.data[a.Path] = slices.Clone(s.open.Bytes())
	return nil
}

func present(kind shared.ArtifactKind, path string, data []byte) shared.Artifact {
	digest := sha256.Sum256(data)
	return shared.Artifact{
		Kind: kind, Path: path, State: shared.ArtifactPresent, Bytes: int64(len(data)), SHA256: hex.EncodeToString(digest[:]),
	}
}

// give sends artifacts, with what each of them holds.
func give(sink shared.ArtifactSink, artifacts []shared.Artifact, data map[string][]byte) error {
	for _, a := range artifacts {
		if err := sink.Begin(a.Kind, a.Path); err != nil {
			return err
		}
		if _, err := sink.Write(data[a.Path]); err != nil {
			return err
		}
		if err := sink.End(a); err != nil {
			return err
		}
	}
	return nil
}

func TestCollect(t *testing.T) {
	t.Parallel()
	data := map[string][]byte{"a\xff": pattern(3*maxChunk + 5), "empty": {}, shared.DiffName: []byte("diff")}
	artifacts := []shared.Artifact{
		present(shared.ArtifactFile, "a\xff", data["a\xff"]),
		present(shared.ArtifactFile, "empty", nil),
		{Kind: shared.ArtifactFile, Path: "gone", State: shared.ArtifactMissing},
		{Kind: shared.ArtifactFile, Path: "link", State: shared.ArtifactRefused, Detail: "it leads out of the workspace"},
		present(shared.ArtifactDiff, shared.DiffName, data[shared.DiffName]),
	}
	want := filled[shared.Collection](t)
	spec := filled[shared.CollectSpec](t)
	client := connect(t, &stub{
		collect: func(_ context.Context, _ shared.Handle, got shared.CollectSpec, sink shared.ArtifactSink) (shared.Collection, error) {
			if diff := cmp.Diff(spec, got); diff != "" {
				t.Errorf("spec: -want +got:\n%s", diff)
			}
			return want, give(sink, artifacts, data)
		},
	})
	sink := &memorySink{}
	got, err := client.Collect(bounded(t), shared.Handle{}, spec, sink)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("collection: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(artifacts, sink.ends); diff != "" {
		t.Errorf("artifacts: -want +got:\n%s", diff)
	}
	for path, want := range data {
		if !bytes.Equal(sink.data[path], want) {
			t.Errorf("%q arrived with %d bytes and is wrong", path, len(sink.data[path]))
		}
	}
}

func TestCollect_SinkFails(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	client := connect(t, &stub{
		collect: func(_ context.Context, _ shared.Handle, _ shared.CollectSpec, sink shared.ArtifactSink) (shared.Collection, error) {
			data := pattern(4 << 20) // more than the transport buffers
			return shared.Collection{}, give(sink, []shared.Artifact{present(shared.ArtifactFile, "a", data)}, map[string][]byte{"a": data})
		},
	})
	_, err := client.Collect(bounded(t), shared.Handle{}, shared.CollectSpec{}, &memorySink{fail: full})
	if !errors.Is(err, full) || !errors.Is(err, shared.OfCause(shared.CauseStorage)) || !Spoken(err) {
		t.Errorf("Collect: %#v, want the sink's own error", err)
	}
}

func TestCollect_Fails(t *testing.T) {
	t.Parallel()
	want := &shared.Error{Code: shared.CodePrecondition, Cause: shared.CauseCollect, Message: "a command still runs"}
	client := connect(t, &stub{
		collect: func(context.Context, shared.Handle, shared.CollectSpec, shared.ArtifactSink) (shared.Collection, error) {
			return shared.Collection{}, want
		},
	})
	_, err := client.Collect(bounded(t), shared.Handle{}, shared.CollectSpec{}, &memorySink{})
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
