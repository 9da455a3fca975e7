package supervise

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cellharness/shared"
)

// What a process started for a probe does.
const (
	probeEscape   = "escape"   // leaves a sleeper in a new session behind, and exits
	probeSleep    = "sleep"    // ignores every polite signal and sleeps
	probeFlood    = "flood"    // writes without end
	probeAllocate = "allocate" // uses memory, and sleeps
	probeThreads  = "threads"  // starts threads
	probeChildren = "children" // starts processes, and sleeps
	probeSpin     = "spin"     // spins on two cores
	probeFill     = "fill"     // writes a file, and sleeps
	probeGrow     = "grow"     // writes a file
	probeRaise    = "raise"    // tries to raise its limit first
	probeOutside  = "outside"  // changes a file outside, and a property of one
	probeWrite    = "write"    // changes a file outside
	probeReach    = "reach"    // connects to each address
)

const (
	// probeSleepFor bounds a probe's sleeper, should anything fail to end it.
	probeSleepFor = time.Minute
	// probeSpinFor is three periods of a control group.
	probeSpinFor = 3 * cpuPeriod * time.Microsecond
	probeMemory  = 64 << 20
	probeTasks   = 32 // more than an idle Go program has threads
	probeSize    = 1 << 20
	probeCores   = 0.1
	probeVictim  = "outside"
	probeFile    = "file" // what is written in the directory of the command
)

// attackOn returns what is tried to find out whether h holds d.
func attackOn(d shared.Dimension, h held) attack {
	a := attack{timeout: probeSleepFor, held: exceeds(d)} // Probe ends it long before
	switch d {
	case shared.DimensionWallTime:
		a.does, a.timeout, a.held = []string{probeSleep}, 50*time.Millisecond, timesOut
	case shared.DimensionOutput:
		a.does, a.limits.OutputBytes = []string{probeFlood}, probeSize
	case shared.DimensionProcessCleanup:
		a.does, a.held = []string{probeEscape}, leavesOne
	case shared.DimensionMemory:
		a.does, a.limits.MemoryBytes = []string{probeAllocate}, probeMemory
	case shared.DimensionProcesses:
		// Go gives up with 2 when it gets no thread.
		a.does, a.limits.Processes, a.held = []string{probeThreads}, probeTasks, exits(2, "threads beyond the limit were made")
		if h.by == bySampling {
			a.does, a.limits.Processes, a.held = []string{probeChildren}, 2, exceeds(d)
		}
	case shared.DimensionCPU:
		a.does, a.limits.CPU, a.held = []string{probeSpin}, probeCores, usesLittle
	case shared.DimensionDisk:
		a.does, a.limits.DiskBytes = []string{probeFill}, probeSize
	case shared.DimensionFileSize:
		a.does, a.limits.FileBytes, a.held = []string{probeGrow}, probeSize, growsTo(probeSize)
		if h.Level == shared.LevelEnforced {
			a.does = append(a.does, probeRaise)
		}
	case shared.DimensionFilesystem:
		a.does, a.limits.WorkspaceOnly, a.targets = []string{probeOutside}, true, outside
		if h.Level < shared.LevelEnforced {
			a.does = []string{probeWrite}
		}
		a.held = leavesOutside
	case shared.DimensionNetwork:
		a.does, a.limits.NoNetwork, a.targets = []string{probeReach}, true, listeners
		a.held = exits(0, "a socket outside was reached")
	}
	return a
}

func timesOut(r shared.Result, _ string) string {
	if r.Status != shared.StatusTimedOut {
		return fmt.Sprintf("a sleeper ended as %s", r.Status)
	}
	return ""
}

func leavesOne(r shared.Result, _ string) string {
	for _, n := range r.Notices {
		if n.Kind == shared.NoticeSurvivorsKilled && n.Count == 1 {
			return ""
		}
	}
	return fmt.Sprintf("a process in a session of its own was not found (%s)", r.Status)
}

func usesLittle(r shared.Result, _ string) string {
	// Half of what one core would have given; the start of the process is in it.
	if r.ExitCode == nil || *r.ExitCode != 0 || r.CPU > probeSpinFor/2 {
		return fmt.Sprintf("two threads that spun used %s of cpu time within %s", r.CPU, r.Wall)
	}
	return ""
}

func growsTo(size int64) func(shared.Result, string) string {
	return func(_ shared.Result, dir string) string {
		info, err := os.Stat(filepath.Join(dir, probeFile))
		if err != nil {
			return err.Error()
		}
		if info.Size() != size {
			return fmt.Sprintf("a file grew to %d bytes, the limit was %d", info.Size(), size)
		}
		return ""
	}
}

// outside makes a file beside the directory of the command.
func outside(dir string) (args []string, remove func(), err error) {
	path := filepath.Join(dir, probeVictim)
	return []string{path}, func() {}, os.WriteFile(path, nil, 0o600)
}

func leavesOutside(r shared.Result, dir string) string {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(dir), probeVictim))
	if err != nil {
		return err.Error()
	}
	if len(data) > 0 {
		return "a file outside was written"
	}
	return exits(0, "times of a file outside were set")(r, dir)
}

// listeners opens a socket of each kind on this side.
func listeners(string) (args []string, remove func(), err error) {
	var open []interface{ Close() error }
	remove = func() {
		for _, l := range open {
			_ = l.Close() // only read from
		}
	}
	for _, kind := range []struct{ network, address string }{
		{"tcp", "127.0.0.1:0"}, {"unix", fmt.Sprintf("@harness-probe-%d-%d", os.Getpid(), time.Now().UnixNano())},
	} {
		l, err := net.Listen(kind.network, kind.address)
		if err != nil {
			remove()
			return nil, nil, fmt.Errorf("listen for a probe: %w", err)
		}
		open = append(open, l)
		args = append(args, kind.network, l.Addr().String())
	}
	return args, remove, nil
}

// probeMain is the attacking side of Probe.
func probeMain(args []string) int {
	code, err := probeAttack(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func probeAttack(args []string) (code int, err error) {
	if len(args) == 0 {
		args = []string{""}
	}
	switch args[0] {
	case probeEscape:
		return 0, spawnSleepers(1)
	case probeSleep:
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		time.Sleep(probeSleepFor)
		return 0, nil
	case probeFlood:
		return 0, flood()
	case probeAllocate:
		memory := make([]byte, probeMemory+probeMemory/10)
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = 1
		}
		time.Sleep(probeSleepFor)
		return int(memory[0]), nil
	case probeThreads:
		startThreads(2 * probeTasks)
		return 0, nil
	case probeChildren:
		err := spawnSleepers(2)
		time.Sleep(probeSleepFor)
		return 0, err
	case probeSpin:
		spin(probeSpinFor)
		return 0, nil
	case probeFill:
		err := grow(3 * probeSize)
		time.Sleep(probeSleepFor)
		return 0, err
	case probeGrow:
		if len(args) > 1 {
			// Refused where the limit is enforced.
			_ = unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
		}
		return 0, grow(2 * probeSize)
	case probeOutside, probeWrite:
		return changeOutside(args[1], args[0] == probeOutside), nil
	case probeReach:
		return reach(args[1:]), nil
	}
	return 2, fmt.Errorf("this is a check that an adapter makes of itself; harness starts it")
}

// spawnSleepers starts sleepers in sessions of their own. They do not hold the output, which would only cost time.
func spawnSleepers(n int) error {
	for range n {
		_, err := syscall.ForkExec("/proc/self/exe", []string{os.Args[0], probeArgument, probeSleep},
			&syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 0, 0}, Sys: &syscall.SysProcAttr{Setsid: true}})
		if err != nil {
			return fmt.Errorf("start a process: %w", err)
		}
	}
	return nil
}

func flood() error {
	block := make([]byte, 64<<10)
	for {
		if _, err := os.Stdout.Write(block); err != nil {
			return err
		}
	}
}

// startThreads returns when n threads have run at the same time.
func startThreads(n int) {
	started, release := make(chan struct{}), make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread()
			started <- struct{}{}
			<-release
		}()
	}
	for range n {
		<-started
	}
	close(release)
}

func spin(d time.Duration) {
	end := time.Now().Add(d)
	done := make(chan struct{})
	for range 2 {
		go func() {
			for time.Now().Before(end) {
			}
			done <- struct{}{}
		}()
	}
	<-done
	<-done
}

// grow writes a file of size bytes, which needs room as well.
func grow(size int) error {
	signal.Ignore(syscall.SIGXFSZ)
	f, err := os.Create(probeFile)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for i := range block {
		block[i] = byte(i)
	}
	for ; size > 0; size -= len(block) {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return f.Sync()
}

// changeOutside tries to write to a file, which may be another one of that name here, and when that is wanted to set the
// times of this program's own to what they are. It returns 1 when that passed.
func changeOutside(path string, properties bool) int {
	_ = os.WriteFile(path, []byte("changed"), 0o600) // the other side looks
	if !properties {
		return 0
	}
	info, err := os.Stat("/proc/self/exe")
	if err == nil && os.Chtimes("/proc/self/exe", time.Time{}, info.ModTime()) == nil {
		return 1
	}
	return 0
}

// reach connects to pairs of network and address, and returns how many could be.
func reach(pairs []string) int {
	passed := 0
	for i := 0; i+1 < len(pairs); i += 2 {
		if conn, err := net.DialTimeout(pairs[i], pairs[i+1], time.Second); err == nil {
			passed++
			_ = conn.Close() // nothing was sent
		}
	}
	return passed
}
