package supervise

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cellharness/shared"
)

func TestNetwork(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		by   mechanism
		pass []string
	}{
		{byBox, []string{"late-path", "own", "loopback"}},
		{byFilter, []string{"late-path", "path"}},
		{byNothing, []string{"abstract", "late-path", "mptcp", "own", "loopback", "path", "tcp", "udp"}},
	} {
		t.Run("by "+string(tc.by), func(t *testing.T) {
			t.Parallel()
			m := means{}
			listen := newListening(t)
			c := attackerIn(t, append([]string{"connect"}, listen.targets...)...)
			if tc.by != byNothing {
				m = needs(t, tc.by, shared.DimensionNetwork)
				c.Limits.NoNetwork = true
			}
			// The last listener comes when the command is there.
			c.Argv = append([]string{"/bin/sh", "-c", `while [ ! -e "$HOME/go" ]; do sleep 0.02; done; exec "$@"`, "sh", self(t)}, c.Argv[1:]...)
			go listen.late(filepath.Join(c.Dir, "go"))
			_, events := mustRunBy(t, c, m)
			got := passed(events)
			if diff := cmp.Diff(tc.pass, got, equateEmpty()); diff != "" {
				t.Errorf("what passed (-want +got):\n%s\n%s", diff, events.stderr)
			}
			listen.close()
			for _, name := range listen.reached() {
				if !strings.Contains(strings.Join(tc.pass, " "), name) {
					t.Errorf("%s was reached", name)
				}
			}
		})
	}
}

// listening has a socket of each kind and notes which were reached.
type listening struct {
	t       *testing.T
	dir     string
	targets []string
	mu      sync.Mutex
	open    []interface{ Close() error }
	hits    []string
	served  sync.WaitGroup
}

func newListening(t *testing.T) *listening {
	t.Helper()
	l := &listening{t: t, dir: visibleDir(t)}
	l.stream("tcp", "tcp", "127.0.0.1:0")
	l.stream("mptcp", "tcp", "127.0.0.1:0")
	l.stream("abstract", "unix", "@"+filepath.Base(l.dir))
	l.stream("path", "unix", filepath.Join(l.dir, "s"))
	l.packets()
	l.targets = append(l.targets, "late-path=unix="+filepath.Join(l.dir, "late"))
	return l
}

func (l *listening) stream(name, network, address string) {
	config := net.ListenConfig{}
	config.SetMultipathTCP(name == "mptcp")
	listener, err := config.Listen(context.Background(), network, address)
	if err != nil {
		l.t.Error(err)
		return
	}
	l.mu.Lock()
	l.open = append(l.open, listener)
	if name != "late-path" {
		l.targets = append(l.targets, name+"="+network+"="+listener.Addr().String())
	}
	l.mu.Unlock()
	l.served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.hit(name)
			_ = conn.Close() // the one byte is of no interest
		}
	})
}

func (l *listening) packets() {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		l.t.Error(err)
		return
	}
	l.open = append(l.open, conn)
	l.targets = append(l.targets, "udp=udp="+conn.LocalAddr().String())
	l.served.Go(func() {
		for {
			if _, _, err := conn.ReadFrom(make([]byte, 8)); err != nil {
				return
			}
			l.hit("udp")
		}
	})
}

func (l *listening) late(signal string) {
	time.Sleep(200 * time.Millisecond) // the command has long passed the moment in which sockets are hidden, or will not find it
	l.stream("late-path", "unix", filepath.Join(l.dir, "late"))
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		l.t.Error(err)
	}
}

func (l *listening) hit(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hits = append(l.hits, name)
}

func (l *listening) close() {
	for _, o := range l.open {
		_ = o.Close() // a second time at most
	}
	l.served.Wait()
}

func (l *listening) reached() []string { return l.hits }
