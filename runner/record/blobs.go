package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"cellharness/runner/plan"
)

// WritePlan writes plan.json and the contents that its cells speak of, each once. The contents come first: a plan that
// is there is complete.
func (f *Folder) WritePlan(p *plan.Plan, blobs plan.Blobs) error {
	if f.journal == nil {
		return f.readOnly("write plan.json")
	}
	for _, sha := range slices.Sorted(maps.Keys(blobs)) {
		if err := f.writeBlob(sha, blobs[sha]); err != nil {
			return fmt.Errorf("write plan: content %s: %w", sha, err)
		}
	}
	if err := syncDir(filepath.Join(f.dir, blobsDir)); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	if err := writeJSON(filepath.Join(f.dir, planFile), p); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}

func (f *Folder) writeBlob(sha string, data []byte) error {
	sum := sha256.Sum256(data)
	if hex.EncodeToString(sum[:]) != sha {
		return errors.New("the bytes have another digest")
	}
	path := filepath.Join(f.dir, blobsDir, sha)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeFile(path, data)
}

// ReadPlan reads plan.json. A plan of a newer schema is refused.
func (f *Folder) ReadPlan() (*plan.Plan, error) {
	p := &plan.Plan{}
	if err := readJSON(filepath.Join(f.dir, planFile), plan.Schema, p); err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	return p, nil
}

// OpenBlob opens a content of the plan by its SHA-256. Reading it to the end gives an error instead of io.EOF when the
// bytes are not the ones that were stored, so that no cell is fed with something else in silence.
func (f *Folder) OpenBlob(sha string) (io.ReadCloser, error) {
	if raw, err := hex.DecodeString(sha); err != nil || len(raw) != sha256.Size {
		return nil, fmt.Errorf("open content %q: it is no SHA-256", sha)
	}
	file, err := os.Open(filepath.Join(f.dir, blobsDir, sha))
	if err != nil {
		return nil, fmt.Errorf("open content %s of the plan: %w", sha, err)
	}
	return &checkedReader{file: file, want: sha, hash: sha256.New()}, nil
}

// checkedReader hides every method of the file but Read and Close, so that all bytes pass the hash.
type checkedReader struct {
	file *os.File
	want string
	hash hash.Hash
}

func (c *checkedReader) Read(p []byte) (int, error) {
	n, err := c.file.Read(p)
	c.hash.Write(p[:n])
	if err == io.EOF && hex.EncodeToString(c.hash.Sum(nil)) != c.want {
		return n, fmt.Errorf("%s is damaged: its bytes no longer have the digest that it is named by", c.file.Name())
	}
	return n, err
}

func (c *checkedReader) Close() error { return c.file.Close() }
