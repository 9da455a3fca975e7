package wire

import (
	"fmt"

	"google.golang.org/grpc"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

// artifactSender is the sink that streams artifacts to the host.
type artifactSender struct {
	stream grpc.ServerStreamingServer[pb.CollectResponse]
}

var _ shared.ArtifactSink = (*artifactSender)(nil)

// Begin announces an artifact.
func (s *artifactSender) Begin(kind shared.ArtifactKind, path string) error {
	var b breach
	m := toArtifactBegin(&b, kind, path)
	return s.send(&b, &pb.CollectResponse{Item: &pb.CollectResponse_Begin{Begin: m}})
}

// Write sends data in chunks.
func (s *artifactSender) Write(data []byte) (int, error) {
	var b breach
	for sent := 0; sent < len(data); {
		end := min(sent+maxChunk, len(data))
		chunk := &pb.Chunk{Data: data[sent:end]}
		if err := s.send(&b, &pb.CollectResponse{Item: &pb.CollectResponse_Chunk{Chunk: chunk}}); err != nil {
			return sent, err
		}
		sent = end
	}
	return len(data), nil
}

// End sends the final state of the artifact.
func (s *artifactSender) End(a shared.Artifact) error {
	var b breach
	m := toArtifact(&b, a)
	return s.send(&b, &pb.CollectResponse{Item: &pb.CollectResponse_End{End: m}})
}

func (s *artifactSender) send(b *breach, m *pb.CollectResponse) error {
	if err := b.asError(shared.CodeInternal); err != nil {
		return err
	}
	if err := s.stream.Send(m); err != nil {
		return fmt.Errorf("send an artifact: %w", err)
	}
	return nil
}
