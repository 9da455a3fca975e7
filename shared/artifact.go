package shared

// CollectSpec says what to bring back from a workspace.
type CollectSpec struct {
	Patterns []Pattern // files by name or glob
	Diff     bool      // the patch from the state in which the cell started
	// DiffFromBase asks for the patch from the base commit as well: seeds, setup and cell together.
	DiffFromBase bool
	MaxBytes     int64 // most bytes of one artifact; a larger one is ArtifactTooLarge. 0: no cap
}

// ArtifactKind says what an artifact is.
type ArtifactKind uint8

// The kinds of artifact.
const (
	ArtifactUnspecified ArtifactKind = iota
	ArtifactFile
	ArtifactDiff         // the patch from the state in which the cell started
	ArtifactDiffFromBase // the patch from the base commit
)

// ArtifactState is what was found at an artifact's path. Missing, empty and directory are three different things.
type ArtifactState string

// The states of an artifact.
const (
	ArtifactPresent   ArtifactState = "present"
	ArtifactMissing   ArtifactState = "missing"
	ArtifactDirectory ArtifactState = "directory"
	ArtifactRefused   ArtifactState = "refused"
	ArtifactTooLarge  ArtifactState = "too_large"
)

// Artifact is one file that was asked for, or one that a pattern matched.
type Artifact struct {
	Kind   ArtifactKind
	Path   string // bytes, relative to the workspace; the pattern itself where nothing matched
	State  ArtifactState
	Bytes  int64  // size of what was sent; for ArtifactTooLarge the apparent size
	SHA256 string // of the bytes sent; empty unless present
	Detail string // why it was refused, or what was noticed while it was read
}

// ArtifactSink takes artifacts one after another: Begin, any number of Write, End.
type ArtifactSink interface {
	// Begin opens the artifact at path.
	Begin(kind ArtifactKind, path string) error
	// Write takes the next bytes of the open artifact. data is valid only during the call.
	Write(data []byte) (int, error)
	// End closes the open artifact with its final state, whatever was written.
	End(a Artifact) error
}

// Collection is what Collect found.
type Collection struct {
	Diff         *Diff // nil unless asked for
	DiffFromBase *Diff // nil unless asked for
	Notices      []Notice
}

// Diff sums up a patch. Applied to the tree From it gives the tree Tree.
type Diff struct {
	Files      int64
	Insertions int64 // lines of text files
	Deletions  int64 // lines of text files
	Bytes      int64 // of the patch
	SHA256     string
	From       string // tree id
	Tree       string // tree id
}
