package pluginhost

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cellharness/shared"
	"cellharness/shared/adaptertest"
	"cellharness/shared/wire"
)

// Names under which the test binary is something else than the tests.
const (
	adapterBinary = "adapterprogram"
	hostBinary    = "hostprogram"
)

// behaviourFile lies beside the adapter program and says what it does, one word and its argument a line.
const behaviourFile = "behaviour"

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case adapterBinary:
		os.Exit(adapterMain())
	case hostBinary:
		os.Exit(hostMain())
	case adaptertest.FakeBinary:
		os.Exit(adaptertest.FakeMain())
	}
	code := m.Run()
	if left := livingChildren(); code == 0 && len(left) > 0 {
		fmt.Fprintln(os.Stderr, "child processes are left:", left)
		code = 1
	}
	os.Exit(code)
}

func testKind() shared.Kind { return shared.Kind{Name: "test_adapter", Binary: adapterBinary} }

// adapterMain is an adapter that misbehaves on request, before its handshake and in its calls.
func adapterMain() int {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(os.Args[0]), behaviourFile))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	a := &testAdapter{name: testKind().Name, version: shared.Version, services: []string{shared.ServiceAdapter}, fits: true}
	for line := range strings.Lines(string(text)) {
		word, argument, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if code, ends := a.behave(word, argument); ends {
			return code
		}
	}
	return wire.Serve(wire.ServeConfig{Name: a.name, Adapter: a, Logger: wire.NewLogger(a.name)})
}

func (a *testAdapter) behave(word, argument string) (code int, ends bool) {
	unquoted, err := strconv.Unquote(argument)
	if err != nil {
		unquoted = argument
	}
	switch word {
	case "stdout":
		fmt.Fprint(os.Stdout, unquoted)
	case "stderr":
		fmt.Fprint(os.Stderr, unquoted)
	case "longline":
		n, _ := strconv.Atoi(argument)
		fmt.Fprintln(os.Stderr, strings.Repeat("z", n))
	case "sleep":
		d, _ := time.ParseDuration(argument)
		time.Sleep(d)
	case "closestdout":
		_ = os.Stdout.Close()
	case "exit":
		n, _ := strconv.Atoi(argument)
		return n, true
	case "exitonce": // the first time only
		mark := filepath.Join(filepath.Dir(os.Args[0]), "was here")
		if _, err := os.Stat(mark); err == nil {
			return 0, false
		}
		_ = os.WriteFile(mark, nil, 0o600)
		n, _ := strconv.Atoi(argument)
		return n, true
	case "panic":
		panic(argument)
	case "signal":
		n, _ := strconv.Atoi(argument)
		_ = syscall.Kill(os.Getpid(), syscall.Signal(n))
		time.Sleep(time.Minute)
	case "name":
		a.name = argument
	case "version":
		a.version = argument
	case "services":
		a.services = strings.Fields(argument)
	case "unfit":
		a.fits, a.reason = false, argument
	case "refuse":
		a.refuse = argument
	case "stopin":
		a.stopIn = argument
	case "leak":
		a.leaked, _ = strconv.ParseInt(argument, 10, 64)
	}
	return 0, false
}

// testAdapter answers with little; RunCell does what the command says.
type testAdapter struct {
	name, version, reason, refuse, stopIn string
	services                              []string
	fits                                  bool
	leaked                                int64
}

func (a *testAdapter) Negotiate(context.Context, shared.HostInfo) (shared.Description, error) {
	a.reach("negotiate")
	return shared.Description{
		Name: a.name, Version: a.version, Services: a.services, HandleVersion: 1, Fits: a.fits, Reason: a.reason,
		Capabilities: a.capabilities(),
	}, nil
}

func (a *testAdapter) capabilities() shared.Capabilities {
	return shared.Capabilities{
		Provisions: true, ColdStart: shared.ColdStartSub100ms, Transfer: shared.TransferMount,
		Limits: map[shared.Dimension]shared.Support{shared.DimensionWallTime: {Level: shared.LevelEnforced, Mechanism: "test"}},
	}
}

// reach stops the process where the behaviour says so.
func (a *testAdapter) reach(where string) {
	if a.stopIn == where {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Minute) // the signal may take a moment
	}
}

func (a *testAdapter) Configure(_ context.Context, cfg shared.Configuration) (shared.Configured, error) {
	a.reach("configure")
	for name, secret := range cfg.Secrets {
		_, _ = syscall.Write(2, []byte("secret "+name+" is "+secret.Reveal()+" here\n"))
	}
	if a.refuse != "" {
		return shared.Configured{}, &shared.Error{
			Code: shared.CodeInvalid, Message: "the settings are wrong", Violations: []shared.Violation{{Field: a.refuse, Message: "is bad"}},
		}
	}
	return shared.Configured{Capabilities: a.capabilities()}, nil
}

func (a *testAdapter) Provision(ctx context.Context, spec shared.ProvisionSpec) (shared.Provisioned, error) {
	a.reach("provision")
	if spec.Ref == "block" {
		<-ctx.Done()
		time.Sleep(time.Minute)
	}
	return shared.Provisioned{BaseSHA: "0", Handle: shared.Handle{
		Adapter: a.name, Instance: spec.Labels.Instance, Version: 1, Lease: spec.Lease, Resource: strconv.Itoa(os.Getpid()), Root: "/",
	}}, nil
}

func (a *testAdapter) RunCell(ctx context.Context, _ shared.Handle, cell shared.Cell, _ shared.EventSink) (shared.Result, error) {
	say := func(text string) { _, _ = syscall.Write(2, []byte(text)) }
	switch word := cell.Argv[0]; word {
	case "ok":
	case "fail":
		return shared.Result{}, &shared.Error{Code: shared.CodeUnavailable, Cause: shared.CauseRemote, Message: "the far side is away"}
	case "say":
		say(cell.Argv[1])
	case "exit":
		n, _ := strconv.Atoi(cell.Argv[1])
		say("last words\n")
		os.Exit(n)
	case "kill":
		say("one\ntwo\n")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Minute)
	case "panic":
		go panic("lost my mind")
		time.Sleep(time.Minute)
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Minute)
	case "orphan": // a process that holds stdout and stderr of the adapter, in a session of its own
		cmd := exec.Command("/bin/sh", "-c", "exec sleep 60")
		cmd.Stdout, cmd.Stderr = os.NewFile(2, "stderr"), os.NewFile(2, "stderr")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return shared.Result{}, err
		}
		_ = os.WriteFile(cell.Argv[1], []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
	case "block":
		<-ctx.Done()
		return shared.Result{}, ctx.Err()
	default:
		return shared.Result{}, fmt.Errorf("unknown command %q", word)
	}
	zero := int64(0)
	return shared.Result{Status: shared.StatusCompleted, ExitCode: &zero, Started: time.Now()}, nil
}

func (a *testAdapter) Collect(context.Context, shared.Handle, shared.CollectSpec, shared.ArtifactSink) (shared.Collection, error) {
	return shared.Collection{}, nil
}

func (a *testAdapter) Teardown(context.Context, shared.Handle) (shared.TeardownReport, error) {
	a.reach("teardown")
	return shared.TeardownReport{}, nil
}

func (a *testAdapter) Find(context.Context, shared.Labels) ([]shared.Found, error) {
	a.reach("find")
	return nil, nil
}

func (a *testAdapter) Drain(context.Context, time.Duration) (shared.DrainReport, error) {
	a.reach("drain")
	return shared.DrainReport{Leaked: a.leaked}, nil
}

// hostMain is a harness: it starts one adapter, says the adapter's pid, and waits to be killed.
func hostMain() int {
	h, err := New(Config{
		Kinds: []shared.Kind{testKind()}, Dir: os.Args[1], Environ: os.Environ(), Host: shared.HostInfo{Version: shared.Version},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	p, err := h.Start(context.Background(), Instance{Name: "a", Kind: testKind().Name})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(p.child.pid(), h.socketDir)
	time.Sleep(time.Minute)
	return 1
}

// program makes a folder with the adapter program and its behaviour.
func program(t *testing.T, behaviour ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, adapterBinary)); err != nil {
		t.Fatal(err)
	}
	behave(t, dir, behaviour...)
	return dir
}

// writeScript writes a program. A process that is forked meanwhile inherits the file open for writing, and until its
// exec nobody can start the program (text file busy); so no fork is let happen.
func writeScript(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func behave(t *testing.T, dir string, behaviour ...string) {
	t.Helper()
	text := strings.Join(behaviour, "\n")
	if err := os.WriteFile(filepath.Join(dir, behaviourFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newTestHost makes a host over the programs in dir, which t stops.
func newTestHost(t *testing.T, dir string, change func(*Config)) *Host {
	t.Helper()
	cfg := Config{
		Kinds: []shared.Kind{testKind()}, Dir: dir, LogDir: filepath.Join(t.TempDir(), "adapters"),
		Host:    shared.HostInfo{Version: shared.Version},
		Environ: os.Environ(), RuntimeDirs: []string{"/tmp"},
	}
	if change != nil {
		change(&cfg)
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Kill)
	return h
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, h *Host, name string) *Process {
	t.Helper()
	p, err := h.Start(testContext(t), Instance{Name: name, Kind: testKind().Name})
	if err != nil {
		t.Fatalf("Start(%s): %v", name, err)
	}
	return p
}

// run runs a command of the test adapter.
func run(t *testing.T, p *Process, argv ...string) error {
	t.Helper()
	_, err := p.RunCell(testContext(t), testHandle(), testCell(argv...), func(shared.Event) error { return nil })
	return err
}

func testHandle() shared.Handle {
	return shared.Handle{Adapter: testKind().Name, Instance: "a", Version: 1, Lease: "L", Resource: "r", Root: "/"}
}

func testCell(argv ...string) shared.Cell {
	return shared.Cell{
		Address: "a", Phase: shared.PhaseCell, Kind: shared.ExecCell, Argv: argv, Timeout: time.Minute,
		SeedAs: shared.SeedUncommitted, Limits: shared.Limits{Require: shared.LevelNone},
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, within time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, within)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// gone tells whether a process has ended; a zombie has.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

// livingChildren lists the children of this process that have not ended.
func livingChildren() []int {
	var living []int
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, f := range files {
		text, _ := os.ReadFile(f)
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && !gone(pid) {
				living = append(living, pid)
			}
		}
	}
	return living
}
