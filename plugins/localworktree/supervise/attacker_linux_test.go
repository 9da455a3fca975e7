package supervise

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// attackerMain is the hostile side of the tests of limits.
func attackerMain(args []string) (code int, ok bool) {
	switch args[0] {
	case "files":
		printPassed(fileAttacks(args[1], args[2]))
	case "escape":
		printPassed(escapeAttacks(args[1], args[2]))
	case "remount": // started by escape in namespaces of its own
		return remountAttack(args[1]), true
	case "connect":
		printPassed(networkAttacks(args[1:]))
	case "fork":
		return forkAttack(args[1]), true
	case "regroup":
		return regroupAttack(args[1]), true
	case "regrouped": // started by regroup in namespaces of its own
		return regroupedAttack(args[1]), true
	case "spin":
		spin(time.Second)
	default:
		return 0, false
	}
	return 0, true
}

type attempts map[string]func() error

// printPassed tries everything and prints the names of what was not refused.
func printPassed(list attempts) {
	var names []string
	for name := range list {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := list[name](); err == nil {
			fmt.Println(name)
		} else {
			fmt.Fprintln(os.Stderr, name+":", err)
		}
	}
}

// victimFiles are what fileAttacks need in the directory of their victim.
func victimFiles() []string {
	return []string{"write", "truncate", "chmod", "chtimes", "setxattr", "rename", "take", "link", "unlink"}
}

// fileAttacks change a directory outside of the workspace, each a file of its own.
func fileAttacks(victim, workspace string) attempts {
	in := func(name string) string { return filepath.Join(victim, name) }
	return attempts{
		"create":   func() error { return os.WriteFile(in("created"), nil, 0o600) },
		"write":    func() error { return os.WriteFile(in("write"), []byte("changed"), 0o600) },
		"truncate": func() error { return os.Truncate(in("truncate"), 1) },
		"chmod":    func() error { return os.Chmod(in("chmod"), 0o640) },
		"chtimes":  func() error { return os.Chtimes(in("chtimes"), time.Unix(1, 0), time.Unix(1, 0)) },
		"setxattr": func() error { return unix.Setxattr(in("setxattr"), "user.harness", []byte("1"), 0) },
		"rename":   func() error { return os.Rename(in("rename"), in("renamed")) },
		"take":     func() error { return os.Rename(in("take"), filepath.Join(workspace, "taken")) },
		"link":     func() error { return os.Link(in("link"), in("linked")) },
		"unlink":   func() error { return os.Remove(in("unlink")) },
		"mkdir":    func() error { return os.Mkdir(in("made"), 0o700) },
		"symlink":  func() error { return os.Symlink("x", in("pointer")) },
		"fifo":     func() error { return unix.Mkfifo(in("fifo"), 0o600) },
	}
}

// escapeAttacks try to undo the isolation.
func escapeAttacks(victim, workspace string) attempts {
	create := func(path string) func() error {
		return func() error { return os.WriteFile(path, nil, 0o600) }
	}
	writeOnly := func(path string) func() error {
		return func() error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				err = f.Close()
			}
			return err
		}
	}
	list := attempts{
		"remount":                func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"unmount":                func() error { return unix.Unmount("/proc/sys", unix.MNT_DETACH) },
		"root of the supervisor": create("/proc/" + strconv.Itoa(os.Getppid()) + "/root" + victim + "/through-root"),
		"memory of the supervisor": func() error {
			_, err := os.ReadFile("/proc/" + strconv.Itoa(os.Getppid()) + "/environ")
			return err
		},
		"kernel setting": writeOnly("/proc/sys/kernel/core_pattern"),
		"kernel event":   writeOnly("/sys/kernel/uevent_seqnum"),
		"device file": func() error {
			path := filepath.Join(workspace, "device")
			if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 7))); err != nil {
				return err
			}
			return writeOnly(path)()
		},
		"namespaces of its own": func() error { return remountElsewhere(victim) },
		"file size": func() error {
			var now unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &now); err != nil {
				return err
			}
			if now.Max == unix.RLIM_INFINITY {
				return errors.New("there is no limit")
			}
			return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
		},
		"supervisor": func() error {
			parent := os.Getppid()
			if err := unix.Kill(parent, unix.SIGKILL); err != nil {
				return err
			}
			time.Sleep(50 * time.Millisecond)
			if os.Getppid() == parent {
				return errors.New("it lives")
			}
			return nil
		},
	}
	blocks, _ := filepath.Glob("/dev/vd*")
	for _, path := range blocks {
		list["device "+path] = writeOnly(path)
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	for _, path := range append(groups, "/sys/fs/cgroup/cgroup.procs") {
		list["group "+path] = writeOnly(path)
	}
	return list
}

// nowhere is the victim where only the control groups are out of reach.
const nowhere = "/nowhere"

// remountElsewhere tries from namespaces in which it has every right.
func remountElsewhere(victim string) error { return almighty("remount", victim) }

// almighty runs an attack in namespaces in which it has every right.
func almighty(args ...string) error {
	id := func(n int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: n, Size: 1}}
	}
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{os.Args[0], helperArgument}, args...), &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP,
			UidMappings: id(os.Getuid()), GidMappings: id(os.Getgid()),
		},
	})
	if err != nil {
		return err
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	if status.ExitStatus() != 0 {
		return errors.New("refused")
	}
	return nil
}

func remountAttack(victim string) int {
	paths := []string{"/sys", "/proc/sys"}
	if victim != nowhere {
		paths = append(paths, "/", victim)
	}
	for _, path := range paths {
		if unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND, "") == nil ||
			unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}) == nil {
			return 0
		}
	}
	if os.WriteFile(filepath.Join(victim, "remounted"), nil, 0o600) == nil {
		return 0
	}
	return 1
}

// regroupAttack raises the limit of memory through a control group file system of its own, and then uses more.
func regroupAttack(size string) int {
	if err := almighty("regrouped", size); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	time.Sleep(time.Minute)
	return 0
}

func regroupedAttack(size string) int {
	dir, err := os.MkdirTemp("", "group-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(unix.Mount("memory", dir, "cgroup", 0, "memory") == nil)
	for _, file := range []string{"memory.memsw.limit_in_bytes", "memory.limit_in_bytes"} {
		fmt.Println(file, set(dir, file, "-1") == nil)
	}
	fmt.Println(set(dir, "cgroup.procs", strconv.Itoa(os.Getpid())) == nil)
	return helperAllocate(size)
}

// networkAttacks connect to each "name=network=address".
func networkAttacks(targets []string) attempts {
	list := attempts{}
	for _, target := range targets {
		name, rest, _ := strings.Cut(target, "=")
		network, address, _ := strings.Cut(rest, "=")
		list[name] = func() error {
			dialer := net.Dialer{Timeout: 2 * time.Second}
			dialer.SetMultipathTCP(name == "mptcp")
			conn, err := dialer.Dial(network, address)
			if err != nil {
				return err
			}
			defer conn.Close()
			if network != "udp" {
				return nil
			}
			// The answer that nobody listens comes with the next call.
			_, err = conn.Write([]byte("x"))
			time.Sleep(50 * time.Millisecond)
			_, again := conn.Write([]byte("x"))
			return errors.Join(err, again)
		}
	}
	list["own loopback"] = func() error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		return conn.Close()
	}
	return list
}

// forkAttack starts as many processes as it can, up to n, and prints how many.
func forkAttack(n string) int {
	want, err := strconv.Atoi(n)
	if err != nil {
		return 2
	}
	var started int
	for range want {
		_, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "300"}, &syscall.ProcAttr{Files: []uintptr{0, 0, 0}, Sys: &syscall.SysProcAttr{Setsid: true}})
		if err != nil {
			break
		}
		started++
	}
	fmt.Println(started)
	time.Sleep(time.Second) // a look of the sampler
	return 0
}
