package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// registerSite is a NATS server of the operator's, and processes on it, under
// the load of a trend tag and a strict tag.
type registerSite struct {
	dataServer

	load   *callers
	strict *strictCallers
	calm   ledger // of a tag that lasts in memory
	stops  int    // of granting, so far

	loaders   []*process
	status    []string // where the loaders serve HTTP
	witnesses []string // of the loaders
}

// TestRegisterGoesBack: the register is put back or deleted, and raised at
// awkward moments, under running processes. No ID comes twice, the strict tag's
// stay in order, granting stops, and workers serve from their buffers. A single
// command brings everything back without a restart.
//
// TestRemedies in cmd/idworker covers a register that is put back or deleted at
// rest.
func TestRegisterGoesBack(t *testing.T) {
	t.Parallel()
	s := startRegisterSite(t)
	part := func(name string, f func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			f(t)
			s.resumes(t)
		})
	}
	part("JetStream is put back", s.putBack)
	part("the bucket is deleted", s.deleted)
	for round := range tier.Pick(1, 20) {
		part(fmt.Sprintf("raised by two commands, %d", round+1), s.raisedByTwo)
	}
	part("a raise is killed", s.raiseKilled)
	s.load.finish()
	s.strict.finish()
	s.load.ledgers.check(t)
	s.strict.check()
}

func startRegisterSite(t *testing.T) *registerSite {
	t.Helper()
	s := &registerSite{dataServer: startDataServer(t), calm: ledger{tag: "calm"}}
	for range 2 {
		address, witness := freeport.Address(t), filepath.Join(t.TempDir(), "witness")
		s.status, s.witnesses = append(s.status, address), append(s.witnesses, witness)
		s.loaders = append(s.loaders, startWorker(t, s.net.URL(), append(folderSteps, "--role", "loader", "--http", address, "--witness", witness)...))
		startWorker(t, s.net.URL(), append(folderSteps, "--role", "worker")...)
	}
	createTag(t, s.net.URL(), "order", "--step", "10")
	createTag(t, s.net.URL(), "calm", "--step", "200")
	must(t, "tag", "create", "--server", s.net.URL(), strictTag, "--step", "10", "--order", "strict")
	heldByAll(t, s.net.URL(), "calm", 2)
	s.load = startCallers(t, s.net.URL(), load{
		callers: 4, tags: []string{"order"}, maxBatch: 50, timeout: askAgain, retry: func(error) bool { return true }, // the server will be away
	})
	s.strict = startStrictCallers(t, s.net.URL(), 2, nats.MaxReconnects(-1))
	return s
}

func (s *registerSite) putBack(t *testing.T) {
	backup := filepath.Join(t.TempDir(), "backup")
	s.copyData(t, backup, s.data)
	moreGrants(t, s.js)
	noted(t, s.js, s.witnesses...)
	s.copyData(t, s.data, backup)
	s.stopsGranting(t)
	raiseAll(t, "--server", s.net.URL())
}

func (s *registerSite) deleted(t *testing.T) {
	if err := s.js.DeleteKeyValue(t.Context(), "ids_register"); err != nil {
		t.Fatal(err)
	}
	s.stopsGranting(t)
	raiseAll(t, "--server", s.net.URL())
}

// refuses waits until a process has ended. It has to have refused to serve,
// with all of those texts.
func refuses(t *testing.T, p *process, says ...string) {
	t.Helper()
	if p.servesOrEnds() {
		t.Errorf("idworker %s serves, want a refusal with %q", p.name, says)
		p.kill()
		return
	}
	last := p.stderr.Tail()
	if code := p.cmd.ProcessState.ExitCode(); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	for _, text := range says {
		if !strings.Contains(last, text) {
			t.Errorf("does not say %q:\n%s", text, last)
		}
	}
}

// registerAt is the last sequence of the register.
func registerAt(t testing.TB, js jetstream.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), registerBucket)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

// moreGrants waits until some ranges were granted. Callers may live on memory
// for a while.
func moreGrants(t testing.TB, js jetstream.JetStream) {
	t.Helper()
	target := registerAt(t, js) + 5
	natstest.Eventually(t, "ranges are granted", func() bool { return registerAt(t, js) >= target })
}

// noted waits until witnesses hold all that is in the register by now: a
// restore takes longer than the second between two notes.
func noted(t testing.TB, js jetstream.JetStream, witnesses ...string) {
	t.Helper()
	at := registerAt(t, js)
	natstest.Eventually(t, "the witnesses are up to date", func() bool {
		for _, path := range witnesses {
			var seen map[string]struct{ Seen uint64 }
			data, err := os.ReadFile(path)
			if err != nil || json.Unmarshal(data, &seen) != nil || seen["ids_register"].Seen < at {
				return false
			}
		}
		return true
	})
}

// raiseAll raises all tags by the time, and returns the lowest first ID of new
// tags.
func raiseAll(t testing.TB, where ...string) int64 {
	t.Helper()
	r := must(t, append([]string{"tag", "raise", "--all", "--yes", "--json"}, where...)...)
	var raised struct {
		Floor int64 `json:",string"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &raised); err != nil || raised.Floor <= 0 {
		t.Fatalf("tag raise: %v\n%s", err, r.stdout)
	}
	return raised.Floor
}

// remedy is the command that every report of a regressed register names.
const remedy = "idworker tag raise --all"

// stopsGranting waits until all loaders have stopped. Nothing is granted from
// then on, and workers serve from memory.
func (s *registerSite) stopsGranting(t *testing.T) {
	t.Helper()
	s.stops++
	for _, address := range s.status {
		natstest.Eventually(t, "a loader grants nothing any more", func() bool {
			return metricsOf(t, address).get("idworker_store_stopped") == 1
		})
		code, body := fetch(t, address, "/readyz")
		if code != http.StatusServiceUnavailable || !strings.Contains(body, remedy) {
			t.Errorf("/readyz: %d %s, want 503 and %q", code, body, remedy)
		}
	}
	before := s.granted(t)
	client := dial(t, s.net.URL())
	for range 20 {
		s.calm.add(client.get(t, "calm", 1))
	}
	for _, command := range []string{"doctor", "status"} {
		if r := run(t, command, "--server", s.net.URL()); !strings.Contains(r.stdout, remedy) || command == "doctor" && r.code == exitOK {
			t.Errorf("%s (%d) does not name %q:\n%s", command, r.code, remedy, r.stdout)
		}
	}
	if after := s.granted(t); after != before {
		t.Errorf("%v ranges were granted meanwhile", after-before)
	}
	for _, l := range s.loaders {
		if n := l.says("register regressed; granting stopped"); n != s.stops {
			t.Errorf("a loader logged %d times that it stopped, want %d", n, s.stops)
		}
	}
}

// granted is how many ranges the loaders have granted.
func (s *registerSite) granted(t *testing.T) (n float64) {
	t.Helper()
	for _, address := range s.status {
		n += metricsOf(t, address).sum("idworker_store_granted_total")
	}
	return n
}

// resumes waits until the processes grant again.
func (s *registerSite) resumes(t *testing.T) {
	t.Helper()
	s.load.more(2000)
	s.strict.more(20)
	for _, address := range s.status {
		natstest.Eventually(t, "a loader is ready", func() bool {
			code, _ := fetch(t, address, "/readyz")
			return code == http.StatusOK
		})
	}
	s.load.ledgers.check(t)
	s.calm.check(t)
}

// raisedByTwo runs two commands at the same time. Both end, and at least one
// succeeds.
func (s *registerSite) raisedByTwo(t *testing.T) {
	raise := []string{"tag", "raise", "--all", "--yes", "--server", s.net.URL()}
	commands := []*process{settings{}.launch(t, raise...), settings{}.launch(t, raise...)}
	succeeded := 0
	for _, p := range commands {
		switch code := p.wait(); {
		case code == exitOK:
			succeeded++
		case !strings.Contains(p.stderr.String(), "another command is raising all tags"):
			t.Errorf("exit code %d: %s", code, p.stderr.Tail())
		}
	}
	if succeeded == 0 {
		t.Error("neither command succeeded")
	}
}

// raiseKilled kills the command after its first lift. Nothing is granted until
// it runs again.
func (s *registerSite) raiseKilled(t *testing.T) {
	const tags = 5_000
	var list strings.Builder
	for i := range tags {
		fmt.Fprintf(&list, "many.%d 1000 %d\n", i, i+1)
	}
	settings{stdin: list.String()}.mustRun(t, "tag", "import", "--server", s.net.URL())
	register, err := s.js.KeyValue(t.Context(), "ids_register")
	if err != nil {
		t.Fatal(err)
	}
	written := func() uint64 {
		entry, err := register.Get(t.Context(), "many.0")
		if err != nil {
			t.Fatal(err)
		}
		return entry.Revision()
	}
	for tries, middle := 0, false; !middle; tries++ {
		if tries == 10 {
			t.Fatal("no mark is left of a raise that was killed")
		}
		before := written()
		command := settings{}.launch(t, "tag", "raise", "--all", "--yes", "--server", s.net.URL())
		natstest.Eventually(t, "a tag is raised", func() bool { return written() > before || command.hasEnded() })
		command.kill()
		stream, err := s.js.Stream(t.Context(), registerBucket)
		if err != nil {
			t.Fatal(err)
		}
		middle = stream.CachedInfo().Config.Metadata["idworker_raising"] != "" // or it has ended before
	}
	for _, address := range s.status {
		natstest.Eventually(t, "a loader grants nothing any more", func() bool {
			return metricsOf(t, address).get("idworker_store_stopped") == 1
		})
	}
	first := raiseAll(t, "--server", s.net.URL())
	raised := 0
	for _, line := range must(t, "tag", "export", "--server", s.net.URL()).lines() {
		if f := strings.Fields(line); strings.HasPrefix(line, "many.") {
			if next, err := strconv.ParseInt(f[2], 10, 64); err != nil || next < first {
				t.Fatalf("not raised to %d: %s", first, line)
			}
			raised++
		}
	}
	if raised != tags {
		t.Errorf("%d tags are exported, want %d", raised, tags)
	}
}
