package compat

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// The rows of docs/upgrades.md.
const oldestServing, oldestEnriching = "2.10.23", "2.12.0"

// losesStreams is the newest version with which no installation begins, and
// existing ones go on.
const losesStreams = "2.10.22"

// TestServers runs the oldest version for serving, the oldest for enriching and
// the newest, with crashes: no ID comes twice, and each event arrives once. The
// versions before are refused with the version that is needed.
func TestServers(t *testing.T) {
	tier.Release(t)
	idworker := build(t, "idworker", process.Command)
	page, err := os.ReadFile("../../docs/upgrades.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"| serving | " + oldestServing + " |", "| enriching | " + oldestEnriching + " |"} {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/upgrades.md has no row %q", row)
		}
	}
	for _, test := range []struct {
		version          string
		serves, enriches bool
	}{
		{"2.9.25", false, false},
		{losesStreams, true, false},
		{oldestServing, true, false},
		{"2.11.17", true, false},
		{oldestEnriching, true, true},
		{server.VERSION, true, true}, // in go.mod
	} {
		t.Run("v"+test.version, func(t *testing.T) {
			s := &site{T: t, idworker: idworker, server: install(t, test.version), seen: make(map[string]bool)}
			address := freeport.Address(t)
			s.url = "nats://" + address
			s.conf = filepath.Join(t.TempDir(), "nats.conf")
			conf := fmt.Sprintf("listen: %s\njetstream { store_dir: %q\nsync_interval: always }\n", address, t.TempDir())
			if test.version == "2.9.25" {
				conf = strings.Replace(conf, "sync_interval: always", "", 1) // unknown there
			}
			if err := os.WriteFile(s.conf, []byte(conf), 0o600); err != nil {
				t.Fatal(err)
			}
			s.restartServer()
			if test.version == losesStreams {
				for _, command := range []string{"serve", "provision"} {
					s.refused("before 2.10.23", command)
				}
				s.server = install(t, oldestServing)
				s.restartServer()
				s.startWorker().Kill()
				s.server = install(t, losesStreams)
				s.restartServer()
			} else if !test.serves {
				for _, command := range []string{"serve", "provision", "tag create order"} {
					s.refused("need 2.10 or newer", command)
				}
				return
			}
			s.serve()
			js := s.streams()
			if !test.enriches {
				s.refused("NATS 2.12 or newer", "enrich run "+enrichment)
				return
			}
			s.enrich(js)
		})
	}
}

// install returns the path of a nats-server.
func install(t *testing.T, version string) string {
	dir := t.TempDir()
	cmd := exec.Command("go", "install", process.NATSServer+"@v"+version)
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go install nats-server %s: %v\n%s", version, err, out)
	}
	return filepath.Join(dir, "nats-server")
}

// folder has the binaries, and the source of the old version, for all tests.
var folder string

func TestMain(m *testing.M) { os.Exit(inFolder(m)) }

func inFolder(m *testing.M) int {
	var err error
	if folder, err = os.MkdirTemp("", "idworker-compat-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	return m.Run()
}

var building sync.Mutex

// build returns the path of a command's binary. The first test builds it.
func build(t *testing.T, name, command string, flags ...string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	path, err := process.Build(folder, name, command, flags...)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// site is an idworker on a nats-server.
type site struct {
	*testing.T
	idworker, server string // binaries
	url, conf        string
	env              []string         // of all processes
	running          *process.Running // the server
	seen             map[string]bool  // IDs, with their tag
	last             int64            // strict ID
}

// launch starts a process that ends with the test.
func (s *site) launch(binary string, args ...string) *process.Running {
	s.Helper()
	return process.Program{Binary: binary, Env: append([]string{"NATS_URL=" + s.url}, s.env...)}.Start(s, args...)
}

// serving is in the log line of a process that serves.
const serving = "\tserving\t"

// start starts a process, and waits for a line of its log or its end.
func (s *site) start(binary, line string, args ...string) *process.Running {
	s.Helper()
	p := s.launch(binary, args...)
	if line == "" {
		p.Wait(s)
	} else {
		p.AwaitLog(s, line)
	}
	return p
}

// restartServer starts the server, and kills it before.
func (s *site) restartServer() {
	if s.running != nil {
		s.running.Kill()
	}
	s.running = s.start(s.server, "Server is ready", "-c", s.conf)
}

func (s *site) startWorker() *process.Running {
	return s.start(s.idworker, serving, "serve", "--lease-ttl", "3s")
}

// refused checks that a command is refused for good.
func (s *site) refused(reason, command string) {
	s.Helper()
	p := s.start(s.idworker, "", strings.Fields(command)...)
	if code := p.Cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(p.Stderr.String(), reason) {
		s.Errorf("idworker %s: exit code %d and %q, want 2 and %q", command, code, p.Stderr.String(), reason)
	}
}

// succeeds repeats a command until it succeeds.
func (s *site) succeeds(command string) (stdout string) {
	s.Helper()
	natstest.Eventually(s, command+" succeeds", func() bool {
		p := s.start(s.idworker, "", strings.Fields(command)...)
		stdout = p.Stdout.String()
		return p.Cmd.ProcessState.Success()
	})
	return stdout
}

// serve gets IDs across crashes of the server and of idworker.
func (s *site) serve() {
	worker := s.startWorker()
	s.succeeds("tag create order --step 100 --if-missing")
	s.succeeds("tag create invoice --order strict --if-missing")
	for range 3 {
		s.get()
		s.restartServer()
		s.get()
		worker.Kill()
		worker = s.startWorker()
	}
	s.get()
	s.Logf("%d IDs, none twice", len(s.seen))
}

// get gets IDs of each kind, and checks that none comes twice.
func (s *site) get() {
	const strict = "get invoice 20"
	for _, command := range []string{"get order 150", strict, "get --snowflake 150"} {
		for id := range strings.FieldsSeq(s.succeeds(command)) {
			if s.seen[command+id] {
				s.Errorf("%s: %s came twice", command, id)
			}
			s.seen[command+id] = true
			if command != strict {
				continue
			}
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil || n <= s.last {
				s.Errorf("strict ID %s after %d", id, s.last)
			}
			s.last = n
		}
	}
}

const enrichment = "--from RAW --filter raw.> --to ready.> --id segment:order"

// streams creates the source and the target.
func (s *site) streams() jetstream.JetStream {
	conn, err := nats.Connect(s.url, nats.MaxReconnects(-1))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		s.Fatal(err)
	}
	_, err = js.CreateStream(s.Context(), jetstream.StreamConfig{Name: "RAW", Subjects: []string{"raw.>"}})
	if err == nil {
		_, err = js.CreateStream(s.Context(), jetstream.StreamConfig{Name: "READY", Subjects: []string{"ready.>"}, AllowAtomicPublish: true})
	}
	if err != nil {
		s.Fatal(err)
	}
	return js
}

// enrich enriches events across crashes of enrichers and of the server.
func (s *site) enrich(js jetstream.JetStream) {
	const rounds, each = 3, 100
	for round := range rounds {
		for i := range each {
			natstest.Eventually(s, "an event is stored", func() bool {
				_, err := js.Publish(s.Context(), fmt.Sprintf("raw.%d", i), nil, jetstream.WithMsgID(fmt.Sprint(round, i)))
				return err == nil
			})
		}
		enricher := s.start(s.idworker, "\tenriching\t", strings.Fields("enrich run "+enrichment)...)
		natstest.Eventually(s, "events of this round arrive", func() bool {
			ready, err := js.Stream(s.Context(), "READY")
			return err == nil && ready.CachedInfo().State.Msgs > uint64(round*each)
		})
		enricher.Kill()
		s.restartServer()
	}
	s.start(s.idworker, "\tenriching\t", strings.Fields("enrich run "+enrichment)...)
	out := s.succeeds("enrich verify --wait 1m " + enrichment)
	if want := fmt.Sprintf("%d events of RAW found in READY once", rounds*each); !strings.Contains(out, want) {
		s.Errorf("enrich verify printed %q, want %q", out, want)
	}
}
