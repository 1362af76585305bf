package monitoring

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
)

// The binaries, built by TestMain.
var idworker, natsServer string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "idworker-monitoring-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// Built by the repository's go.mod, not by this module's, which may have later versions of dependencies.
	if idworker, err = process.Build(dir, "idworker", process.Command, "-C", "../.."); err == nil {
		natsServer, err = process.Build(dir, "nats-server", process.NATSServer, "-C", "../..")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// site is a NATS server with an installation of real processes, which a lab scrapes.
type site struct {
	*lab
	dir     string
	address string // of the NATS server
	nats    *process.Running
	caller  *nats.Conn // of the requests; nil until the first
}

// program is an idworker with a page of metrics.
type program struct {
	*process.Running
	http string // its address
}

// newSite starts a NATS server that syncs every write, and an empty lab.
func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{lab: newLab(t), dir: t.TempDir(), address: freeport.Address(t)}
	s.startNATS("always")
	return s
}

// startNATS starts the NATS server, on the data of its predecessor, which must have ended.
func (s *site) startNATS(syncInterval string) {
	s.t.Helper()
	config := s.file("nats.conf", fmt.Sprintf(`
listen: %q
jetstream { store_dir: %q, sync_interval: %s }
system_account: SYS
accounts {
  SYS { users: [{ user: sys, password: sys }], exports: [{ service: "$SYS.REQ.SERVER.PING.JSZ", response_type: Stream, accounts: [IDS] }] }
  IDS {
    jetstream: enabled
    imports: [{ service: { account: SYS, subject: "$SYS.REQ.SERVER.PING.JSZ" } }]
    users: [{ user: ids, password: ids }]
  }
}
no_auth_user: ids
`, s.address, filepath.Join(s.dir, "jetstream"), syncInterval))
	s.nats = process.Program{Binary: natsServer}.Start(s.t, "-c", config)
	s.nats.AwaitLog(s.t, "Server is ready")
}

// connect returns a connection to the NATS server, which ends with the test.
func (s *site) connect() *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect("nats://" + s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// file writes a file, and returns its path.
func (s *site) file(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// run runs a command on the NATS server to its end, and returns its output.
func (s *site) run(args ...string) string {
	s.t.Helper()
	p, err := process.Program{Binary: idworker, Dir: s.dir, Env: []string{"NATS_URL=nats://" + s.address}}.Run(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return p.Stdout.String()
}

// start starts an idworker that stays, on the NATS server, and watches it. The job is its label.
func (s *site) start(job string, args ...string) *program {
	s.t.Helper()
	return s.startAs(job, process.Program{Binary: idworker, Dir: s.dir, Env: []string{"NATS_URL=nats://" + s.address}}, args...)
}

// startAs starts a variant of idworker, and watches it.
func (s *site) startAs(job string, variant process.Program, args ...string) *program {
	s.t.Helper()
	p := &program{http: freeport.Address(s.t)}
	p.Running = variant.Start(s.t, append(args, "--http", p.http)...)
	s.watch(job, p.http)
	return p
}

// ready starts an idworker, and waits until it is ready.
func (s *site) ready(job string, args ...string) *program {
	s.t.Helper()
	return s.awaitReady(s.start(job, args...))
}

// launch starts a variant of idworker, and waits until it is ready.
func (s *site) launch(job string, variant process.Program, args ...string) *program {
	s.t.Helper()
	return s.awaitReady(s.startAs(job, variant, args...))
}

func (s *site) awaitReady(p *program) *program {
	s.t.Helper()
	natstest.Eventually(s.t, p.Name()+" is ready", func() bool {
		return p.HasEnded() || isReady(p.http)
	})
	if p.HasEnded() {
		s.t.Fatalf("%s ended:\n%s", p.Name(), p.Stderr.Tail())
	}
	return p
}

// isReady reports whether a process answers /readyz with 200.
func isReady(address string) bool {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/readyz")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
