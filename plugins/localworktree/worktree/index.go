package worktree

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"

	"golang.org/x/sys/unix"
)

// The layout of a git index of version 2, as in gitformat-index(5): a header, the entries, extensions, a checksum.
const (
	indexHeaderSize = 12
	indexModeOffset = 24
	indexStatSize   = 40 // times, device, inode, mode, owner and size, before the object id
	nameLengthMask  = 0xfff
)

// The modes of index entries.
const (
	modeSymlink = 0o120000
	modeGitlink = 0o160000
)

// index is a git index in memory, of which only stat data are ever changed.
type index struct {
	data    []byte
	entries []indexEntry
	format  string // object format
}

// indexEntry is one file of an index.
type indexEntry struct {
	name   string
	mode   uint32
	offset int // of its stat data
}

var errIndex = errors.New("it is no index of version 2")

func newHash(format string) hash.Hash {
	if format == "sha256" {
		return sha256.New()
	}
	return sha1.New() // the object format, not a choice of ours
}

// parseIndex reads an index of version 2 without unmerged entries.
func parseIndex(data []byte, format string) (*index, error) {
	if len(data) < indexHeaderSize || !bytes.HasPrefix(data, []byte("DIRC\x00\x00\x00\x02")) {
		return nil, errIndex
	}
	idSize := newHash(format).Size()
	count := int(binary.BigEndian.Uint32(data[8:]))
	ix := &index{data: data, format: format, entries: make([]indexEntry, 0, min(count, len(data)/indexStatSize))}
	offset := indexHeaderSize
	for range count {
		nameStart := offset + indexStatSize + idSize + 2
		if nameStart >= len(data) {
			return nil, errIndex
		}
		length := bytes.IndexByte(data[nameStart:], 0)
		if length < 0 {
			return nil, errIndex
		}
		ix.entries = append(ix.entries, indexEntry{
			name:   string(data[nameStart : nameStart+length]),
			mode:   binary.BigEndian.Uint32(data[offset+indexModeOffset:]),
			offset: offset,
		})
		// An entry is padded with at least one NUL to a multiple of eight bytes.
		offset += (nameStart + length - offset + 8) &^ 7
	}
	return ix, nil
}

// withStats returns the index with the stat data of each entry replaced. A zero Stat_t makes git look at the content.
func (ix *index) withStats(stats []unix.Stat_t) ([]byte, error) {
	if len(stats) != len(ix.entries) {
		return nil, fmt.Errorf("%d stat data for an index of %d entries", len(stats), len(ix.entries))
	}
	data := bytes.Clone(ix.data)
	for i, e := range ix.entries {
		putStat(data[e.offset:e.offset+indexStatSize], &stats[i])
	}
	sum := newHash(ix.format)
	body := data[:len(data)-sum.Size()]
	sum.Write(body)
	return sum.Sum(body), nil
}

// withoutStats returns the index as read-tree would write it: git trusts no file to be as the index says.
func (ix *index) withoutStats() ([]byte, error) {
	return ix.withStats(make([]unix.Stat_t, len(ix.entries)))
}

// putStat writes all stat data but the mode. Git truncates each to 32 bits as well.
func putStat(field []byte, st *unix.Stat_t) {
	put := func(offset int, value int64) { binary.BigEndian.PutUint32(field[offset:], uint32(value)) }
	put(0, st.Ctim.Sec)
	put(4, st.Ctim.Nsec)
	put(8, st.Mtim.Sec)
	put(12, st.Mtim.Nsec)
	put(16, int64(st.Dev))
	put(20, int64(st.Ino))
	put(28, int64(st.Uid))
	put(32, int64(st.Gid))
	put(36, st.Size)
}
