package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/testing/tier"
)

// countLost sends n requests and returns the number without a reply. Only these
// are lost: without a responder, the caller gets an error, and retries.
func countLost(t *testing.T, caller *nats.Conn, subject string, n int) (lost int) {
	t.Helper()
	var missing atomic.Int64
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			err := natstest.Await(natstest.Patience, "a reply", func() error {
				_, err := caller.Request(subject, messages.EncodeCount(1), natstest.Patience)
				if errors.Is(err, nats.ErrTimeout) {
					err = fmt.Errorf("%w: %w", natstest.ErrFinal, err)
				}
				return err
			})
			if err != nil {
				missing.Add(1)
			}
		})
	}
	all.Wait()
	return int(missing.Load())
}

// TestNoGhostAtAnyStage leaves a queue group and loses the connection at every
// stage of leaving. When the connection is back, the server must not have a
// dead member of the group, and no request may be lost. With a backlog,
// requests wait in the process while it leaves.
func TestNoGhostAtAnyStage(t *testing.T) {
	stages := map[string]func(g *ghostHunt){
		"never":                       func(g *ghostHunt) { g.leave() },
		"before leaving":              func(g *ghostHunt) { g.away(func() { g.leave() }) },
		"just before, back at once":   func(g *ghostHunt) { g.tap.Cut(); g.leave() },
		"right after":                 func(g *ghostHunt) { g.leave(); g.tap.Cut() },
		"before UNSUB":                func(g *ghostHunt) { g.cutAt(proxy.ToServer, "UNSUB", false) },
		"after UNSUB":                 func(g *ghostHunt) { g.cutAt(proxy.ToServer, "UNSUB", true) },
		"before the answer to UNSUB":  func(g *ghostHunt) { g.cutAt(proxy.ToClient, "PONG", false) },
		"after the answer":            func(g *ghostHunt) { g.cutAt(proxy.ToClient, "PONG", true) },
		"before, and again at SUB":    func(g *ghostHunt) { g.cutAgainAt("SUB ids.snowflake", false) },
		"before, and again after SUB": func(g *ghostHunt) { g.cutAgainAt("SUB ids.snowflake", true) },
		"leaving at SUB":              func(g *ghostHunt) { g.leaveAt("SUB ids.snowflake") },
		"leaving at CONNECT":          func(g *ghostHunt) { g.leaveAt("CONNECT") },
	}
	t.Parallel()
	for name, stage := range stages {
		for _, backlog := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, backlog %v", name, backlog), func(t *testing.T) {
				t.Parallel()
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

// ghostHunt is a member of a queue group whose connections are cut, next to a
// steady member.
type ghostHunt struct {
	t      *testing.T
	net    Account
	tap    *proxy.Proxy
	base   *nats.Conn // the process's, through the tap
	caller *nats.Conn // not through the tap
	group  *queueGroup
	// Requests of the member are handled when it is closed.
	gate    chan struct{}
	release func()
	members chan *endpointConn // all opened members
}

func newGhostHunt(t *testing.T) *ghostHunt {
	t.Helper()
	net := NewAccount(t)
	g := &ghostHunt{t: t, net: net, tap: proxy.Start(t, shared.running.ClientURL()), caller: net.Connect(t), gate: make(chan struct{}), members: make(chan *endpointConn, 100)}
	g.release = sync.OnceFunc(func() { close(g.gate) })
	t.Cleanup(g.release)
	g.base = connectTo(t, g.tap.URL(), net.login())
	g.group = newQueueGroup(zap.NewNop())
	g.group.start()
	t.Cleanup(g.group.close)
	g.group.answerWith(g)
	if err := g.group.awaitEntered(t.Context()); err != nil {
		t.Fatal(err)
	}
	steady := net.Connect(t)
	if _, err := steady.QueueSubscribe("ids.snowflake", "ids", func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		t.Fatal(err)
	}
	if err := steady.Flush(); err != nil {
		t.Fatal(err)
	}
	return g
}

// open opens the member.
func (g *ghostHunt) open() (member, error) {
	service := micro.Config{Name: snowflakeServiceName, Version: "0.0.1", QueueGroup: "ids"}
	c, err := openEndpoint(g.base, service, endpointInfo{name: "snowflake", subject: "ids.snowflake"}, &queueDelay{limit: natstest.Patience, lost: natstest.Patience}, held{gate: g.gate})
	if err != nil {
		return nil, err
	}
	g.members <- c
	return c, nil
}

// held is an endpoint that handles requests when its gate is closed.
type held struct{ gate chan struct{} }

func (h held) Handle(req micro.Request) { <-h.gate; _ = req.Respond(nil) }
func (h held) End()                     {}

func (g *ghostHunt) leave() { g.group.answerWith(nil) }

// backlogSize is the number of requests that makeBacklog sends.
const backlogSize = 100

// makeBacklog makes requests wait in the blocked member, and returns the
// replies.
func (g *ghostHunt) makeBacklog() *nats.Subscription {
	g.t.Helper()
	inbox := g.caller.NewInbox()
	replies, err := g.caller.SubscribeSync(inbox)
	if err != nil {
		g.t.Fatal(err)
	}
	for range backlogSize {
		if err := g.caller.PublishRequest("ids.snowflake", inbox, []byte("1")); err != nil {
			g.t.Fatal(err)
		}
	}
	if err := g.caller.Flush(); err != nil {
		g.t.Fatal(err)
	}
	return replies
}

// away does something while the connection is lost.
func (g *ghostHunt) away(do func()) {
	g.tap.Refuse()
	natstest.Eventually(g.t, "the connection is away", func() bool { return !g.base.IsConnected() && g.group.missing() != nil })
	do()
	g.tap.Mend()
}

// cutAt leaves and loses the connection where a text is sent.
func (g *ghostHunt) cutAt(to proxy.Direction, text string, after bool) {
	sprung := g.tap.CutAt(to, text, after)
	g.leave()
	g.await(sprung)
}

// leaveAt loses the connection, and leaves when a text is sent at the
// reconnect.
func (g *ghostHunt) leaveAt(text string) {
	g.tap.Refuse()
	sprung := g.tap.CutAt(proxy.ToServer, text, true)
	g.tap.Mend()
	g.await(sprung)
	g.leave()
}

func (g *ghostHunt) await(sprung <-chan struct{}) {
	g.t.Helper()
	select {
	case <-sprung:
	case <-time.After(natstest.Patience):
		g.t.Fatal("the text was not sent")
	}
}

// cutAgainAt loses the connection, leaves, and loses the connection again where
// a text is sent, if it is.
func (g *ghostHunt) cutAgainAt(text string, after bool) {
	g.tap.Refuse()
	g.tap.CutAt(proxy.ToServer, text, after)
	g.leave()
	g.tap.Mend()
}

// check fails the test if the server has a ghost in the group.
func (g *ghostHunt) check() {
	g.t.Helper()
	natstest.Eventually(g.t, "the connection is back", func() bool { return g.base.IsConnected() && g.base.Flush() == nil })
	for len(g.members) > 0 {
		select {
		case <-(<-g.members).left():
		case <-time.After(natstest.Patience):
			g.t.Error("the member never leaves")
		}
	}
	natstest.Eventually(g.t, "the group has one member", func() bool { return QueueMembers(g.t, g.net, "ids.snowflake") == 1 })
	if lost := countLost(g.t, g.caller, "ids.snowflake", 40); lost > 0 {
		g.t.Errorf("%d of 40 requests lost", lost)
	}
}

// TestCutsLoseNoRequest cuts the connections of a process at random moments
// around the loss of its worker ID and while it leaves, next to a steady
// process. When its connections are back, no request is lost, and the server's
// queue groups are as before.
func TestCutsLoseNoRequest(t *testing.T) {
	t.Parallel()
	rounds, random := tier.Pick(5, 200), moments{NewRandom(t)}
	net := NewAccount(t)
	tap := proxy.Start(t, shared.running.ClientURL())
	steady := startOn(t, net, func() *nats.Conn { return net.Connect(t) })
	shaky := startOn(t, net, func() *nats.Conn { return connectTo(t, tap.URL(), net.login()) })
	caller := net.Connect(t)
	groups := shaky.groups
	for _, a := range []*queueGroups{groups, steady.groups} {
		natstest.Eventually(t, "there is a worker ID", func() bool { return a.workerID.state.Load().Generator != nil })
	}
	subjects := []string{"ids.segment.order", "ids.snowflake"}
	settled := func() bool {
		return !slices.ContainsFunc(subjects, func(s string) bool { return QueueMembers(t, net, s) != 2 })
	}
	natstest.Eventually(t, "both are in the groups", settled)
	for round := range rounds {
		var all sync.WaitGroup
		all.Go(func() { random.cut(tap) })
		all.Go(func() { random.loseWorkerID(groups.workerID) })
		all.Go(func() { random.standBy(groups) })
		all.Wait()
		natstest.Eventually(t, "all connections are back", func() bool {
			return shaky.Ready() == nil && groups.workerID.group.missing() == nil
		})
		natstest.Eventually(t, "only these two are in the groups again", settled)
		for _, subject := range subjects {
			if n := countLost(t, caller, subject, 20); n > 0 {
				t.Errorf("round %d: %d of 20 requests to %s lost", round, n, subject)
			}
		}
	}
}

func startOn(t *testing.T, net Account, connect func() *nats.Conn) *Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	js := natstest.JetStream(t, net.Connect(t, nats.ReconnectBufSize(-1)))
	if _, err := Provision(ctx, Config{JetStream: js}); err != nil {
		t.Fatal(err)
	}
	s, err := register.Open(t.Context(), register.Config{JetStream: js, Prefix: messages.DefaultPrefix})
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewPatient(ctx, Config{Store: s, Requests: connect(), Control: connect(), Version: "0.0.1", Wait: time.Second})
	if err == nil {
		err = w.Start(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		switch err := w.Stop(); {
		case IsPassing(err):
			t.Logf("stop: %v", err)
		case err != nil:
			t.Error(err)
		}
	})
	return w
}

// moments are random moments.
type moments struct{ *Random }

// wait waits for less than some milliseconds.
func (m moments) wait(ms int) { time.Sleep(m.Below(time.Duration(ms) * time.Millisecond)) }

// cut cuts all connections once or several times.
func (m moments) cut(p *proxy.Proxy) {
	for range 1 + m.N(3) {
		m.wait(15)
		if m.N(2) == 0 {
			p.Refuse()
		} else {
			p.Cut()
		}
		m.wait(40)
		p.Mend()
	}
}

// loseWorkerID leaves the group of snowflake requests and comes back, as when a
// worker ID is lost and claimed again.
func (m moments) loseWorkerID(s *workerID) {
	for range 1 + m.N(2) {
		m.wait(20)
		s.group.answerWith(nil)
		m.wait(20)
		if g := s.state.Load().Generator; g != nil {
			s.group.answerWith(snowflakeRequests{s.entrance, g})
		}
	}
}

// standBy makes the process leave both groups and come back.
func (m moments) standBy(s *queueGroups) {
	m.wait(20)
	s.standBy(true)
	m.wait(20)
	s.standBy(false)
}

// TestLeavingAnswersWhatWasDelivered: requests that wait in the process when it
// leaves the group are answered.
func TestLeavingAnswersWhatWasDelivered(t *testing.T) {
	t.Parallel()
	g := newGhostHunt(t)
	replies := g.makeBacklog()
	g.leave()
	natstest.Eventually(t, "the server knows", func() bool { return QueueMembers(t, g.net, "ids.snowflake") == 1 })
	g.release()
	for n := range backlogSize {
		if _, err := replies.NextMsg(natstest.Patience); err != nil {
			t.Fatalf("%d of %d requests are answered: %v", n, backlogSize, err)
		}
	}
}

// TestLeavingNeverReconnects: if a connection is lost while requests are
// handled after the process has left the group, it is closed. If it came back,
// the server would have a member again.
func TestLeavingNeverReconnects(t *testing.T) {
	t.Parallel()
	g := newGhostHunt(t)
	g.makeBacklog()
	g.leave()
	conn := (<-g.members).conn
	natstest.Eventually(t, "the server knows", func() bool { return QueueMembers(t, g.net, "ids.snowflake") == 1 })
	if err := conn.Flush(); err != nil { // a process that leaves must detect it
		t.Fatal(err)
	}
	g.tap.Cut()
	natstest.Eventually(t, "the process is connected again", func() bool { return g.base.IsConnected() && g.base.Flush() == nil })
	natstest.Eventually(t, "the connection that was left is closed", conn.IsClosed)
	if n := conn.Stats().Reconnects; n != 0 {
		t.Errorf("it came back %d times", n)
	}
	g.release()
}
