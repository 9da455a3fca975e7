package pluginhost

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// executable is an adapter's program file as it was before its start.
type executable struct {
	path   string
	digest string // SHA-256 of the content, lower case hex
	state  fileState
}

// fileState tells whether a file is still the one that was read: any write to it and any rename moves its change
// time, which no ordinary program can set back.
type fileState struct {
	device, inode uint64
	size          int64
	changed       [2]int64 // seconds and nanoseconds
}

// openExecutable reads the program at path. The error is a sentence part that follows the path, with the remedy.
func openExecutable(path string) (executable, error) {
	info, err := os.Stat(path)
	if err != nil {
		return executable{}, notThere(path, err)
	}
	if why := unfit(info); why != "" {
		return executable{}, errors.New(why)
	}
	f, err := os.Open(path)
	if err != nil {
		return executable{}, fmt.Errorf("cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	state, err := stateOf(func(st *unix.Stat_t) error { return unix.Fstat(int(f.Fd()), st) })
	if err != nil {
		return executable{}, fmt.Errorf("cannot be looked at: %w", err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return executable{}, fmt.Errorf("cannot be read: %w", err)
	}
	return executable{path: path, digest: hex.EncodeToString(sum.Sum(nil)), state: state}, nil
}

func notThere(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot be looked at: %w", err)
	}
	target, linkErr := os.Readlink(path)
	if linkErr == nil {
		return fmt.Errorf("is a link to nowhere (%s); install the adapter there", quoted(target))
	}
	return errors.New("does not exist; install the adapter there, from the same build as the harness")
}

// unfit says what is wrong with a file that no attempt to start it is needed for.
func unfit(info fs.FileInfo) string {
	switch {
	case info.IsDir():
		return "is a folder, not a program; install the adapter in its place"
	case !info.Mode().IsRegular():
		return "is not a regular file; install the adapter in its place"
	case info.Size() == 0:
		return "is an empty file; install the adapter again"
	case info.Mode()&0o111 == 0:
		return "is not executable; chmod +x it, or install the adapter again"
	}
	return ""
}

// unchanged fails when the program at the path is not the one that was read.
func (b executable) unchanged() error {
	now, err := stateOf(func(st *unix.Stat_t) error { return unix.Stat(b.path, st) })
	if err == nil && now == b.state {
		return nil
	}
	// The change time moves with the number of links as well, so the content decides.
	again, err := openExecutable(b.path)
	if err != nil {
		return err
	}
	if again.digest != b.digest {
		return errors.New("was replaced while it was started; start again once it is installed")
	}
	return nil
}

func stateOf(stat func(*unix.Stat_t) error) (fileState, error) {
	var st unix.Stat_t
	if err := stat(&st); err != nil {
		return fileState{}, err
	}
	sec, nsec := st.Ctim.Unix()
	return fileState{device: uint64(st.Dev), inode: st.Ino, size: st.Size, changed: [2]int64{sec, nsec}}, nil
}

// explain says why the program could not be started, as a sentence part that follows its path. The content is looked
// at only now, so that whatever the system can start is started.
func (b executable) explain(startErr error) string {
	if errors.Is(startErr, syscall.EACCES) {
		return "may not be executed by this user: " + startErr.Error()
	}
	if why := flaw(b.path); why != "" {
		return why
	}
	return "cannot be started: " + startErr.Error()
}

// flaw looks for damage in a program file. It returns nothing where it finds none.
func flaw(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // only read from
	head := make([]byte, 256)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	start := string(head[:n])
	switch {
	case strings.HasPrefix(start, "#!"):
		return scriptFlaw(start)
	case strings.HasPrefix(start, elf.ELFMAG):
		return elfFlaw(f)
	case runtime.GOOS == "linux":
		return "is no program, neither an executable nor a script; install the adapter again"
	}
	return ""
}

func scriptFlaw(start string) string {
	line, _, _ := strings.Cut(strings.TrimPrefix(start, "#!"), "\n")
	if strings.HasSuffix(line, "\r") {
		return `is a script with carriage returns at the ends of its lines, which its interpreter is not found for; save it with "\n" alone`
	}
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return "is a script that names no interpreter"
	}
	if _, err := os.Stat(fields[0]); err != nil {
		return fmt.Sprintf("is a script whose interpreter %s is not there", quoted(fields[0]))
	}
	return ""
}

// elfFlaw compares the file with the program that runs now, which was built for this machine.
func elfFlaw(f *os.File) string {
	const damaged = "is damaged: the file is shorter than its header says; install the adapter again"
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	machine, known := machineOf(f)
	if !known {
		return damaged
	}
	if own, err := os.Open("/proc/self/exe"); err == nil {
		defer func() { _ = own.Close() }() // only read from
		if ours, known := machineOf(own); known && ours != machine {
			return fmt.Sprintf("is built for another machine (%s, this one is %s); install the adapter of this machine", machine, ours)
		}
	}
	program, err := elf.NewFile(f)
	if err != nil {
		return damaged
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_LOAD && int64(p.Off+p.Filesz) > info.Size() {
			return damaged
		}
	}
	return ""
}

// machineOf reads what machine a program is built for, which the start of its file says, whole or not.
func machineOf(r io.ReaderAt) (machine string, known bool) {
	var head [elf.EI_NIDENT + 4]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return "", false
	}
	var order binary.ByteOrder = binary.LittleEndian
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	return elf.Machine(order.Uint16(head[elf.EI_NIDENT+2:])).String() + " " + elf.Class(head[elf.EI_CLASS]).String(), true
}
