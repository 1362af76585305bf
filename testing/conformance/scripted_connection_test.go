package conformance

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
)

// connectionCases are about rights, limits and lost connections.
var connectionCases = []testCase{
	{name: "10 a denied right ends a call", run: deniedRight},
	{name: "10 other refusals end no call", run: otherRefusals},
	{name: "10 a denied inbox ends a call", run: deniedInbox},
	{name: "11 a thousand calls use one subscription", run: thousandCalls},
	{name: "12 a lost link delays calls", run: lostLink},
	{name: "12 a link is cut in the first try", run: killedLink},
	{name: "12 the end of the connection ends calls", needs: []string{"borrow"}, run: endedConnection},
	{name: "12 closing the client ends calls", needs: []string{"close"}, run: closedClient},
	{name: "15 connecting fails at once", run: badConnect},
	{name: "15 an inbox that gets no replies", run: foreignInbox},
}

// withUsers makes a server with two users, the responder and a caller, who may not
// publish or subscribe to these subjects.
func withUsers(publish, subscribe []string) func(*server.Options) {
	return func(o *server.Options) {
		o.Users = []*server.User{
			{Username: responderUser, Password: password},
			{Username: "caller", Password: password, Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: publish}, Subscribe: &server.SubjectPermission{Deny: subscribe},
			}},
		}
	}
}

// caller are the fields of a connection of that user.
func caller(inbox string) op {
	return op{"user": "caller", "password": password, "inbox_prefix": inbox}
}

// deniedRight: the server does not reply to a refused request. A client notices
// the refusal.
func deniedRight(t *testing.T, d *driver) {
	s := newScene(t, d, withUsers([]string{"ids.segment.denied", "ids.segment.Denied.TOO", "ids.snowflake"}, nil))
	c := s.connect(caller("_INBOX_caller"))
	for k := range 2 {
		for _, call := range []op{
			next(c, "denied"), nextN(c, "denied", 2), next(c, "Denied.TOO"),
			{"op": "snowflake", "client": c, "timeout_ms": callTimeout},
		} {
			r := s.do(call)
			if wantKind(t, fmt.Sprint(call, ", call ", k+1), r, "denied"); r.err != nil && r.err.Retryable {
				t.Errorf("%v: %v; want it not retryable", call, r)
			}
		}
		s.on("ids.segment.denied.not", serve)
		wantOK(t, "an allowed tag", s.do(next(c, "denied.not")))
	}
	for range 2 {
		crowd := op{"op": "many", "client": c, "callers": 25, "calls": 1, "timeout_ms": callTimeout}
		one, other := s.begin(crowd.with("tag", "denied")), s.begin(crowd.with("tag", "Denied.TOO"))
		wantErrors(t, "25 callers", s.await(one), map[string]int64{"denied": 25})
		wantErrors(t, "25 others", s.await(other), map[string]int64{"denied": 25})
	}
}

// otherRefusals: a refusal that came before the call, or names another subject,
// or a subscription, does not concern the call.
func otherRefusals(t *testing.T, d *driver) {
	s := newScene(t, d, withUsers([]string{"ids.segment.denied"}, nil))
	line := proxy.Start(t, s.srv.URL())
	c := s.connect(caller("_INBOX_caller").with("url", line.URL()))
	refuse := func(what, subject string) {
		line.Inject(proxy.ToClient, fmt.Sprintf("-ERR 'Permissions Violation for %s to %q'\r\n", what, subject))
		s.fence(c) // the client has read it
	}
	for tag, during := range map[string]func(){
		"denied.too":  func() { wantKind(t, "another tag", s.do(next(c, "denied")), "denied") },
		"longer":      func() { refuse("Publish", "ids.segment.long") },
		"short":       func() { refuse("Publish", "ids.segment.short.not") },
		"subscribed":  func() { refuse("Subscription", "ids.segment.subscribed") },
		"other.inbox": func() { refuse("Subscription", "_INBOX.of.another.*") },
		"older":       func() {},
	} {
		refuse("Publish", "ids.segment.older")
		s.on(segment+tag, silent)
		one, two := s.begin(next(c, tag)), s.begin(nextN(c, tag, 2))
		s.waitCalls(segment+tag, 2)
		during()
		// Calls look for refusals when a wait ends: twice at least.
		enough := len(s.requests(segment+tag)) + 6
		natstest.Eventually(t, "further tries", func() bool {
			return len(s.requests(segment+tag)) >= enough || one.isDone() || two.isDone()
		})
		s.on(segment+tag, serve)
		wantOK(t, tag, s.await(one))
		wantOK(t, tag+", for two", s.await(two))
	}
}

// deniedInbox: without replies, a client notices the refusal of its inbox, and
// subscribes again in the next call.
func deniedInbox(t *testing.T, d *driver) {
	s := newScene(t, d, withUsers(nil, []string{"_INBOX_denied.>"}))
	c := s.connect(caller("_INBOX_denied"))
	s.on("ids.segment.order", serve)
	for k := range 3 {
		wantKind(t, fmt.Sprint("call ", k+1), s.do(next(c, "order")), "denied")
		wantKind(t, fmt.Sprint("call ", k+1, " for two"), s.do(nextN(c, "order", 2)), "denied")
		crowd := s.do(op{"op": "many", "client": c, "tag": "order", "callers": 25, "calls": 1, "timeout_ms": callTimeout})
		wantErrors(t, "25 callers", crowd, map[string]int64{"denied": 25})
	}
}

// thousandCalls: nats.conf limits the subscriptions of a connection to 100.
func thousandCalls(t *testing.T, d *driver) {
	s := newScene(t, d, func(o *server.Options) { o.MaxSubs = 100 })
	c := s.connect(nil)
	before := s.connections()
	s.onCalls("ids.segment.order", silent, silent, serve)
	var calls []*pending
	for range 1000 {
		calls = append(calls, s.begin(nextN(c, "order", 1)))
	}
	for _, call := range calls {
		wantOK(t, "a call", s.await(call))
	}
	after := s.connections()
	for cid, conn := range after {
		if before[cid] == nil || conn.NumSubs > 2 {
			t.Errorf("connection %d has %d subscriptions, and was there before: %t; want at most 2, true", cid, conn.NumSubs, before[cid] != nil)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d connections, %d before", len(after), len(before))
	}
}

// lostLink: calls last until the link is back, and send nothing before.
func lostLink(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	for _, tag := range []string{"waits", "waits.too", "during", "during.too", "probe", "sent"} {
		s.on(segment+tag, silent)
	}
	calls := []*pending{s.begin(next(c, "waits")), s.begin(nextN(c, "waits.too", 2))}
	s.waitRequests("ids.segment.waits", 1)
	s.waitRequests("ids.segment.waits.too", 1)

	s.srv.Stop()
	probe := func() bool {
		r := s.do(next(c, "sent").with("timeout_ms", 300))
		return r.kind() == "timeout" && r.err.Reason == "disconnected"
	}
	natstest.Eventually(t, "a call fails because the link is lost", probe)
	// The client has noticed the loss, so these calls send nothing.
	var probes []*pending
	for range 5 {
		probes = append(probes, s.begin(next(c, "probe").with("timeout_ms", shortTimeout)), s.begin(nextN(c, "probe", 2).with("timeout_ms", shortTimeout)))
	}
	for _, probe := range probes {
		wantTimeout(t, "without a link", s.await(probe), "disconnected")
	}
	for _, call := range calls {
		if call.isDone() {
			t.Errorf("%v ended without a link: %v", call.op, s.await(call))
		}
	}
	calls = append(calls, s.begin(next(c, "during")), s.begin(nextN(c, "during.too", 2)))

	s.srv.Restart()
	for _, call := range calls {
		s.on(segment+call.op["tag"].(string), serve)
	}
	for _, call := range calls {
		wantOK(t, fmt.Sprint(call.op), s.await(call))
	}
	s.fence(c)
	if n := len(s.requests("ids.segment.probe")); n > 0 {
		t.Errorf("%d requests of calls that ended before the link was back", n)
	}
}

// killedLink: a request is lost with the link, and so is its reply.
func killedLink(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.fence(c)
	for k := range 3 {
		tag := fmt.Sprint("cut", k)
		s.on(segment+tag, silent)
		call := s.begin(next(c, tag))
		s.waitRequests(segment+tag, 1)
		s.d.must(t, op{"op": "kill_link", "client": c})
		s.on(segment+tag, serve)
		wantOK(t, tag, s.await(call))
	}
}

// endedConnection: no call, and no prefetcher, waits on a connection that will not
// be back.
func endedConnection(t *testing.T, d *driver) {
	s := newScene(t, d)
	s.on("ids.segment.order", silent)
	for _, end := range []string{"close_connection", "drain"} {
		c := s.connect(op{"own": false})
		arrived := len(s.calls("ids.segment.order"))
		p := s.prefetch(c, "order", nil)
		calls := []*pending{s.begin(next(c, "order")), s.begin(nextN(c, "order", 2)), s.begin(take(p, 1, 1))}
		s.waitCalls("ids.segment.order", arrived+3)
		s.d.must(t, op{"op": end, "client": c})
		calls = append(calls, s.begin(next(c, "order")), s.begin(nextN(c, "order", 2)), s.begin(take(p, 1, 1)))
		for _, call := range calls {
			r := s.await(call)
			if wantKind(t, end, r, "connection"); r.err != nil && r.err.Retryable {
				t.Errorf("%s: %v; want it not retryable", end, r)
			}
		}
	}
}

// closedClient: closing a client ends its calls, present and future.
func closedClient(t *testing.T, d *driver) {
	s := newScene(t, d)
	s.on("ids.segment.order", silent)
	for _, own := range []bool{true, false} {
		c := s.connect(op{"own": own})
		arrived := len(s.calls("ids.segment.order"))
		calls := []*pending{s.begin(next(c, "order")), s.begin(nextN(c, "order", 2))}
		s.waitCalls("ids.segment.order", arrived+2)
		s.d.must(t, op{"op": "close", "client": c})
		calls = append(calls, s.begin(next(c, "order")), s.begin(nextN(c, "order", 2)))
		for _, call := range calls {
			wantKind(t, "closed client", s.await(call), "closed")
		}
	}
}

// badConnect: a wrong address or password is an error of connecting.
func badConnect(t *testing.T, d *driver) {
	s := newScene(t, d, withUsers(nil, nil))
	connect := op{"op": "connect", "client": d.newName(), "url": s.srv.URL(), "user": "caller", "password": password}
	for what, o := range map[string]op{
		"password": connect.with("password", "wrong"),
		"user":     connect.with("user", "unknown"),
		"server":   connect.with("url", fmt.Sprint("nats://127.0.0.1:", freeport.Get(t))),
	} {
		r := s.do(o)
		if wantKind(t, "wrong "+what, r, "connection"); r.err != nil && r.err.Text == "" {
			t.Errorf("wrong %s: the error has no text", what)
		}
	}
}

// foreignInbox: workers may reply only to the inboxes of callers.
func foreignInbox(t *testing.T, d *driver) {
	s := newScene(t, d, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: responderUser, Password: password, Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"_INBOX_foreign.>"}},
			}},
			{Username: "caller", Password: password},
		}
	})
	foreign, c := s.connect(caller("_INBOX_foreign")), s.connect(caller("_INBOX_caller"))
	s.on("ids.segment.order", serve)
	one := s.begin(next(foreign, "order").with("timeout_ms", shortTimeout))
	two := s.begin(nextN(foreign, "order", 2).with("timeout_ms", shortTimeout))
	wantOK(t, "the right inbox", s.do(next(c, "order")))
	wantTimeout(t, "one", s.await(one), "no_reply")
	wantTimeout(t, "two", s.await(two), "no_reply")
}
