package wire

import (
	"fmt"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

func toCollectSpec(h shared.Handle, s shared.CollectSpec) *pb.CollectRequest {
	return &pb.CollectRequest{
		Handle: toHandle(h), Patterns: each(s.Patterns, toBytes[shared.Pattern]), Diff: s.Diff,
		DiffFromBase: s.DiffFromBase, MaxBytes: s.MaxBytes,
	}
}

func fromCollectSpec(b *breach, m *pb.CollectRequest) (shared.Handle, shared.CollectSpec) {
	return fromHandle(b, m.GetHandle()), shared.CollectSpec{
		Patterns: each(m.GetPatterns(), func(p []byte) shared.Pattern {
			pattern, err := shared.ParsePattern(string(p))
			if err != nil && b.err == nil {
				b.err = &shared.Error{
					Code: shared.CodeInvalid, Cause: shared.CauseCollect,
					Message: fmt.Sprintf("an artifact is refused: %v", err),
				}
			}
			return pattern
		}),
		Diff: m.GetDiff(), DiffFromBase: m.GetDiffFromBase(), MaxBytes: m.GetMaxBytes(),
	}
}

func toArtifactBegin(b *breach, kind shared.ArtifactKind, path string) *pb.ArtifactBegin {
	return &pb.ArtifactBegin{Kind: toEnum(b, artifactKindTable(), kind), Path: []byte(path)}
}

func fromArtifactBegin(b *breach, m *pb.ArtifactBegin) (shared.ArtifactKind, string) {
	return fromEnum(b, artifactKindTable(), m.GetKind()), string(m.GetPath())
}

func toArtifact(b *breach, a shared.Artifact) *pb.Artifact {
	return &pb.Artifact{
		Kind: toEnum(b, artifactKindTable(), a.Kind), Path: []byte(a.Path), State: toEnum(b, artifactStateTable(), a.State),
		SizeBytes: a.Bytes, Sha256: a.SHA256, Detail: text(a.Detail),
	}
}

func fromArtifact(b *breach, m *pb.Artifact) shared.Artifact {
	return shared.Artifact{
		Kind: fromEnum(b, artifactKindTable(), m.GetKind()), Path: string(m.GetPath()),
		State: fromEnum(b, artifactStateTable(), m.GetState()), Bytes: m.GetSizeBytes(), SHA256: m.GetSha256(),
		Detail: m.GetDetail(),
	}
}

func toCollection(b *breach, c shared.Collection) *pb.Collection {
	return &pb.Collection{
		Diff: toDiff(c.Diff), DiffFromBase: toDiff(c.DiffFromBase), Notices: toNotices(b, c.Notices),
	}
}

func fromCollection(b *breach, m *pb.Collection) shared.Collection {
	return shared.Collection{
		Diff: fromDiff(m.GetDiff()), DiffFromBase: fromDiff(m.GetDiffFromBase()), Notices: fromNotices(b, m.GetNotices()),
	}
}

func toDiff(d *shared.Diff) *pb.Diff {
	if d == nil {
		return nil
	}
	return &pb.Diff{
		Files: d.Files, Insertions: d.Insertions, Deletions: d.Deletions, SizeBytes: d.Bytes, Sha256: d.SHA256,
		From: d.From, Tree: d.Tree,
	}
}

func fromDiff(m *pb.Diff) *shared.Diff {
	if m == nil {
		return nil
	}
	return &shared.Diff{
		Files: m.GetFiles(), Insertions: m.GetInsertions(), Deletions: m.GetDeletions(), Bytes: m.GetSizeBytes(),
		SHA256: m.GetSha256(), From: m.GetFrom(), Tree: m.GetTree(),
	}
}
