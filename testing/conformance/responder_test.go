package conformance

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// responder answers requests by a script, and records them. It handles all
// requests of all subjects one by one, in the order in which the server delivers
// them: once a client's later request was answered, its earlier ones are
// recorded.
type responder struct {
	t       testing.TB
	srv     *natstest.Node
	conn    *nats.Conn
	arrived chan *nats.Msg

	mu      sync.Mutex
	scripts map[string]step             // by subject
	all     []*request                  // in order of arrival
	count   map[string]int              // of requests, by subject
	next    int64                       // the next ID to grant
	granted map[string][]messages.Range // by reply subject
}

// request is a request that has arrived.
type request struct {
	subject, reply, body string
	header               nats.Header
	k                    int   // its number among those of the subject, from 1
	n                    int64 // IDs requested, 0 if the body is malformed
}

// step is what the responder does with a request. It runs with the responder's
// lock held.
type step func(r *responder, q *request)

// startResponder starts a server and a responder for a test.
func startResponder(t testing.TB, options ...func(*server.Options)) *responder {
	t.Helper()
	srv := natstest.Start(t, append([]func(*server.Options){func(o *server.Options) { o.JetStream, o.NoLog = false, true }}, options...)...)
	r := &responder{
		t: t, srv: srv, arrived: make(chan *nats.Msg, 1<<16), next: 1,
		count: make(map[string]int), scripts: make(map[string]step), granted: make(map[string][]messages.Range),
	}
	quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}) // the server may refuse its replies
	r.conn = srv.Connect(t, nats.UserInfo(responderUser, password), quiet)
	var handler sync.WaitGroup
	handler.Go(r.handle)
	t.Cleanup(func() {
		r.conn.Close()
		close(r.arrived)
		handler.Wait()
	})
	return r
}

// The responder's user, for servers with users.
const responderUser, password = "responder", "secret"

func (r *responder) handle() {
	for msg := range r.arrived {
		r.locked(func() {
			r.count[msg.Subject]++
			q := &request{subject: msg.Subject, reply: msg.Reply, body: string(msg.Data), header: msg.Header, k: r.count[msg.Subject]}
			q.n, _ = messages.DecodeCount(msg.Data, 1<<62)
			r.all = append(r.all, q)
			r.scripts[q.subject](r, q)
		})
	}
}

func (r *responder) locked(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// on makes the responder answer the requests on a subject: request k by step k,
// and those after the last step by the last. Before it, the server reports that
// no process responds.
func (r *responder) on(subject string, steps ...step) {
	r.t.Helper()
	r.follow(subject, func(r *responder, q *request) { steps[min(q.k, len(steps))-1](r, q) })
}

// onCalls is on, with steps for the tries of each call.
func (r *responder) onCalls(subject string, steps ...step) {
	r.t.Helper()
	tries := make(map[string]int)
	r.follow(subject, func(r *responder, q *request) {
		tries[q.reply]++
		steps[min(tries[q.reply], len(steps))-1](r, q)
	})
}

// follow is on, with a step for all requests.
func (r *responder) follow(subject string, script step) {
	r.t.Helper()
	isNew := false
	r.locked(func() {
		isNew = r.scripts[subject] == nil
		r.scripts[subject] = script
	})
	if !isNew {
		return
	}
	_, err := r.conn.ChanSubscribe(subject, r.arrived)
	if err == nil {
		err = r.conn.FlushTimeout(natstest.Patience)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// answer answers an earlier request.
func (r *responder) answer(q *request, with step) { r.locked(func() { with(r, q) }) }

// requests are those that have arrived on a subject, in order.
func (r *responder) requests(subject string) (found []*request) {
	r.locked(func() {
		for _, q := range r.all {
			if q.subject == subject {
				found = append(found, q)
			}
		}
	})
	return found
}

// calls are the first requests of each call that have arrived on a subject.
func (r *responder) calls(subject string) (first []*request) {
	replies := make(map[string]bool)
	for _, q := range r.requests(subject) {
		if !replies[q.reply] {
			replies[q.reply] = true
			first = append(first, q)
		}
	}
	return first
}

// waitCalls waits until so many calls have sent requests on a subject.
func (r *responder) waitCalls(subject string, n int) []*request {
	r.t.Helper()
	natstest.Eventually(r.t, fmt.Sprintf("requests of %d calls on %s", n, subject), func() bool { return len(r.calls(subject)) >= n })
	return r.calls(subject)
}

// waitRequests waits until so many requests have arrived on a subject.
func (r *responder) waitRequests(subject string, n int) []*request {
	r.t.Helper()
	natstest.Eventually(r.t, fmt.Sprintf("%d requests on %s", n, subject), func() bool { return len(r.requests(subject)) >= n })
	return r.requests(subject)
}

// request waits for request k of a subject, from 1.
func (r *responder) request(subject string, k int) *request {
	r.t.Helper()
	return r.waitRequests(subject, k)[k-1]
}

// grantedBy are the IDs in good replies to the call of a request, in the order of
// replies.
func (r *responder) grantedBy(q *request) (ids []string) {
	r.locked(func() {
		for _, granted := range r.granted[q.reply] {
			ids = append(ids, granted.String())
		}
	})
	return ids
}

// isGranted returns a function that reports whether all IDs of a range were
// granted to requests until now.
func (r *responder) isGranted() func(messages.Range) bool {
	var all []messages.Range
	r.locked(func() {
		for _, q := range r.all {
			all = append(all, r.granted[q.reply]...)
		}
	})
	all = sortRanges(all)
	return func(want messages.Range) bool {
		for _, g := range all {
			if g.First <= want.First && want.First <= g.Last {
				if want.Last <= g.Last {
					return true
				}
				want.First = g.Last + 1
			}
		}
		return false
	}
}

// sortRanges sorts ranges by their first IDs.
func sortRanges(all []messages.Range) []messages.Range {
	slices.SortFunc(all, func(a, b messages.Range) int { return cmp.Compare(a.First, b.First) })
	return all
}

// The steps.

// silent does not answer.
func silent(*responder, *request) {}

// serve grants fresh IDs.
func serve(r *responder, q *request) {
	ids := messages.Range{First: r.next, Last: r.next + q.n - 1}
	r.next += q.n + 1 // so that the next range is not a part of this one
	reply(nil, ids.String())(r, q)
}

// refuse replies with an error.
func refuse(code messages.Code, text string) step { return refuseAs(strconv.Itoa(int(code)), text, "") }

// refuseAs replies with any code, and with a body.
func refuseAs(code, text, body string) step {
	return reply(nats.Header{micro.ErrorCodeHeader: {code}, micro.ErrorHeader: {text}}, body)
}

// reply replies. If a client may use the IDs in the body, they are granted.
func reply(header nats.Header, body string) step {
	return func(r *responder, q *request) {
		r.grant(q, header, body)
		err := r.conn.PublishMsg(&nats.Msg{Subject: q.reply, Header: header, Data: []byte(body)})
		if err != nil && !errors.Is(err, nats.ErrConnectionClosed) { // the test is over
			r.t.Errorf("reply: %v", err)
		}
	}
}

func (r *responder) grant(q *request, header nats.Header, body string) {
	if ids, err := messages.DecodeReply(&nats.Msg{Header: header, Data: []byte(body)}, q.n); err == nil {
		r.granted[q.reply] = append(r.granted[q.reply], ids...)
	}
}

// replyStatus replies with a status line, as servers do: NATS/1.0 503. No
// library sends one.
func replyStatus(status, body string) step {
	return func(r *responder, q *request) {
		if body != "" {
			r.grant(q, nil, body)
		}
		conn, err := r.srv.Running().InProcessConn()
		if err != nil {
			r.t.Errorf("reply with status: %v", err)
			return
		}
		defer func() { _ = conn.Close() }()
		header := "NATS/1.0 " + status + "\r\n\r\n"
		go func() {
			_, _ = fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true,\"user\":%q,\"pass\":%q}\r\nHPUB %s %d %d\r\n%s%s\r\nPING\r\n",
				responderUser, password, q.reply, len(header), len(header)+len(body), header, body)
		}()
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "PONG") {
				return
			}
		}
		r.t.Error("reply with status: the server ended the connection")
	}
}

// noResponders replies as the server does when no process responds.
var noResponders = replyStatus("503", "")

// each takes several steps.
func each(steps ...step) step {
	return func(r *responder, q *request) {
		for _, s := range steps {
			s(r, q)
		}
	}
}

// to takes a step as if request k of the subject had arrived.
func to(k int, s step) step {
	return func(r *responder, q *request) {
		for _, other := range r.all {
			if other.subject == q.subject && other.k == k {
				s(r, other)
			}
		}
	}
}

// toToken takes a step with another reply subject below the same inbox.
func toToken(token string, s step) step {
	return func(r *responder, q *request) {
		other := *q
		other.reply = q.reply[:strings.LastIndexByte(q.reply, '.')+1] + token
		s(r, &other)
	}
}

// times is a step so many times.
func times(n int, s step) []step { return slices.Repeat([]step{s}, n) }
