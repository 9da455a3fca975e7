package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"cellharness/shared"
	"cellharness/shared/wire"
)

// launchOnce starts the next generation and brings it to the state in which it takes cells. again tells whether the
// failure may have been chance.
func (in *instance) launchOnce(ctx context.Context) (_ *Process, again bool, err error) {
	select {
	case in.host.launching <- struct{}{}:
		defer func() { <-in.host.launching }()
	case <-ctx.Done():
		return nil, false, in.interrupted(ctx)
	}
	began := in.host.now()
	bin, err := in.program()
	if err != nil {
		return nil, false, err
	}
	p, again, err := in.connect(ctx, bin)
	if err != nil {
		return nil, again, err
	}
	if err := p.prepare(ctx); err != nil {
		p.abandon()
		return nil, errors.Is(err, shared.OfCause(shared.CauseAdapterCrashed)), err
	}
	defer p.supervise()
	if in.host.cfg.OnReady != nil {
		in.host.cfg.OnReady(Ready{
			Instance: in.spec.Name, Kind: in.kind.Name, Version: p.description.Version, Generation: p.generation,
			Digest: p.digest, Took: in.host.now().Sub(began), Capabilities: p.configured.Capabilities,
		})
	}
	return p, false, nil
}

// program looks at the adapter's file and refuses one that is not what it has to be, before anything of it runs.
func (in *instance) program() (executable, error) {
	path, err := filepath.Abs(filepath.Join(in.host.cfg.Dir, in.kind.Binary))
	if err != nil {
		return executable{}, in.unavailable("", "cannot be found: "+err.Error(), err)
	}
	bin, err := openExecutable(path)
	if err != nil {
		return executable{}, in.unavailable(path, err.Error(), err)
	}
	if want, from := in.expectedDigest(); want != "" && want != bin.digest {
		refused := in.unavailable(path, fmt.Sprintf(
			"is another program (sha256 %s) than it was %s (sha256 %s); put that one back, or start anew", bin.digest, from, want), nil)
		refused.Cause = shared.CauseProtocol
		return executable{}, refused
	}
	return bin, nil
}

// connect starts the program and waits for its handshake.
func (in *instance) connect(ctx context.Context, bin executable) (_ *Process, again bool, err error) {
	log, err := openStderrLog(in.host.cfg.LogDir, in.logName())
	if err != nil {
		return nil, false, in.unavailable(bin.path, "was not started: "+err.Error(), err)
	}
	c := newChild(bin.path, maskedLog{in.masker.Writer(log), log}, in.host.starting.RLocker(), in.host.afterDeath)
	if !in.host.track(c) {
		in.host.note(log.Close())
		return nil, false, errStopped(in.title)
	}
	p := &Process{
		in: in, child: c, log: log, digest: bin.digest, generation: in.nextGeneration(),
		client: in.newClient(c), disposed: make(chan struct{}),
	}
	dialled := make(chan error, 1)
	go func() { dialled <- p.dial() }()
	bound := time.NewTimer(2 * in.host.timing.handshake)
	defer bound.Stop()
	select {
	case err = <-dialled:
	case <-ctx.Done():
		err = errors.Join(ctx.Err(), c.kill())
	case <-bound.C:
		err = errors.Join(errors.New("connected to, but silent"), c.kill())
	}
	if err == nil {
		err = bin.unchanged()
	}
	if err == nil {
		return p, false, nil
	}
	p.abandon()
	diagnosis, again := in.diagnose(ctx, bin, p, err)
	return nil, again, diagnosis
}

func (in *instance) nextGeneration() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.launches + 1
}

// newClient makes a go-plugin client, which serves one launch only.
func (in *instance) newClient(c *child) *plugin.Client {
	return plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  wire.Handshake(),
		VersionedPlugins: wire.ClientPlugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		GRPCDialOptions:  wire.DialOptions(),
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     in.host.timing.handshake,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: in.host.socketDir},
		Logger:           hclog.NewNullLogger(),
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
			env := slices.Concat(environment(in.host.cfg.Environ), cmd.Env, []string{wire.LifelineEnv + "=" + lifelineFD})
			c.adopt(env, dir)
			return c, nil
		},
	})
}

// dial waits for the handshake and connects. It is bounded by the handshake's time limit and by the life of the process.
func (p *Process) dial() error {
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	grpcClient, ok := protocol.(*plugin.GRPCClient)
	if !ok {
		return fmt.Errorf("a client of gRPC is needed, this is %T", protocol)
	}
	raw, err := grpcClient.Dispense(wire.DispenseAdapter)
	if err != nil {
		return err
	}
	adapter, ok := raw.(shared.Adapter)
	if !ok {
		return fmt.Errorf("an adapter is needed, this is %T", raw)
	}
	p.conn, p.adapter = grpcClient.Conn, adapter
	return nil
}

// prepare negotiates and configures. Only with the first answer has the connection been made: dialling does not connect.
func (p *Process) prepare(ctx context.Context) error {
	if err := p.negotiate(ctx); err != nil {
		return err
	}
	var err error
	if p.configured, err = within(ctx, p.in.host.timing.configure, func(ctx context.Context) (shared.Configured, error) {
		return p.Configure(ctx, p.in.spec.Configuration)
	}); err != nil {
		return err
	}
	if what := p.in.drift(p); what != "" {
		refused := p.in.unavailable(p.child.path, "negotiated differently after its restart: "+what, nil)
		refused.Cause = shared.CauseProtocol
		return refused
	}
	return nil
}

// negotiate makes the first call and refuses an adapter that is not the one that is needed.
func (p *Process) negotiate(ctx context.Context) error {
	var err error
	if p.description, err = within(ctx, p.in.host.timing.negotiate, func(ctx context.Context) (shared.Description, error) {
		return p.Negotiate(ctx, p.in.host.cfg.Host)
	}); err != nil {
		return err
	}
	if why := p.misfit(); why != "" {
		return p.in.unavailable(p.child.path, why, nil)
	}
	return nil
}

// within bounds a step of the launch, whatever deadline the whole of it has.
func within[T any](ctx context.Context, bound time.Duration, step func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return step(ctx)
}

// misfit says why the adapter that answered is not the one that is needed, empty where it is.
func (p *Process) misfit() string {
	d := p.description
	switch {
	case d.Name != p.in.kind.Name:
		return fmt.Sprintf("is the adapter %s, not %s; install the adapters of one build, each under its own name",
			quoted(d.Name), p.in.kind.Name)
	case !d.Fits:
		return fmt.Sprintf("does not fit this harness: %s", cutLine(string(appendEscaped(nil, []byte(d.Reason))), 4*maxQuoted))
	case d.Version == "":
		return "does not say its version; install the adapter of the same build as the harness"
	case !d.Serves(shared.ServiceAdapter):
		return "serves no cells; install the adapter of the same build as the harness"
	}
	return ""
}

// abandon disposes of a process that did not become ready.
func (p *Process) abandon() {
	p.in.host.note(p.child.kill())
	p.dispose()
}

// dispose lets go-plugin close its connection and removes the directory of the socket, which go-plugin leaves behind
// when the process could not be started. It waits until the process is gone, with a bound.
func (p *Process) dispose() {
	closed := make(chan struct{})
	go func() { p.client.Kill(); close(closed) }()
	bound := time.NewTimer(2 * p.in.host.timing.end)
	defer bound.Stop()
	select {
	case <-closed:
	case <-bound.C:
		return // the host keeps it in its care, and says at its own end that the process is still there
	}
	c := p.child
	c.mu.Lock()
	dir, err := c.socketDir, c.logErr
	c.mu.Unlock()
	if dir != "" {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	p.in.host.forget(c, err)
}

// unavailable makes the error of an adapter that cannot be had. why is a sentence part that follows the path.
func (in *instance) unavailable(path, why string, err error) *shared.Error {
	message := "adapter " + in.title + " " + why
	if path != "" {
		message = fmt.Sprintf("adapter %s: %s %s", in.title, path, why)
	}
	return &shared.Error{Code: shared.CodeUnavailable, Message: message, Err: err}
}

// diagnose says why a launch failed, from what was seen of the process rather than from go-plugin's error.
func (in *instance) diagnose(ctx context.Context, bin executable, p *Process, err error) (_ *shared.Error, again bool) {
	if ctx.Err() != nil {
		return in.interrupted(ctx), false
	}
	c := p.child
	c.mu.Lock()
	startErr := c.startErr
	c.mu.Unlock()
	if startErr != nil {
		return in.unavailable(bin.path, bin.explain(startErr), startErr), false
	}
	text, sealed := c.said()
	if text != "" {
		return in.unavailable(bin.path, badHandshake(text, sealed, err), err), false
	}
	how, byItself := c.ending()
	switch {
	case byItself && strings.HasPrefix(how, "killed") && flaw(bin.path) != "":
		return in.unavailable(bin.path, flaw(bin.path), err), false
	case byItself:
		return in.unavailable(bin.path, fmt.Sprintf("ended before its handshake (%s)%s%s", how, p.lastWords(), in.logHint()), err), true
	case sealed:
		return in.unavailable(bin.path, "closed its stdout without a handshake"+p.lastWords()+in.logHint(), err), false
	}
	return in.unavailable(bin.path, fmt.Sprintf("said nothing within %s of its start%s%s",
		in.host.timing.handshake, p.lastWords(), in.logHint()), err), false
}

// badHandshake says what is wrong with the first thing that came on stdout.
func badHandshake(text string, sealed bool, err error) string {
	line := strings.TrimSpace(text)
	parts := strings.Split(line, "|")
	if _, notNumber := strconv.Atoi(parts[0]); notNumber != nil || len(parts) < 4 {
		rest := ""
		if sealed && len(text) == maxHandshake {
			rest = " and more"
		}
		return fmt.Sprintf("wrote %s%s to stdout in place of its handshake; what an adapter has to say belongs on stderr", quoted(line), rest)
	}
	version, _ := strconv.Atoi(parts[1])
	if _, ours := wire.ClientPlugins()[version]; !ours {
		return fmt.Sprintf("speaks version %s of the adapter contract, this harness speaks version %d; install both from one build",
			quoted(parts[1]), wire.ProtocolVersion)
	}
	return "made a handshake that cannot be used: " + string(appendEscaped(nil, []byte(err.Error())))
}
