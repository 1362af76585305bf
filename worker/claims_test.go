package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/loadmsg"
)

// listener is a register that keeps what it hears, instead of checking it.
type listener struct {
	*register.Register
	stopped atomic.Bool

	mu    sync.Mutex
	heard []store.Claim
}

func newListener(t testing.TB, net network) *listener {
	return &listener{Register: newStore(t, net, 1)}
}

func (l *listener) Hear(_ context.Context, c store.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, c)
}

func (l *listener) Stopped() error {
	if l.stopped.Load() {
		return &store.RegressionError{Bucket: "ids_register", Reason: "went back"}
	}
	return nil
}

// from returns what was heard of a process.
func (l *listener) from(instance string) (all []store.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.heard {
		if c.By == instance {
			all = append(all, c)
		}
	}
	return all
}

// forget forgets what was heard.
func (l *listener) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = nil
}

func (l *listener) awaitAsked(t *testing.T) {
	t.Helper()
	natstest.Eventually(t, "all were asked", func() bool {
		select {
		case <-l.Asked():
			return true
		default:
			return false
		}
	})
}

// identity is the installation's ID and creation time.
func identity(t *testing.T, net network) (id string, created time.Time) {
	t.Helper()
	agreed, err := agreement.Open(t.Context(), newJetStream(t, net), messages.DefaultPrefix)
	if err == nil {
		id, created, err = agreed.Installation(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return id, created
}

// TestAsksAllBeforeItTakesLoads: before a loader takes its first load, it has heard
// what running workers and loaders have seen.
func TestAsksAllBeforeItTakesLoads(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	createTags(t, s, 10, "order")
	old := startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	w := startWorker(t, net, worker.Config{Role: worker.RoleWorker})
	newClient(t, net).must("order")
	l := newListener(t, net)
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: l})
	l.awaitAsked(t)
	claims := l.from(w.Instance())
	if len(claims) == 0 || claims[0].Floor != 1 || claims[0].Sequence == 0 {
		t.Errorf("heard of the worker: %+v", claims)
	}
	claims = l.from(old.Instance())
	if len(claims) == 0 || claims[0].Floor != 1 || claims[0].Sequence == 0 || claims[0].Entries == 0 {
		t.Errorf("heard of the loader: %+v", claims)
	}
}

// TestHearsALateAnswer: a process that was frozen while others were asked is heard
// when it answers.
func TestHearsALateAnswer(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	newStore(t, net, 1)
	id, created := identity(t, net)
	frozen := net.Connect(t)
	questions, err := frozen.SubscribeSync("$SRV.STATS.idworker-process")
	if err == nil {
		err = frozen.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(t, net)
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: l})
	l.awaitAsked(t)
	if claims := l.from("W"); len(claims) > 0 {
		t.Fatalf("heard before the answer: %+v", claims)
	}
	question, err := questions.NextMsg(natstest.Patience)
	if err == nil {
		err = question.Respond([]byte(claimsOf("W", id, created, `[{"floor":1,"sequence":100}]`)))
	}
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the late answer", func() bool {
		return slices.Contains(l.from("W"), store.Claim{By: "W", Floor: 1, Sequence: 100})
	})
}

// claimsOf is an answer to STATS with claims.
func claimsOf(instance, installation string, created time.Time, claims string) string {
	metadata, _ := json.Marshal(map[string]string{
		"instance": instance, "prefix": "ids", "installation": installation, "role": "worker", "created": created.Format(time.RFC3339Nano),
	})
	return fmt.Sprintf(`{"name":"idworker-process","id":"x","version":"0.3.0","metadata":%s,"endpoints":[{"data":{"claims":%s}}]}`, metadata, claims)
}

// TestClaimsAfterAReconnect: a process that was cut off reports to all loaders what it
// has seen as soon as it is back.
func TestClaimsAfterAReconnect(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	l := newListener(t, net)
	createTags(t, l.Register, 10, "order")
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: l})
	l.awaitAsked(t)
	way := proxy.Start(t, net.URL())
	w, err := startProcess(t.Context(), configure(t, behind{net, way}, worker.Config{Role: worker.RoleWorker}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, w) })
	newClient(t, net).must("order")
	l.forget()
	way.Cut()
	natstest.Eventually(t, "the worker's claim", func() bool {
		claims := l.from(w.Instance())
		return len(claims) > 0 && claims[0].Floor == 1 && claims[0].Sequence > 0
	})
}

// TestStoppedLoaderTellsOthers: a loader that has stopped reports to the others what it
// has seen, without being asked.
func TestStoppedLoaderTellsOthers(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	stopped := newListener(t, net)
	s := startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: stopped})
	l := newListener(t, net)
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: l})
	l.awaitAsked(t)
	l.forget()
	stopped.stopped.Store(true)
	natstest.Eventually(t, "the claim of the stopped loader", func() bool { return len(l.from(s.Instance())) > 0 })
}

// TestIgnoresClaims: claims of other installations, which are named once, and
// messages that are none, do not reach the store. A process cannot claim in the
// name of another, except that it has heard so.
func TestIgnoresClaims(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	newStore(t, net, 1)
	id, created := identity(t, net)
	l := newListener(t, net)
	core, logs := observer.New(zap.WarnLevel)
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: l, Log: zap.New(core)})
	l.awaitAsked(t)
	l.forget()
	conn := net.Connect(t)
	send := func(m loadmsg.Claims) {
		t.Helper()
		publishClaims(t, conn, m.Encode())
	}
	claim := store.Claim{Floor: 1, Sequence: 1 << 40}
	for range 2 {
		send(loadmsg.Claims{Instance: "foreign", Installation: "another", Created: created, Claims: []store.Claim{claim}})
		send(loadmsg.Claims{Instance: "foreign", Installation: id, Created: created.Add(-time.Hour), Claims: []store.Claim{claim}})
	}
	for _, bad := range []string{
		"null", "[]", "7", "{", strings.Repeat("[", 100_000), `{"instance":"bad.","claims":[]}`,
		fmt.Sprintf(`{"instance":"bad","installation":%q,"created":%q,"claims":[{"floor":-1}]}`, id, created.Format(time.RFC3339Nano)),
		fmt.Sprintf(`{"instance":"bad","installation":%q,"created":%q,"claims":[%s{"floor":1}]}`, id, created.Format(time.RFC3339Nano), strings.Repeat(`{"floor":1},`, loadmsg.MaxClaims)),
	} {
		publishClaims(t, conn, []byte(bad))
	}
	heard := store.Claim{By: "liar", Floor: 1, Sequence: 7, Heard: true}
	send(loadmsg.Claims{Instance: "good", Installation: id, Created: created, Claims: []store.Claim{{By: "liar", Floor: 1, Sequence: 5}, heard}})
	natstest.Eventually(t, "the good message", func() bool { return slices.Contains(l.from("liar"), heard) })
	if got := l.from("good"); len(got) != 1 || got[0].Sequence != 5 || len(l.from("liar")) != 1 || len(l.from("foreign"))+len(l.from("bad")) > 0 {
		t.Errorf("heard %+v", l.heard)
	}
	for message, want := range map[string]int{"claims of another installation ignored": 2, "claims ignored": 1} {
		if got := logs.FilterMessage(message).Len(); got != want {
			t.Errorf("%d lines %q, want %d", got, message, want)
		}
	}
}

// publishClaims publishes claims to all loaders.
func publishClaims(t *testing.T, conn *nats.Conn, data []byte) {
	t.Helper()
	if err := conn.Publish(loadmsg.LoadersSubject(messages.DefaultPrefix), data); err != nil {
		t.Fatal(err)
	}
}

// TestFirstLoaderAsksNobody: the process that has made the installation need not
// wait for others. The next one asks.
func TestFirstLoaderAsksNobody(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	spy, err := net.Connect(t).SubscribeSync("$SRV.STATS.idworker-process")
	if err == nil {
		err = spy.SetPendingLimits(-1, -1)
	}
	if err != nil {
		t.Fatal(err)
	}
	questions := func() int {
		t.Helper()
		n, _, err := spy.Pending()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for n, asks := range []bool{false, true} {
		w := startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: newStore(t, net, 1), Made: !asks})
		natstest.Eventually(t, "a loader that takes loads", func() bool { return w.Ready() == nil })
		natstest.Eventually(t, "the question", func() bool { return !asks || questions() > 0 })
		if !asks && questions() > 0 {
			t.Errorf("loader %d has asked others", n)
		}
	}
}
