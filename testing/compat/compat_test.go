package compat

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// The oldest versions that work, and the last versions before them.
const (
	tooOldToServe  = "2.9.25"
	oldestServing  = "2.10.0"
	tooOldToEnrich = "2.11.17"
	oldestEnrich   = "2.12.0"
)

// TestServers runs the oldest version for serving, the oldest for enriching,
// and the newest, with crashes: no ID comes twice, and each event arrives once.
// The versions before them are refused, with the version that is needed.
func TestServers(t *testing.T) {
	tier.Release(t)
	dir := t.TempDir()
	idworker, err := process.Build(dir, "idworker", process.Command)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/upgrades.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"| serving | " + oldestServing + " |", "| enriching | " + oldestEnrich + " |"} {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/upgrades.md has no row %q", row)
		}
	}
	for _, test := range []struct {
		version          string
		serves, enriches bool
	}{
		{tooOldToServe, false, false},
		{oldestServing, true, false},
		{tooOldToEnrich, true, false},
		{oldestEnrich, true, true},
		{"", true, true}, // as go.mod pins it
	} {
		t.Run("v"+test.version, func(t *testing.T) {
			s := &site{t: t, idworker: idworker, server: install(t, test.version), port: strconv.Itoa(freeport.Get(t)), dir: t.TempDir()}
			sync := "sync_interval: always"
			if !test.serves {
				sync = "" // 2.9 does not have it
			}
			s.conf = filepath.Join(s.dir, "nats.conf")
			conf := fmt.Sprintf("listen: 127.0.0.1:%s\njetstream { store_dir: %q\n%s }\n", s.port, s.dir, sync)
			if err := os.WriteFile(s.conf, []byte(conf), 0o600); err != nil {
				t.Fatal(err)
			}
			s.startServer()
			if !test.serves {
				s.refused("need 2.10 or newer", "serve")
				s.refused("need 2.10 or newer", "provision")
				s.refused("need 2.10 or newer", "tag", "create", "order")
				return
			}
			s.serve()
			if !test.enriches {
				s.streams()
				s.refused("NATS 2.12 or newer", enrich("run")...)
				return
			}
			s.enrich()
		})
	}
}

// install returns the path of a nats-server.
func install(t *testing.T, version string) string {
	dir := t.TempDir()
	if version == "" {
		path, err := process.Build(dir, "nats-server", process.NATSServer)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	cmd := exec.Command("go", "install", process.NATSServer+"@v"+version)
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go install nats-server %s: %v\n%s", version, err, out)
	}
	return filepath.Join(dir, "nats-server")
}

// site is an idworker on a nats-server.
type site struct {
	t                *testing.T
	idworker, server string // binaries
	port, dir, conf  string
	running          *process.Process // the server
	seen             map[string]bool
	strict           int64 // the last strict ID
}

func (s *site) url() string { return "nats://127.0.0.1:" + s.port }

// start starts a process that ends with the test.
func (s *site) start(binary string, args ...string) *process.Process {
	s.t.Helper()
	p, err := process.Settings{Binary: binary, Env: []string{"NATS_URL=" + s.url()}}.Launch(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		p.Kill()
		if s.t.Failed() {
			s.t.Logf("%s %v:\n%s", filepath.Base(binary), args, p.Stderr.Tail())
		}
	})
	return p
}

// until waits for a line of the process's log.
func (s *site) until(p *process.Process, line string) {
	s.t.Helper()
	natstest.Eventually(s.t, line, func() bool { return p.HasEnded() || strings.Contains(p.Stderr.String(), line) })
	if p.HasEnded() {
		s.t.Fatalf("ended before %q", line)
	}
}

func (s *site) startServer() {
	s.running = s.start(s.server, "-c", s.conf)
	s.until(s.running, "Server is ready")
}

func (s *site) crashServer() {
	s.running.Kill()
	s.startServer()
}

func (s *site) startWorker() *process.Process {
	p := s.start(s.idworker, "serve", "--lease-ttl", "3s")
	s.until(p, "\tserving\t")
	return p
}

// run returns a command's result.
func (s *site) run(args ...string) (code int, stdout, stderr string) {
	p := s.start(s.idworker, args...)
	natstest.Eventually(s.t, strings.Join(args, " ")+" ends", p.HasEnded)
	return p.Cmd.ProcessState.ExitCode(), p.Stdout.String(), p.Stderr.String()
}

// succeeds repeats a command until it succeeds.
func (s *site) succeeds(args ...string) (stdout string) {
	s.t.Helper()
	natstest.Eventually(s.t, strings.Join(args, " ")+" succeeds", func() bool {
		code, out, _ := s.run(args...)
		stdout = out
		return code == 0
	})
	return stdout
}

// refused checks that a command is refused for good.
func (s *site) refused(reason string, args ...string) {
	s.t.Helper()
	if code, _, stderr := s.run(args...); code != 2 || !strings.Contains(stderr, reason) {
		s.t.Errorf("idworker %v: exit code %d and %q, want 2 and %q", args, code, stderr, reason)
	}
}

// serve gets IDs across crashes of the server and of idworker.
func (s *site) serve() {
	s.seen = make(map[string]bool)
	worker := s.startWorker()
	s.succeeds("tag", "create", "order", "--step", "100", "--if-missing")
	s.succeeds("tag", "create", "invoice", "--order", "strict", "--if-missing")
	for range 3 {
		s.get()
		s.crashServer()
		s.get()
		worker.Kill()
		worker = s.startWorker()
	}
	s.get()
	s.t.Logf("%d IDs, none twice", len(s.seen))
}

// get gets IDs of each kind, and checks that none comes twice.
func (s *site) get() {
	for _, args := range [][]string{{"order", "150"}, {"invoice", "20"}, {"--snowflake", "150"}} {
		for id := range strings.FieldsSeq(s.succeeds(append([]string{"get"}, args...)...)) {
			if key := args[0] + " " + id; s.seen[key] {
				s.t.Errorf("%s came twice", key)
			} else {
				s.seen[key] = true
			}
			n, err := strconv.ParseInt(id, 10, 64)
			if args[0] == "invoice" {
				if err != nil || n <= s.strict {
					s.t.Errorf("strict ID %s after %d", id, s.strict)
				}
				s.strict = n
			}
		}
	}
}

func enrich(command string) []string {
	return []string{"enrich", command, "--from", "RAW", "--filter", "raw.>", "--to", "ready.>", "--id", "segment:order"}
}

// events is the number of events to enrich.
const events = 1000

// streams creates the source, with events, and the target.
func (s *site) streams() jetstream.JetStream {
	conn, err := nats.Connect(s.url(), nats.MaxReconnects(-1))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	for _, c := range []jetstream.StreamConfig{
		{Name: "RAW", Subjects: []string{"raw.>"}},
		{Name: "READY", Subjects: []string{"ready.>"}, AllowAtomicPublish: true},
	} {
		if err == nil {
			_, err = js.CreateStream(s.t.Context(), c)
		}
	}
	for i := range events {
		if err == nil {
			_, err = js.Publish(s.t.Context(), fmt.Sprintf("raw.%d", i), nil)
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return js
}

// enrich enriches events across crashes of the enricher and of the server.
func (s *site) enrich() {
	js := s.streams()
	arrived := func(n uint64) {
		natstest.Eventually(s.t, fmt.Sprintf("%d events are enriched", n), func() bool {
			ready, err := js.Stream(s.t.Context(), "READY")
			return err == nil && ready.CachedInfo().State.Msgs >= n
		})
	}
	first := s.start(s.idworker, enrich("run")...)
	arrived(1)
	first.Kill()
	s.crashServer()
	last := s.start(s.idworker, enrich("run")...)
	arrived(events)
	last.Signal(syscall.SIGTERM)
	out := s.succeeds(append(enrich("verify"), "--wait", "1m")...)
	if want := fmt.Sprintf("%d events of RAW found in READY once", events); !strings.Contains(out, want) {
		s.t.Errorf("enrich verify printed %q, want %q", out, want)
	}
}
