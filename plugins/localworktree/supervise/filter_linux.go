package supervise

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"cellharness/shared"
)

// filter puts Landlock, and against the network seccomp, on this thread: what is left where namespaces are refused.
func (o stageOrder) filter() error {
	if err := o.landlock(); err != nil {
		return err
	}
	if o.Held[shared.DimensionNetwork] != byFilter {
		return nil
	}
	return socketsOnlyUnix()
}

// landlockScopes is the version of Landlock from which it keeps signals and abstract Unix sockets in (Linux 6.12).
const landlockScopes = 6

// Rights of Landlock over files: to read and to execute, and to change.
const (
	landlockRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	landlockMake  = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM
)

func (o stageOrder) landlock() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("use Landlock: %w", errno)
	}
	if version < landlockScopes {
		return fmt.Errorf("use Landlock: version %d is there and %d is needed", version, landlockScopes)
	}
	attr := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL}
	files := o.Held[shared.DimensionFilesystem] == byFilter
	if files {
		attr.Handled_access_fs = landlockRead | landlockWrite | landlockMake
	}
	// Of the structure, only the fields that the needed version knows.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Offsetof(attr.Quiet_access_fs), 0)
	if errno != 0 {
		return fmt.Errorf("use Landlock: %w", errno)
	}
	defer unix.Close(int(fd))
	if files {
		if err := o.allow(int(fd)); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("use Landlock: %w", errno)
	}
	return nil
}

// allow adds what may be read and what may be written.
func (o stageOrder) allow(ruleset int) error {
	if err := allowBeneath(ruleset, "/", landlockRead); err != nil {
		return err
	}
	for _, path := range toStrings(o.Writable) {
		if err := allowBeneath(ruleset, path, landlockRead|landlockWrite|landlockMake); err != nil {
			return err
		}
	}
	for _, path := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts"} {
		if err := allowBeneath(ruleset, path, unix.LANDLOCK_ACCESS_FS_READ_FILE|landlockWrite); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func allowBeneath(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("use Landlock: open %s: %w", path, err)
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("use Landlock: allow %s: %w", path, errno)
	}
	return nil
}

// Offsets in struct seccomp_data, and the bit of the x32 system calls of amd64, see seccomp(2).
const (
	seccompNumber = 0
	seccompArch   = 4
	seccompArg0   = 16
	x32Bit        = 0x40000000
)

// socketsOnlyUnix refuses every socket but a Unix one, and what could make one in another way.
func socketsOnlyUnix() error {
	arch, known := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !known {
		return fmt.Errorf("use seccomp: the system calls of %s are not known", runtime.GOARCH)
	}
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	jump := func(kind uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | kind | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	// A jump counts the instructions to leave out: the refusals are 8 and 10, the permission is 9.
	program := []unix.SockFilter{
		load(seccompArch),
		jump(unix.BPF_JEQ, arch, 0, 6), // another set of system calls: none of them
		load(seccompNumber),
		jump(unix.BPF_JGE, x32Bit, 4, 0),
		jump(unix.BPF_JEQ, unix.SYS_IO_URING_SETUP, 3, 0),
		jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 3),
		load(seccompArg0),
		jump(unix.BPF_JEQ, unix.AF_UNIX, 1, 2),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
		answer(unix.SECCOMP_RET_ALLOW),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)),
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("use seccomp: %w", errno)
	}
	return nil
}
