package wire

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"cellharness/shared"
	"cellharness/shared/worktreepb"
)

// LifelineEnv names the variable that holds the number of a file descriptor: the read end of a pipe whose write end only
// the host has. End of file there means that the host is gone, however it went.
const LifelineEnv = "HARNESS_LIFELINE"

// Exit codes of an adapter process.
const (
	exitOK       = 0
	exitFailed   = 1
	exitByHand   = 2
	exitHostGone = 3
)

const (
	// drainTime is what running commands get after SIGTERM. The host's own bound for a drain is the same.
	drainTime = 10 * time.Second
	// drainReserve is the time that the adapter gets on top, to end and report what is left.
	drainReserve = 5 * time.Second
	// hostGoneTime bounds the last work after the host has died: within 2 s nothing of it may live.
	hostGoneTime = time.Second
)

// privateUmask keeps what a process writes to its user.
const privateUmask = 0o077

// ServeConfig says what an adapter process serves.
type ServeConfig struct {
	Name     string // registered name of the adapter
	Adapter  shared.Adapter
	Worktree worktreepb.WorktreeServer // nil: not served
	Logger   hclog.Logger              // made by NewLogger before Serve
	// Umask is that of the process and of what it starts. Zero stands for 0o077: whatever it writes is private. An
	// adapter whose files are a user's own, such as those of a checkout, takes the usual one and makes private
	// directories by mode.
	Umask int
	// OnHostGone is called when the host has died, before the process exits; it has one second. It may be nil.
	OnHostGone func()
}

// Serve is the whole life of an adapter process; it returns the exit code. It prepares the process so that neither the
// host's terminal nor a stray print nor a child can disturb it: core dumps and reading of its memory by others are off,
// file modes are private unless Umask says otherwise, descriptors are not inherited, and fd 1 is /dev/null, since
// what it held is the host's line for the handshake.
//
// It returns 2 at once when a person has started the program, 0 when the host ended it or it was drained after SIGTERM,
// and 1 when it cannot serve. When the host dies, it does not return: the process exits with 3.
func Serve(cfg ServeConfig) int {
	hs := Handshake()
	if os.Getenv(hs.MagicCookieKey) != hs.MagicCookieValue {
		fmt.Fprintf(os.Stderr, "%s %s (build %s) is an adapter: it is started by harness.\n"+
			"To see whether it works, run: harness adapters\n", cfg.Name, shared.Version, orUnknown(shared.Build()))
		return exitByHand
	}
	umask := cfg.Umask
	if umask == 0 {
		umask = privateUmask
	}
	handshakeLine, err := prepareProcess(umask)
	if err != nil {
		cfg.Logger.Error("prepare the process", "error", err)
		return exitFailed
	}
	defer runtime.KeepAlive(handshakeLine) // else it is closed behind the back of whoever still has its number
	lifeline, err := openLifeline()
	if err != nil {
		cfg.Logger.Error("open the lifeline", "error", err)
		return exitFailed
	}
	if lifeline != nil {
		go exitWithHost(lifeline, cfg) // it lives as long as the process
	}
	return serve(cfg, hs)
}

// serve runs the server until the host ends it or SIGTERM comes.
func serve(cfg ServeConfig, hs plugin.HandshakeConfig) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	defer signal.Stop(signals)
	started := make(chan *grpc.Server, 1)
	ended, drained := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(drained)
		drainOnSignal(cfg, signals, started, ended)
	}()
	served := false
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  hs,
		VersionedPlugins: serverPlugins(cfg.Adapter, cfg.Worktree),
		Logger:           cfg.Logger,
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			s := grpcServer(opts, cfg.Logger)
			started <- s
			served = true
			return s
		},
	})
	close(ended)
	<-drained
	if !served {
		return exitFailed // go-plugin has logged why, and says it in no other way
	}
	return exitOK
}

// drainOnSignal drains the adapter and stops the server when a signal comes before the server has ended.
func drainOnSignal(cfg ServeConfig, signals <-chan os.Signal, started <-chan *grpc.Server, ended <-chan struct{}) {
	select {
	case <-signals:
	case <-ended:
		return
	}
	drain(cfg)
	select {
	case s := <-started:
		s.Stop()
	case <-ended:
	}
}

func drain(cfg ServeConfig) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime+drainReserve)
	defer cancel()
	report, err := cfg.Adapter.Drain(ctx, drainTime)
	if err != nil {
		cfg.Logger.Error("drain after SIGTERM", "error", err)
		return
	}
	cfg.Logger.Info("drained after SIGTERM", "ended", report.Ended, "leaked", report.Leaked)
}

// prepareProcess takes fd 1 away from everybody but the handshake, and shuts out what the process inherited.
func prepareProcess(umask int) (handshakeLine *os.File, err error) {
	// Caught, not ignored: a signal that is ignored stays so in every command that the adapter starts. A full channel
	// drops what comes after.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGINT)
	if err := restrictProcess(umask); err != nil {
		return nil, err
	}
	line, err := moveStdout()
	if err != nil {
		return nil, err
	}
	os.Stdout = os.NewFile(uintptr(line), "handshake")
	return os.Stdout, nil
}

// openLifeline returns the lifeline, nil where the host gave none.
func openLifeline() (*os.File, error) {
	value := os.Getenv(LifelineEnv)
	if value == "" {
		return nil, nil
	}
	if err := os.Unsetenv(LifelineEnv); err != nil { // the number means nothing to children
		return nil, err
	}
	fd, err := strconv.Atoi(value)
	if err != nil || fd <= int(os.Stderr.Fd()) {
		return nil, fmt.Errorf("%s is %q and should be the number of a file descriptor above 2", LifelineEnv, value)
	}
	if err := checkOpen(fd); err != nil {
		return nil, fmt.Errorf("%s is %d, which cannot be read: %w", LifelineEnv, fd, err)
	}
	return os.NewFile(uintptr(fd), "lifeline"), nil
}

// exitWithHost waits for the end of the lifeline and ends the process.
func exitWithHost(lifeline *os.File, cfg ServeConfig) {
	_, err := io.Copy(io.Discard, lifeline)
	cfg.Logger.Warn("the host is gone", "error", err)
	if cfg.OnHostGone != nil {
		done := make(chan struct{})
		go func() {
			defer close(done)
			cfg.OnHostGone()
		}()
		select {
		case <-done:
		case <-time.After(hostGoneTime):
		}
	}
	os.Exit(exitHostGone)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
