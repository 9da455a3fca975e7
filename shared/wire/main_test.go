package wire

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cellharness/shared"
	"cellharness/shared/worktreepb"
)

// adapterEnv makes the test binary an adapter process; its value says what is special about it.
const adapterEnv = "WIRE_TEST_ADAPTER"

// markEnv names a file to which the adapter process appends what happened to it.
const markEnv = "WIRE_TEST_MARK"

func TestMain(m *testing.M) {
	if mode, ok := os.LookupEnv(adapterEnv); ok {
		os.Exit(serveStub(mode))
	}
	goleak.VerifyTestMain(m)
}

// serveStub is the main function of the adapter process.
func serveStub(mode string) int {
	log := NewLogger("stub")
	cfg := ServeConfig{Name: "stub", Logger: log, Adapter: &stub{
		negotiate: describeProcess, teardown: shoutOnStdout, drain: markDrain,
	}}
	cfg.OnHostGone = func() {
		mark("host gone")
		if mode == "slow end" {
			time.Sleep(time.Hour)
		}
	}
	if mode == "worktree" {
		cfg.Worktree = worktreeStub{}
	}
	return Serve(cfg)
}

func mark(what string) {
	f, err := os.OpenFile(os.Getenv(markEnv), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	if _, err := f.WriteString(what + "\n"); err != nil {
		panic(err)
	}
	if err := f.Close(); err != nil {
		panic(err)
	}
}

func markDrain(_ context.Context, within time.Duration) (shared.DrainReport, error) {
	mark("drain " + within.String())
	return shared.DrainReport{}, nil
}

// processState is what an adapter process sees of itself, and what a child of it sees.
type processState struct {
	Lifeline string // LifelineEnv
	Child    string // output of childProbe
	Stdout   string // what fd 1 is
}

// childProbe prints what a child inherits.
const childProbe = `umask; ulimit -c; grep -E '^Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd | tr '\n' ' '`

// describeProcess puts the state of the process where a test can read it.
func describeProcess(ctx context.Context, _ shared.HostInfo) (shared.Description, error) {
	child, err := exec.CommandContext(ctx, "sh", "-c", childProbe).Output()
	if err != nil {
		return shared.Description{}, err
	}
	stdout, err := os.Readlink("/proc/self/fd/1")
	if err != nil {
		return shared.Description{}, err
	}
	state, err := json.Marshal(processState{Lifeline: os.Getenv(LifelineEnv), Child: string(child), Stdout: stdout})
	return shared.Description{Name: "stub", Fits: true, Build: shared.Build(), Reason: string(state)}, err
}

// shoutOnStdout writes more to fd 1 than a pipe holds, by every way there is.
func shoutOnStdout(ctx context.Context, _ shared.Handle) (shared.TeardownReport, error) {
	noise := make([]byte, 1<<20)
	raw := os.NewFile(1, "fd 1")
	if _, err := raw.Write(noise); err != nil {
		return shared.TeardownReport{}, err
	}
	cmd := exec.CommandContext(ctx, "head", "-c", "1048576", "/dev/zero")
	cmd.Stdout = raw
	return shared.TeardownReport{}, cmd.Run()
}

type worktreeStub struct {
	worktreepb.UnimplementedWorktreeServer
}

// Discard fails with an error of the contract, as the handlers of a service do.
func (worktreeStub) Discard(context.Context, *worktreepb.DiscardRequest) (*worktreepb.DiscardResponse, error) {
	return nil, &shared.Error{Code: shared.CodePrecondition, Message: "it would lose work"}
}

func (worktreeStub) Get(context.Context, *worktreepb.GetRequest) (*worktreepb.GetResponse, error) {
	return &worktreepb.GetResponse{Session: &worktreepb.Session{Id: "one"}}, nil
}
