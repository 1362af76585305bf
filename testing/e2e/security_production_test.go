package e2e

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker/loadmsg"
)

const natsConf = "../../nats.conf"

// site is a server with nats.conf, on which each action is done by the user
// meant for it. The server may refuse nothing except requests that a test
// expects it to refuse.
type site struct {
	*production
	whole                  *testing.T // the test of which each step is a part
	worker, second, loader *process
	http                   map[string]string // role → address
	refused                int               // expected refusals so far
}

// TestProduction: with the users of nats.conf each role does its work, and the
// server refuses nothing.
func TestProduction(t *testing.T) {
	t.Parallel()
	s := &site{production: startProduction(t, natsConf), whole: t, http: map[string]string{"worker": freeport.Address(t), "loader": freeport.Address(t)}}
	for _, step := range []struct {
		name   string
		do     func(*testing.T)
		refuse bool // something is refused, as it should be
	}{
		{"what is missing is named", s.missingIsNamed, true},
		{"provision", s.provisionTwice, false},
		{"start", s.start, false},
		{"every role", s.everyRole, false},
		{"lease library", s.leases, false},
		{"doctor", s.doctorOfEachRole, false},
		{"doctor names what is wrong", s.doctorNamesWhatIsWrong, true},
		{"status", s.status, true},
		{"enrichers", s.enrichers, false},
		{"bench", s.bench, true},
		{"nobody acts for another", s.nobodyActsForAnother, true},
		{"a wrong inbox stops no worker", s.wrongInbox, true},
		{"restart of the server", s.restart, false},
		{"backup and restore", s.backUpAndRestore, false},
		{"stop", s.stop, false},
		{"replies stay in their account", s.repliesStay, false},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			s.t = t
			defer func() { s.t = s.whole }()
			step.do(t)
			if v := s.violations(); step.refuse {
				s.refused = len(v)
			} else if len(v) > s.refused {
				t.Errorf("the server refused:\n%s", strings.Join(v[s.refused:], ""))
			}
		}) {
			return // the next steps need this step
		}
	}
}

func (s *site) stop(*testing.T) {
	for _, p := range []*process{s.worker, s.second, s.loader} {
		p.stop(syscall.SIGTERM)
	}
}

// missingIsNamed: a process that may not create a missing bucket names it at
// once, and the command that creates it; a command names the inbox of another
// user.
func (s *site) missingIsNamed(t *testing.T) {
	fails := func(as settings, wants []string, args ...string) {
		t.Helper()
		r := as.run(t, args...)
		for _, want := range wants {
			if r.code == 0 || !strings.Contains(r.stderr, want) {
				t.Errorf("idworker %s: exit code %d and %q, want %q", strings.Join(args, " "), r.code, r.stderr, want)
			}
		}
	}
	const cure = "idworker provision"
	for _, role := range []string{"worker", "loader"} {
		fails(s.as(role), []string{"bucket ids_config is missing", "this NATS user may not create it", cure}, "serve", "--role", role)
	}
	stranger := s.as("order")
	stranger.env[1] = "IDWORKER_INBOX_PREFIX=_INBOX_caller.any"
	fails(stranger, []string{`"_INBOX_caller.any.`}, "get", "order")
}

// sick fails the test unless the doctor reports the fault.
func sick(t *testing.T, as settings, role, want string, args ...string) {
	t.Helper()
	r := as.run(t, append([]string{"doctor", "--role", role}, args...)...)
	if r.code == 0 || !strings.Contains(r.stdout, want) || !strings.Contains(r.stdout, "FAIL") {
		t.Errorf("doctor --role %s (%d) does not say %q:\n%s%s", role, r.code, want, r.stdout, r.stderr)
	}
}

// well fails the test unless the doctor finds nothing wrong, soon, and reports
// all of that.
func (s *site) well(t *testing.T, user string, args []string, lines ...string) {
	t.Helper()
	r := s.as(user).succeeds(t, append([]string{"doctor", "--role"}, args...)...)
	for _, line := range lines {
		if !strings.Contains(r.stdout, line+"\n") {
			t.Errorf("%s: no line %q in\n%s", user, line, r.stdout)
		}
	}
}

func (s *site) provisionTwice(t *testing.T) {
	s.provision()
	for _, line := range s.must("admin", "provision", "--part", "ids").lines() {
		if !strings.HasSuffix(line, ": as it should be") && !strings.HasPrefix(line, "installation: ") && line != "outage: 1h0m0s" {
			t.Errorf("provisioned twice: %s", line)
		}
	}
}

func (s *site) start(*testing.T) {
	s.t = s.whole // the processes stay until its end
	s.worker = s.serve("worker", "--role", "worker", "--http", s.http["worker"])
	s.loader = s.serve("loader", "--role", "loader", "--http", s.http["loader"])
	s.second = s.serve("worker", "--role", "worker")
}

// everyRole has every user do everything that its role is for.
func (s *site) everyRole(t *testing.T) {
	s.must("admin", "tag", "create", "order", "--step", "10")
	s.must("admin", "tag", "set", "order", "--step", "20")
	if ls := s.must("admin", "tag", "ls").stdout; !strings.Contains(ls, "order") || s.must("monitor", "tag", "ls").stdout != ls {
		t.Errorf("tag ls: %s", ls)
	}
	for _, caller := range []string{"admin", "caller", "order", "enricher"} {
		s.as(caller).succeeds(t, "get", "order", "100") // many times the step
		if caller != "order" {
			s.as(caller).succeeds(t, "get", "--snowflake", "3")
		}
	}
	natstest.Eventually(t, "a worker ID is listed", func() bool {
		return strings.Contains(s.must("admin", "workers").stdout, s.worker.instance())
	})
	if len(stats(t, s.connect("admin"), 2)) != 2 {
		t.Error("an administrator cannot see the service")
	}
}

// leases: a program with the lease library gets a worker ID beside the workers,
// and gives it back.
func (s *site) leases(t *testing.T) {
	js := natstest.JetStream(t, s.connect("generator"))
	if err := lease.Create(t.Context(), js, messages.DefaultPrefix, lease.DefaultTTL, 1); err != nil {
		t.Fatal(err)
	}
	manager, err := lease.Open(t.Context(), lease.Config{JS: js, Layout: snowflake.Default()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	var id snowflake.ID
	if err := manager.Run(ctx, func(state lease.State) {
		if state.Generator != nil {
			id, err = state.Generator.Next()
			cancel()
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err != nil || id == 0 {
		t.Errorf("ID %d, %v", id, err)
	}
}

// doctorOfEachRole finds nothing wrong, and costs no ID.
func (s *site) doctorOfEachRole(t *testing.T) {
	for role, user := range map[string]string{"worker": "worker", "loader": "loader", "admin": "admin", "monitor": "monitor", "enricher": "enricher", "auditor": "orders-auditor"} {
		r := s.as(user).succeeds(t, "doctor", "--role", role)
		if strings.Contains("\n"+r.stdout, "\nwarn  ") {
			t.Errorf("%s:\n%s", role, r.stdout)
		}
	}
	const answers = "a worker answers requests for 1 to 10000 IDs"
	s.well(t, "caller", []string{"caller"}, "ok    requests for tags: "+answers, "ok    requests for snowflake IDs: "+answers)
	s.well(t, "order", []string{"caller", "--tag", "order"}, "ok    requests for tag order: "+answers)
}

// doctorNamesWhatIsWrong gives a user a role that needs more, and processes
// settings that do not fit.
func (s *site) doctorNamesWhatIsWrong(t *testing.T) {
	sick(t, s.as("order"), "caller", `denies this user a right: Permissions Violation for Publish to "ids.snowflake"`)
	stranger := s.as("admin")
	stranger.env = stranger.env[:1] // without its inbox prefix
	sick(t, stranger, "admin", "FAIL  inbox: ")
	sick(t, s.as("worker"), "worker", "layout: the installation has", "--layout", "sonyflake")
	sick(t, s.as("loader"), "loader", "store:", "--store", "postgres://127.0.0.1:1/none?connect_timeout=1")
	if r := s.as("admin").run(t, "doctor", "--role", "admin", "--replicas", "3"); !strings.Contains(r.stdout, "replicas 3") {
		t.Errorf("other replicas are not told:\n%s", r.stdout)
	}
}

// status: an administrator, a monitor, and the pages of a worker and of a loader, show all
// processes. Contents that a role's user may not read are named, with the
// missing right, but for enrichments; nothing else is missing, and all is well. A user who only
// requests IDs sees nothing.
func (s *site) status(t *testing.T) {
	var found struct {
		Totals    struct{ Workers, Loaders int }
		WorkerIDs []struct{ Instance string } `json:"worker_ids"`
		Unread    []struct{ What, Why string }
	}
	for _, user := range []string{"admin", "monitor"} {
		natstest.Eventually(t, user+" sees two workers and a loader", func() bool {
			if err := json.Unmarshal([]byte(s.must(user, "status", "--json").stdout), &found); err != nil {
				t.Fatal(err)
			}
			return found.Totals.Workers == 2 && found.Totals.Loaders == 1
		})
		if len(found.WorkerIDs) < 2 || len(found.Unread) != 1 || found.Unread[0].What != "enrichments" {
			t.Errorf("%s sees %+v, want worker IDs, and all but enrichments, which have another account", user, found)
		}
	}
	for role, lacks := range map[string][]string{
		"worker": nil,
		"loader": {"worker IDs"},
	} {
		summary := "All is well"
		if lacks != nil {
			summary = "No known problems, but parts are unknown"
		}
		var unknown []string
		natstest.Eventually(t, "the page shows all", func() bool {
			_, page := fetch(t, s.http[role], "/")
			unknown = between(page, "unknown: ", "<")
			return strings.Contains(page, summary) && strings.Contains(page, "<dt>workers answered</dt><dd>2</dd>") && strings.Contains(page, "<dt>loaders answered</dt><dd>1</dd>") &&
				strings.Contains(page, "lacks a right: the user may not publish $JS.API.") == (lacks != nil) && slices.Equal(unknown, lacks)
		})
	}
	if r := s.as("caller").run(t, "status"); r.code != 0 || !strings.Contains(r.stdout, "unknown: reports of workers and loaders") || strings.Contains(r.stdout, "requests fail") {
		t.Errorf("who may not ask is told %d %q, want that it is not known", r.code, r.stdout)
	}
}

// between are the texts after each start, up to the next end.
func between(s, start, end string) (all []string) {
	for _, part := range strings.Split(s, start)[1:] {
		text, _, _ := strings.Cut(part, end)
		all = append(all, text)
	}
	return all
}

// enrichers stamp events, note whose IDs these have, and an auditor finds
// nothing wrong.
func (s *site) enrichers(t *testing.T) {
	s.enrich(s.as("enricher"), 1)
	record, err := kv.Get(t.Context(), natstest.JetStream(t, s.connect("enricher")), enrich.BucketName(messages.DefaultPrefix), targetStream)
	if err != nil || !strings.Contains(string(record.Value), `"installation":"`) {
		t.Errorf("the record does not say whose IDs the events have: %v, %v", record, err)
	}
	s.must("orders-auditor", append([]string{"enrich", "verify", "--no-consumers", "--dead-letter", "orders.dead"}, enrichFrom...)...)
}

// bench: a user who may request IDs and nothing else may run it. It reports its
// missing rights.
func (s *site) bench(t *testing.T) {
	s.must("admin", "tag", "create", "invoice", "--step", "50", "--order", "strict")
	if out := s.must("caller", "bench", "invoice", "--duration", "100ms").stdout; !strings.Contains(out, "ok    in order: invoice\n") {
		t.Errorf("a strict tag: %s", out)
	}
	if out := s.must("caller", "bench", "--snowflake", "--duration", "100ms").stdout; !strings.Contains(out, "note  order of snowflake IDs not checked") {
		t.Errorf("snowflake IDs, for a user who may not read their layout: %s", out)
	}
}

// restart: workers and loaders go on after a restart of the server, without the
// right to create anything.
func (s *site) restart(t *testing.T) {
	// Buffers hold none of this tag's IDs. Those of order may last for minutes.
	s.must("admin", "tag", "create", "restarted", "--step", "10")
	before := s.loadsByStream()
	s.t = s.whole // the server stays until its end
	s.crash()
	natstest.Eventually(t, "IDs after a restart, by way of the load stream", func() bool {
		r := s.as("caller").run(t, "get", "restarted", "1000")
		return r.code == 0 && s.loadsByStream() > before
	})
	s.refused = 0 // it is another log
}

// backUpAndRestore: the user for backups can back up, and the user for restores
// can do all that the page about restores says, beside processes that run. The
// administrator can restore, too: it raises all tags.
func (s *site) backUpAndRestore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backup")
	s.must("backup", "backup", dir)
	conn := s.connect("backup")
	for _, stream := range []string{registerBucket, configBucket} {
		if _, err := natstest.TrySnapshot(conn, stream); err != nil {
			t.Errorf("back up %s: %v", stream, err)
		}
	}
	conn = s.connect("restore")
	for _, stream := range []string{registerBucket, configBucket, clockBucket} {
		natstest.TakeSnapshot(t, conn, stream).Restore(t, conn)
	}
	for _, user := range []string{"restore", "admin"} {
		if r := s.must(user, "restore", dir, "--yes"); strings.Contains(r.stdout, "snowflake") {
			t.Errorf("%s is told of a lost clock bucket:\n%s", user, r.stdout)
		}
	}
	config, err := natstest.JetStream(t, conn).KeyValue(t.Context(), "ids_config")
	if err == nil {
		err = config.Delete(t.Context(), lease.ClockIDKey)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// loadsByStream is how many load events the stream has ever taken.
func (s *site) loadsByStream() uint64 {
	s.t.Helper()
	js := natstest.JetStream(s.t, s.connect("admin"))
	stream, err := js.Stream(s.t.Context(), loadmsg.StreamName(messages.DefaultPrefix))
	if err != nil {
		return 0 // JetStream has just started
	}
	return stream.CachedInfo().State.LastSeq
}
