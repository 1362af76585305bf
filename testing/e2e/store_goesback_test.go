package e2e

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// registerSite is a NATS server of the operator's, and processes on it.
type registerSite struct {
	net   *natstest.Node
	data  string // of the server
	js    jetstream.JetStream
	load  *callers
	calm  ledger // of a tag that lasts in memory
	stops int    // of granting, so far

	workers, loaders []*process
	status           []string // where the loaders serve HTTP
	witnesses        []string // of the loaders
}

// TestRegisterGoesBack: the register is damaged under running processes or
// between two runs, and no ID comes twice: granting stops, or does not begin.
// Workers serve from their buffers, and a single command brings everything back
// without a restart.
func TestRegisterGoesBack(t *testing.T) {
	t.Parallel()
	s := startRegisterSite(t)
	t.Run("JetStream is put back under load", s.putBack)
	t.Run("the bucket is deleted under load", s.deleted)
	t.Run("the bucket is put back at rest", s.putBackAtRest)
	t.Run("the bucket is deleted at rest", s.deletedAtRest)
	t.Run("the bucket is made by hand", s.madeByHand)
}

func startRegisterSite(t *testing.T) *registerSite {
	t.Helper()
	s := &registerSite{data: t.TempDir(), calm: ledger{tag: "calm"}}
	s.net = natstest.Start(t, func(o *server.Options) { o.StoreDir = s.data })
	s.js = natstest.JetStream(t, s.net.Connect(t))
	for range 2 {
		address, witness := freeport.Address(t), filepath.Join(t.TempDir(), "witness")
		s.status, s.witnesses = append(s.status, address), append(s.witnesses, witness)
		s.loaders = append(s.loaders, startWorker(t, s.net.URL(), append(folderSteps, "--role", "loader", "--http", address, "--witness", witness)...))
		s.workers = append(s.workers, startWorker(t, s.net.URL(), append(folderSteps, "--role", "worker")...))
	}
	createTag(t, s.net.URL(), "order", "--step", "10")
	createTag(t, s.net.URL(), "calm", "--step", "200")
	heldByAll(t, s.net.URL(), "calm", len(s.workers))
	s.load = startCallers(t, s.net.URL(), load{
		callers: 4, tags: []string{"order"}, maxBatch: 50, timeout: askAgain, retry: func(error) bool { return true }, // the server will be away
	})
	return s
}

func (s *registerSite) putBack(t *testing.T) {
	backup := filepath.Join(t.TempDir(), "backup")
	s.copyData(t, backup, s.data)
	moreGrants(t, s.js)
	noted(t, s.js, s.witnesses...)
	s.copyData(t, s.data, backup)
	s.stopsGranting(t)
	s.goesOn(t)
}

// copyData copies the server's data while it does not run.
func (s *registerSite) copyData(t *testing.T, to, from string) {
	t.Helper()
	s.net.Stop()
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
		t.Fatal(err)
	}
	s.net.Restart()
}

func (s *registerSite) deleted(t *testing.T) {
	s.deleteBucket(t)
	s.stopsGranting(t)
	s.goesOn(t)
}

func (s *registerSite) deleteBucket(t *testing.T) {
	t.Helper()
	if err := s.js.DeleteKeyValue(t.Context(), "ids_register"); err != nil {
		t.Fatal(err)
	}
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

// goesOn raises all tags, after which the processes grant again as they are.
func (s *registerSite) goesOn(t *testing.T) {
	t.Helper()
	raiseAll(t, "--server", s.net.URL())
	s.resumes(t)
}

// resumes waits until the processes grant again.
func (s *registerSite) resumes(t *testing.T) {
	t.Helper()
	s.load.more(2000)
	for _, address := range s.status {
		natstest.Eventually(t, "a loader is ready", func() bool {
			code, _ := fetch(t, address, "/readyz")
			return code == http.StatusOK
		})
	}
	s.load.ledgers.check(t)
	s.calm.check(t)
}

func (s *registerSite) putBackAtRest(t *testing.T) {
	backup := natstest.TakeSnapshot(t, s.js.Conn(), registerBucket)
	moreGrants(t, s.js)
	noted(t, s.js, s.witnesses...)
	s.load.finish()
	for _, p := range append(s.workers, s.loaders...) {
		p.stop(syscall.SIGTERM)
	}
	backup.Restore(t, s.js.Conn())
	s.refused(t, true, "bucket ids_register is at sequence ", ", was at ", remedy)
	raiseAll(t, "--server", s.net.URL())
	s.serves(t)
}

// refused starts a loader with or without a witness, twice, since people start
// a refused process again.
func (s *registerSite) refused(t *testing.T, witness bool, says ...string) {
	t.Helper()
	for range 2 {
		args := []string{"serve", "--server", s.net.URL()}
		if witness {
			args = append(args, "--witness", s.witnesses[0])
		}
		refuses(t, settings{}.launch(t, args...), says...)
	}
}

// serves runs a process for a while.
func (s *registerSite) serves(t *testing.T) {
	t.Helper()
	p := startWorker(t, s.net.URL(), "--witness", s.witnesses[0])
	client := dial(t, s.net.URL())
	for range 20 {
		s.load.ledgers["order"].add(client.get(t, "order", 100))
	}
	s.load.ledgers.check(t)
	p.stop(syscall.SIGTERM)
}

// deletedAtRest: nothing recreates a bucket that the installation had, until an
// operator decides where to continue. Tags then begin above all IDs handed out.
func (s *registerSite) deletedAtRest(t *testing.T) {
	s.deleteBucket(t)
	const missing = "bucket ids_register is missing"
	s.refused(t, true, missing, remedy)
	s.refused(t, false, missing, remedy)
	for part, code := range map[string]int{"all": exitFailure, "ids": exitFailure, "enrich": exitOK} {
		if r := run(t, "provision", "--server", s.net.URL(), "--part", part); r.code != code || code != exitOK && !strings.Contains(r.stderr, missing) {
			t.Errorf("provision --part %s (%d): %s", part, r.code, r.stderr)
		}
	}
	if _, err := s.js.KeyValue(t.Context(), "ids_register"); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("there is a bucket again: %v", err)
	}
	s.beginsAbove(t)
}

func (s *registerSite) madeByHand(t *testing.T) {
	s.deleteBucket(t)
	natstest.CreateBucket(t, s.js, "ids_register")
	for _, witness := range []bool{true, false} {
		s.refused(t, witness, "bucket ids_register: it has no identity", remedy)
	}
	s.beginsAbove(t)
}

// beginsAbove raises an empty register. Its tags have to be created again, and
// begin above all IDs that were issued.
func (s *registerSite) beginsAbove(t *testing.T) {
	t.Helper()
	first := strconv.FormatInt(raiseAll(t, "--server", s.net.URL()), 10)
	if r := must(t, "tag", "create", "--server", s.net.URL(), "order", "--step", "10"); !strings.Contains(r.stdout, "first ID "+first+", because") {
		t.Errorf("a tag that may have been lost: %s; want its first ID %s", r.stdout, first)
	}
	s.serves(t)
}
