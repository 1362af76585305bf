package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// settleWithin is how long a connection may take to be back, and a server to know who is gone.
const settleWithin = natstest.Patience

// queueMembers counts the members of a subject's queue group that the server has.
func queueMembers(t *testing.T, net *natstest.Server, subject string) (n int) {
	t.Helper()
	subsz, err := net.Running().Subsz(&server.SubszOptions{Subscriptions: true, Limit: 100_000, Test: subject})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subsz.Subs {
		if s.Queue != "" {
			n++
		}
	}
	return n
}

// countLost asks n times and returns how many requests got no reply.
func countLost(t *testing.T, caller *nats.Conn, subject string, n int) (lost int) {
	t.Helper()
	var missing atomic.Int64
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if _, err := caller.Request(subject, messages.EncodeCount(1), 2*time.Second); err != nil {
				missing.Add(1)
			}
		})
	}
	all.Wait()
	return int(missing.Load())
}

// TestNoGhostAtAnyStage leaves a queue group and loses the connection at every stage of
// that. When the connection is back the server must not have a member of the group that
// answers nothing, and no request may be lost. With a backlog requests wait in the process
// while it leaves.
func TestNoGhostAtAnyStage(t *testing.T) {
	stages := map[string]func(g *ghostHunt){
		"never":                       func(g *ghostHunt) { g.leave() },
		"before leaving":              func(g *ghostHunt) { g.away(func() { g.leave() }) },
		"just before, back at once":   func(g *ghostHunt) { g.tap.cut(false); g.leave() },
		"right after":                 func(g *ghostHunt) { g.leave(); g.tap.cut(false) },
		"before UNSUB":                func(g *ghostHunt) { g.cutAt(false, "UNSUB", false) },
		"after UNSUB":                 func(g *ghostHunt) { g.cutAt(false, "UNSUB", true) },
		"before the answer to UNSUB":  func(g *ghostHunt) { g.cutAt(true, "PONG", false) },
		"after the answer":            func(g *ghostHunt) { g.cutAt(true, "PONG", true) },
		"before, and again at SUB":    func(g *ghostHunt) { g.cutAgainAt("SUB ids.snowflake", false) },
		"before, and again after SUB": func(g *ghostHunt) { g.cutAgainAt("SUB ids.snowflake", true) },
		"leaving at SUB":              func(g *ghostHunt) { g.leaveAt("SUB ids.snowflake") },
		"leaving at CONNECT":          func(g *ghostHunt) { g.leaveAt("CONNECT") },
	}
	for name, stage := range stages {
		for _, backlog := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, backlog %v", name, backlog), func(t *testing.T) {
				g := newGhostHunt(t)
				if backlog {
					g.makeBacklog()
				}
				stage(g)
				g.release()
				g.check()
			})
		}
	}
}

// ghostHunt is a member of a queue group whose connections are cut, beside a steady one.
type ghostHunt struct {
	t       *testing.T
	net     *natstest.Server
	tap     *tap
	base    *nats.Conn // the process's, through the tap
	caller  *nats.Conn // not through the tap
	group   *membership
	gate    chan struct{} // requests of the member are handled when it is closed
	release func()
}

func newGhostHunt(t *testing.T) *ghostHunt {
	t.Helper()
	net := natstest.Start(t)
	g := &ghostHunt{t: t, net: net, tap: startTap(t, net.URL()), caller: net.Connect(t), gate: make(chan struct{})}
	g.release = sync.OnceFunc(func() { close(g.gate) })
	t.Cleanup(g.release)
	g.base = connectThrough(t, g.tap)
	cfg := Config{Requests: g.base, Version: "0.0.1"}.WithDefaults()
	p := processInfo{cfg: cfg, stats: func() Stats { return Stats{} }}
	g.group = newMembership(zap.NewNop())
	handler := micro.HandlerFunc(func(req micro.Request) { <-g.gate; _ = req.Respond(nil) })
	err := <-g.group.join(func() (member, error) {
		return p.openPlace(snowflakeServiceName, "snowflake", cfg.Prefix.Snowflake(), func(*waitingLine) micro.Handler { return handler })
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.group.close)
	steady := net.Connect(t)
	if _, err := steady.QueueSubscribe(cfg.Prefix.Snowflake(), cfg.Prefix.QueueGroup(), func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		t.Fatal(err)
	}
	if err := steady.Flush(); err != nil {
		t.Fatal(err)
	}
	return g
}

func connectThrough(t *testing.T, p *tap) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(p.url(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func (g *ghostHunt) leave() { g.group.leave() }

// makeBacklog has requests wait in the member, which is held up.
func (g *ghostHunt) makeBacklog() {
	for range 100 {
		if err := g.caller.PublishRequest("ids.snowflake", g.caller.NewInbox(), []byte("1")); err != nil {
			g.t.Fatal(err)
		}
	}
	if err := g.caller.Flush(); err != nil {
		g.t.Fatal(err)
	}
}

// away does something while the connection is away.
func (g *ghostHunt) away(do func()) {
	g.tap.cut(true)
	natstest.Eventually(g.t, "the connection is away", func() bool { return !g.base.IsConnected() && g.group.missing() != nil })
	do()
	g.tap.open()
}

// cutAt leaves and is cut off where a text is sent.
func (g *ghostHunt) cutAt(server bool, text string, after bool) {
	sprung := g.tap.arm(server, text, after)
	g.leave()
	<-sprung
}

// leaveAt is cut off, and leaves at the moment when a text is sent on the way back.
func (g *ghostHunt) leaveAt(text string) {
	g.tap.cut(true)
	sprung := g.tap.arm(false, text, true)
	g.tap.open()
	<-sprung
	g.leave()
}

// cutAgainAt is cut off, leaves, and is cut off again where a text is sent, if it is.
func (g *ghostHunt) cutAgainAt(text string, after bool) {
	g.tap.cut(true)
	g.tap.arm(false, text, after)
	g.leave()
	g.tap.open()
}

// check fails the test if the server has a ghost in the group.
func (g *ghostHunt) check() {
	g.t.Helper()
	natstest.Eventually(g.t, "the connection is back", func() bool { return g.base.IsConnected() && g.base.Flush() == nil })
	ctx, cancel := context.WithTimeout(g.t.Context(), settleWithin)
	defer cancel()
	if g.group.awaitLeft(ctx); ctx.Err() != nil {
		g.t.Error("the member never leaves")
	}
	settled := func() bool { return queueMembers(g.t, g.net, "ids.snowflake") == 1 }
	for range 100 {
		if settled() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	lost := countLost(g.t, g.caller, "ids.snowflake", 40)
	if lost > 0 || !settled() {
		g.t.Errorf("%d of 40 requests lost; the group has %d members, want 1", lost, queueMembers(g.t, g.net, "ids.snowflake"))
	}
}

// TestCutsLoseNoRequest cuts the connections of a process at random moments around the loss
// of its worker ID and overloads, beside a steady process. When its connections are back not
// one request is lost, and the server's queue groups are what they were.
func TestCutsLoseNoRequest(t *testing.T) {
	rounds := tier.Pick(20, 200)
	net := natstest.Start(t)
	tap := startTap(t, net.URL())
	steady := startOn(t, net, func() *nats.Conn { return net.Connect(t) })
	shaky := startOn(t, net, func() *nats.Conn { return connectThrough(t, tap) })
	caller := net.Connect(t)
	half := answeringHalf(shaky)
	for _, a := range []*answering{half, answeringHalf(steady)} {
		natstest.Eventually(t, "there is a worker ID", func() bool { return a.snowflakes.state.Load().Generator != nil })
	}
	subjects := []string{"ids.segment.order", "ids.snowflake"}
	natstest.Eventually(t, "both answer", func() bool {
		return countLost(t, caller, subjects[0], 20) == 0 && !slices.ContainsFunc(subjects, func(s string) bool { return queueMembers(t, net, s) != 2 })
	})
	lost := 0
	for round := range rounds {
		var all sync.WaitGroup
		all.Go(func() { cutAtRandom(tap) })
		all.Go(func() { loseWorkerID(half.snowflakes) })
		all.Go(func() { overload(half.shedder) })
		all.Wait()
		natstest.Eventually(t, "all connections are back", func() bool {
			return shaky.Ready() == nil && half.snowflakes.group.missing() == nil
		})
		settled := func() bool {
			return !slices.ContainsFunc(subjects, func(s string) bool { return queueMembers(t, net, s) != 2 })
		}
		for range 100 {
			if settled() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		for _, subject := range subjects {
			if n := countLost(t, caller, subject, 20); n > 0 {
				t.Errorf("round %d: %d of 20 requests to %s lost", round, n, subject)
				lost += n
			}
			if n := queueMembers(t, net, subject); n != 2 {
				t.Fatalf("round %d: %d members in the group of %s, want 2", round, n, subject)
			}
		}
	}
	t.Logf("%d rounds, %d requests lost", rounds, lost)
}

func startOn(t *testing.T, net *natstest.Server, connect func() *nats.Conn) *Process {
	t.Helper()
	js, err := jetstream.New(net.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := jetstreamstore.Create(t.Context(), js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	s, err := jetstreamstore.Open(t.Context(), js, messages.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Start(t.Context(), Config{Store: s, Requests: connect(), Control: connect(), Version: "0.0.1", Wait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func answeringHalf(w *Process) *answering {
	for _, h := range w.halves {
		if a, ok := h.(*answering); ok {
			return a
		}
	}
	return nil
}

// cutAtRandom cuts all connections once or several times.
func cutAtRandom(p *tap) {
	for range 1 + rand.N(3) {
		time.Sleep(rand.N(15 * time.Millisecond))
		p.cut(rand.N(2) == 0)
		time.Sleep(rand.N(40 * time.Millisecond))
		p.open()
	}
}

// loseWorkerID leaves the group of snowflake requests and comes back, as when a worker ID is
// lost and claimed again.
func loseWorkerID(s *snowflakes) {
	for range 1 + rand.N(2) {
		time.Sleep(rand.N(20 * time.Millisecond))
		s.group.leave()
		time.Sleep(rand.N(20 * time.Millisecond))
		if g := s.state.Load().Generator; g != nil {
			s.answerWith(g)
		}
	}
}

// overload has the process leave and come back, as when requests wait for too long.
func overload(s *shedder) {
	time.Sleep(rand.N(20 * time.Millisecond))
	s.stayAway(true)
	s.awaitLeft(context.Background())
	s.stayAway(false)
}

// TestLeavingNeverReconnects: a connection on which requests are still handled after the
// process has left the group ends when it is lost. If it came back, the server would have a
// member again.
func TestLeavingNeverReconnects(t *testing.T) {
	g := newGhostHunt(t)
	g.makeBacklog()
	g.leave()
	conn := g.group.previous.(*place).conn
	natstest.Eventually(t, "the server knows", func() bool { return queueMembers(t, g.net, "ids.snowflake") == 1 })
	if err := conn.Flush(); err != nil { // whoever leaves knows that it does
		t.Fatal(err)
	}
	g.tap.cut(false)
	natstest.Eventually(t, "the process is connected again", func() bool { return g.base.IsConnected() && g.base.Flush() == nil })
	natstest.Eventually(t, "the connection that was left is closed", conn.IsClosed)
	if n := conn.Stats().Reconnects; n != 0 {
		t.Errorf("it came back %d times", n)
	}
	g.release()
}
