package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"cellharness/shared"
)

// A box is a set of namespaces that a supervisor runs in, with its command: the supervisor is process 1 in it, so that
// nothing in it can kill the supervisor and nothing survives it. It is entered through a process of its own, since a
// process that hides its memory, as an adapter does, may not give a child a user namespace.

// boxNetwork is the argument of boxArgument that asks for a network namespace too.
const boxNetwork = "network"

// boxMain starts the supervisor in its namespaces, with the descriptors that were meant for it, and waits for it.
func boxMain(args []string) int {
	// The signal that ends the supervisor with this process belongs to this thread.
	runtime.LockOSThread()
	files := openFDs()
	attr, err := boxAttributes(slices.Contains(args, boxNetwork))
	if err != nil {
		return refuseBox(err)
	}
	// By its path: /proc/self/exe would carry the mount that it was executed from, which stays writable, into the box.
	self, err := os.Executable()
	if err != nil {
		return refuseBox(fmt.Errorf("find this program: %w", err))
	}
	pid, err := syscall.ForkExec(self, []string{os.Args[0], supervisorArgument, boxArgument},
		&syscall.ProcAttr{Env: runtimeSettings(), Files: files, Dir: "/", Sys: attr})
	if err != nil {
		return refuseBox(fmt.Errorf("make namespaces for the command: %w", err))
	}
	// The pipes have to end with the supervisor.
	for _, fd := range files[3:] {
		_ = unix.Close(int(fd))
	}
	var status unix.WaitStatus
	for {
		_, err = unix.Wait4(pid, &status, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil || status.Signaled() {
		return 1
	}
	return status.ExitStatus()
}

// openFDs returns the numbers of the descriptors from 0 on that were handed to this process, without a gap.
func openFDs() []uintptr {
	fds := []uintptr{0, 1, 2}
	for fd := 3; ; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 { // those of this process itself
			return fds
		}
		fds = append(fds, uintptr(fd))
	}
}

func refuseBox(err error) int {
	out := json.NewEncoder(os.NewFile(statusFD, "status"))
	if out.Encode(report{Kind: reportRefused, Message: err.Error(), Unheld: true}) != nil {
		return 1 // nobody listens
	}
	return 0
}

func boxAttributes(network bool) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	if network {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		var err error
		if attr.UidMappings, err = sameIDs("/proc/self/uid_map"); err != nil {
			return nil, err
		}
		if attr.GidMappings, err = sameIDs("/proc/self/gid_map"); err != nil {
			return nil, err
		}
		attr.GidMappingsEnableSetgroups = true
		return attr, nil
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	// Rights that an ordinary user loses with exec, unless they are ambient. The command does not get them.
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
	return attr, nil
}

// sameIDs maps every id that exists here to itself.
func sameIDs(path string) ([]syscall.SysProcIDMap, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read which ids exist: %w", err)
	}
	var ids []syscall.SysProcIDMap
	for line := range bytes.Lines(data) {
		fields := bytes.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("read which ids exist: unexpected line %q", line)
		}
		first, err := strconv.Atoi(string(fields[0]))
		size, sizeErr := strconv.Atoi(string(fields[2]))
		if err := errors.Join(err, sizeErr); err != nil {
			return nil, fmt.Errorf("read which ids exist: %w", err)
		}
		ids = append(ids, syscall.SysProcIDMap{ContainerID: first, HostID: first, Size: size})
	}
	return ids, nil
}

// furnish makes the inside of the box, from its supervisor, before the command starts.
func (o order) furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	steps := []func() error{o.closeFilesystem, closeKernel, o.hideSockets, o.raiseLoopback}
	if o.Held[shared.DimensionFilesystem] != byBox {
		steps[0] = closeGroups
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// closeGroups makes control groups read-only wherever they are mounted, so that the command stays in its own.
func closeGroups() error {
	all, err := mounts()
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.kind == "cgroup" || m.kind == "cgroup2" {
			if err := restrict(m.point, unix.MOUNT_ATTR_RDONLY); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
	}
	return nil
}

// closeKernel mounts a /proc that shows the box alone, and takes away what changes the whole machine there and in /sys.
func closeKernel() error {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, name := range []string{"sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr"} {
		path := filepath.Join("/proc", name)
		tree, err := cloneTree(path)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err == nil {
			err = errors.Join(tree.put(path), restrict(path, unix.MOUNT_ATTR_RDONLY))
		}
		if err != nil {
			return err
		}
	}
	return restrict("/sys", unix.MOUNT_ATTR_RDONLY)
}

// closeFilesystem makes everything read-only but the workspace, the directories asked for and a temporary directory.
func (o order) closeFilesystem() error {
	writable := append(toStrings(o.Writable), string(o.Dir))
	show, err := cloneTrees(writable...)
	if err != nil {
		return err
	}
	temp, err := cloneTrees(string(o.Temp), string(o.Temp))
	if err != nil {
		return err
	}
	devices, err := cloneTrees(devicePaths()...)
	if err != nil {
		return err
	}
	if err := restrict("/", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV); err != nil {
		return err
	}
	visible, err := cloneTrees(toStrings(o.Visible)...) // read-only by now
	if err != nil {
		return err
	}
	for i, path := range []string{boxTemp, "/var/tmp"} {
		if err := temp[i].put(path); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	if err := putDevices(devices); err != nil {
		return err
	}
	show = append(visible, show...)
	slices.SortStableFunc(show, func(a, b tree) int { return len(a.path) - len(b.path) }) // one inside another comes after it
	for _, t := range show {
		if err := os.MkdirAll(t.path, 0o755); err != nil { // the temporary directory may cover it
			return fmt.Errorf("make the mount point %s: %w", t.path, err)
		}
		if err := t.put(t.path); err != nil {
			return err
		}
	}
	return nil
}

// devicePaths are the devices that are no way out of the box.
func devicePaths() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
}

// putDevices makes a /dev of its own: a device of this machine may be a way around every mount.
func putDevices(devices []tree) error {
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC
	if err := unix.Mount("dev", "/dev", "tmpfs", flags, "mode=755,size=64k"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for _, d := range devices {
		if err := os.WriteFile(d.path, nil, 0o600); err != nil {
			return fmt.Errorf("make /dev: %w", err)
		}
		if err := d.put(d.path); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, filepath.Join("/dev", name)); err != nil {
			return fmt.Errorf("make /dev: %w", err)
		}
	}
	for _, m := range []struct{ name, kind, data string }{
		{"pts", "devpts", "newinstance,ptmxmode=0666,mode=620"}, {"shm", "tmpfs", "mode=1777"},
	} {
		path := filepath.Join("/dev", m.name)
		if err := os.Mkdir(path, 0o755); err != nil {
			return fmt.Errorf("make /dev: %w", err)
		}
		if err := unix.Mount(m.name, path, m.kind, flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
	}
	return nil
}

// hideSockets puts /dev/null over each Unix socket, so that whoever listens there cannot be asked for anything.
func (o order) hideSockets() error {
	for _, path := range toStrings(o.Sockets) {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
			continue // not in sight of the command either, which sees the same as this process
		}
		t, err := cloneTree(os.DevNull)
		if err != nil {
			return err
		}
		if err := t.put(path); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

// raiseLoopback makes the loopback interface of a new network namespace work.
func (o order) raiseLoopback() error {
	if o.Held[shared.DimensionNetwork] != byBox {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("set up the loopback interface: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err == nil {
		request.SetUint16(unix.IFF_UP)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
	}
	if err != nil {
		return fmt.Errorf("set up the loopback interface: %w", err)
	}
	return nil
}

// tree is a copy of the mounts at and below a path that is not attached anywhere yet. It keeps the properties of its
// origin whatever happens to the origin later.
type tree struct {
	path string
	fd   int
}

func cloneTree(path string) (tree, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, fmt.Errorf("take the mount of %s: %w", path, err)
	}
	return tree{path, fd}, nil
}

// cloneTrees leaves descriptors open when it fails, since the process then ends.
func cloneTrees(paths ...string) ([]tree, error) {
	trees := make([]tree, len(paths))
	for i, path := range paths {
		var err error
		if trees[i], err = cloneTree(path); err != nil {
			return nil, err
		}
	}
	return trees, nil
}

// put attaches the tree at a path.
func (t tree) put(path string) error {
	defer unix.Close(t.fd)
	if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return nil
}

// restrict adds attributes to the mount at path and to all below it.
func restrict(path string, attributes uint64) error {
	err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
	if err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}
