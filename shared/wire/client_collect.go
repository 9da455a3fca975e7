package wire

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

// Collect hands the artifacts to sink and returns the collection. Each artifact is checked against its size and digest
// before its End is passed on; after a failure what sink has open is not complete.
func (c *client) Collect(
	ctx context.Context, h shared.Handle, spec shared.CollectSpec, sink shared.ArtifactSink,
) (shared.Collection, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.rpc.Collect(ctx, toCollectSpec(h, spec))
	if err != nil {
		return shared.Collection{}, FromStatus(err)
	}
	r := artifactReceiver{sink: sink}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return r.end()
		}
		if err != nil {
			return shared.Collection{}, FromStatus(err)
		}
		if err := r.take(m); err != nil {
			return shared.Collection{}, err
		}
	}
}

// artifactReceiver checks what Collect answers, and passes the artifacts on.
type artifactReceiver struct {
	sink       shared.ArtifactSink
	open       *openArtifact
	collection *shared.Collection
}

type openArtifact struct {
	kind   shared.ArtifactKind
	path   string
	bytes  int64
	digest hash.Hash
}

func (r *artifactReceiver) take(m *pb.CollectResponse) error {
	if r.collection != nil {
		return breachOf(shared.CodeInternal, "a message of Collect came after the collection")
	}
	switch item := m.GetItem().(type) {
	case *pb.CollectResponse_Begin:
		return r.begin(item.Begin)
	case *pb.CollectResponse_Chunk:
		return r.write(item.Chunk.GetData())
	case *pb.CollectResponse_End:
		return r.close(item.End)
	case *pb.CollectResponse_Collection:
		return r.collect(item.Collection)
	}
	return breachOf(shared.CodeInternal, "a message of Collect holds nothing that is known")
}

func (r *artifactReceiver) begin(m *pb.ArtifactBegin) error {
	if r.open != nil {
		return breachOf(shared.CodeInternal, "an artifact began inside the artifact %q", r.open.path)
	}
	var b breach
	kind, path := fromArtifactBegin(&b, m)
	if err := b.asError(shared.CodeInternal); err != nil {
		return err
	}
	r.open = &openArtifact{kind: kind, path: path, digest: sha256.New()}
	return stored(r.sink.Begin(kind, path), path)
}

func (r *artifactReceiver) write(data []byte) error {
	if r.open == nil {
		return breachOf(shared.CodeInternal, "bytes came outside an artifact")
	}
	if len(data) == 0 || len(data) > maxChunk {
		return breachOf(shared.CodeInternal, "a chunk has %d bytes; 1 to %d are allowed", len(data), maxChunk)
	}
	// Only what is sent is stored under its path, so only then does the path have to be one.
	if r.open.kind == shared.ArtifactFile {
		if _, err := shared.ParsePath(r.open.path); err != nil {
			return breachOf(shared.CodeInternal, "an artifact is not inside the workspace: %w", err)
		}
	}
	r.open.bytes += int64(len(data))
	r.open.digest.Write(data)
	_, err := r.sink.Write(data)
	return stored(err, r.open.path)
}

func (r *artifactReceiver) close(m *pb.Artifact) error {
	if r.open == nil {
		return breachOf(shared.CodeInternal, "an artifact ended that had not begun")
	}
	var b breach
	a := fromArtifact(&b, m)
	r.open.check(&b, a)
	if err := b.asError(shared.CodeInternal); err != nil {
		return err
	}
	r.open = nil
	return stored(r.sink.End(a), a.Path)
}

// check notes where the end of the artifact does not fit its begin and its bytes.
func (o *openArtifact) check(b *breach, a shared.Artifact) {
	if a.Kind != o.kind || a.Path != o.path {
		b.add("the artifact %q ended as %q", o.path, a.Path)
	}
	if a.State != shared.ArtifactPresent {
		return
	}
	if a.Bytes != o.bytes {
		b.add("%d bytes of the artifact %q came, and %d are said to be sent", o.bytes, o.path, a.Bytes)
	}
	if got := hex.EncodeToString(o.digest.Sum(nil)); got != a.SHA256 {
		b.add("the artifact %q has the SHA-256 %s, and %s is said", o.path, got, a.SHA256)
	}
}

func (r *artifactReceiver) collect(m *pb.Collection) error {
	if r.open != nil {
		return breachOf(shared.CodeInternal, "the collection came inside the artifact %q", r.open.path)
	}
	var b breach
	collection := fromCollection(&b, m)
	r.collection = &collection
	return b.asError(shared.CodeInternal)
}

func (r *artifactReceiver) end() (shared.Collection, error) {
	if r.collection == nil {
		return shared.Collection{}, breachOf(shared.CodeInternal, "Collect ended without its collection")
	}
	return *r.collection, nil
}

// stored says that an artifact could not be kept on this side.
func stored(err error, path string) error {
	if err == nil || isOurs(err) {
		return err
	}
	return &shared.Error{
		Code: shared.CodeInternal, Cause: shared.CauseStorage, Err: err,
		Message: fmt.Sprintf("store the artifact %q: %v", path, err),
	}
}
