package worktree

import (
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// fingerprint tells whether a file is as it was. The change time cannot be set by a program, so it alone shows every
// write.
type fingerprint struct {
	Inode  uint64
	Size   int64
	Mode   uint32
	Change int64 // nanoseconds since 1970
	// Digest is kept for files below "git" only, where the change time says nothing: git touches a pack whenever
	// somebody who borrows from it writes an object that it has.
	Digest [sha256.Size]byte
}

func fingerprintOf(st *unix.Stat_t) fingerprint {
	return fingerprint{Inode: st.Ino, Size: st.Size, Mode: uint32(st.Mode), Change: st.Ctim.Nano()}
}

// seal is the state of all files below a mirror, by path. A mirror is written by the same user that cells run as, so
// it has to be looked at before it is believed.
type seal map[string]fingerprint

// sealName is the file that keeps the seal, in the mirror itself.
const sealName = "seal"

// takeSeal reads the state of every file below dir.
func takeSeal(dir string) (seal, error) {
	s := seal{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == sealName {
			return err
		}
		s[name], err = sealFile(path, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look at the files of the mirror %s: %w", dir, err)
	}
	return s, nil
}

func sealFile(path, name string) (fingerprint, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fingerprint{}, err
	}
	print := fingerprintOf(&st)
	if !strings.HasPrefix(name, "git"+string(filepath.Separator)) {
		return print, nil
	}
	print.Change = 0
	file, err := os.Open(path)
	if err != nil {
		return fingerprint{}, err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	hash.Sum(print.Digest[:0])
	return print, errors.Join(err, file.Close())
}

// write keeps the seal in dir.
func (s seal) write(dir string) (err error) {
	file, err := os.OpenFile(filepath.Join(dir, sealName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	return errors.Join(gob.NewEncoder(file).Encode(s), file.Close())
}

// checkSeal compares dir with its seal, and returns the seal.
func checkSeal(dir string) (seal, error) {
	file, err := os.Open(filepath.Join(dir, sealName))
	if err != nil {
		return nil, err
	}
	var want seal
	if err := errors.Join(gob.NewDecoder(file).Decode(&want), file.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	got, err := takeSeal(dir)
	if err != nil {
		return nil, err
	}
	for name, print := range want {
		if got[name] != print {
			return nil, fmt.Errorf("%s was changed since the mirror was made", filepath.Join(dir, name))
		}
	}
	if len(got) != len(want) {
		return nil, fmt.Errorf("files were added to %s since the mirror was made", dir)
	}
	return want, nil
}
