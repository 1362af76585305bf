package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/messages"
)

// traceCases are about the header that names the caller's trace.
var traceCases = []testCase{
	{name: "22 a trace goes with each try of a call", run: tracedCalls},
	{name: "22 joined calls send the trace of the first", needs: []string{"coalescing"}, run: tracedTogether},
	{name: "22 no trace without headers", needs: []string{"headerless"}, run: untraced},
}

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// tracedCalls: a caller's trace goes with each of its requests, and with no
// other; what is none fails no call.
func tracedCalls(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	snowflake := op{"op": "snowflake", "client": c, "timeout_ms": callTimeout}
	snowflakeN := op{"op": "snowflake_n", "client": c, "n": 2, "timeout_ms": callTimeout}
	for k, call := range []op{next(c, "order"), nextN(c, "order", 2), snowflake, snowflakeN} {
		subject := orderSubject
		if k > 1 {
			subject = "ids.snowflake"
		}
		s.onCalls(subject, refuse(503, "no IDs"), silent, serve)
		mine := fmt.Sprint(trace, k)
		before := len(s.requests(subject))
		wantOK(t, mine, s.do(call.with("traceparent", mine)))
		for _, q := range s.requests(subject)[before:] {
			q.wantTrace(t, mine)
		}
	}

	longest := strings.Repeat("~", 256)
	for value, want := range map[string]string{
		longest: longest, "!": "!", "": "", "throw": "", longest + "~": "", "a b": "", "a\r\nIds-Prefetch: 1": "", "é": "", "a\x7f": "",
	} {
		tag := d.newName()
		s.on(segment+tag, serve)
		wantOK(t, value, s.do(nextN(c, tag, 1).with("traceparent", value)))
		s.request(segment+tag, 1).wantTrace(t, want)
	}

	s.on("ids.segment.later", serve)
	wantOK(t, "prefetcher", s.do(take(s.prefetch(c, "later", nil), 1, 10).with("traceparent", trace)))
	s.request("ids.segment.later", 1).wantTrace(t, "")
}

// untraced: a server without headers serves a call whose trace it cannot carry.
func untraced(t *testing.T, d *driver) {
	s := newScene(t, d, func(o *server.Options) { o.NoHeaderSupport = true })
	c := s.connect(nil)
	s.on(orderSubject, serve)
	if r := s.do(next(c, "order").with("traceparent", trace)); r.err != nil {
		t.Fatal(r)
	}
	s.request(orderSubject, 1).wantTrace(t, "")
}

// tracedTogether: a request has the trace of the call that gets its first ID; if
// a batch is refused, its members go on with their own.
func tracedTogether(t *testing.T, d *driver) {
	s := newScene(t, d)
	for tag, answer := range map[string]step{"served": serve, "refused": func(r *responder, q *request) {
		if q.n > 1 {
			refuse(503, "no IDs")(r, q)
			return
		}
		serve(r, q)
	}} {
		c, subject := s.connect(nil), segment+tag
		s.on(subject, silent)
		calls := []*pending{s.begin(next(c, tag).with("traceparent", "0"))}
		s.waitCalls(subject, 1)
		for k := range 40 {
			calls = append(calls, s.begin(next(c, tag).with("traceparent", fmt.Sprint(k+1))))
		}
		s.waitCalls(subject, 2)
		s.follow(subject, answer)
		traces := make(map[int64]string) // of calls, by their IDs
		for _, call := range calls {
			if r := s.await(call); r.err != nil {
				t.Errorf("a call: %v", r)
			} else {
				traces[parseRanges(t, r.Ranges)[0].First] = call.op["traceparent"].(string)
			}
		}
		joined := false
		for _, q := range s.requests(subject) {
			joined = joined || q.n > 1
			for _, granted := range parseRanges(t, s.grantedBy(q)) {
				if want, used := traces[granted.First]; used {
					q.wantTrace(t, want)
				}
			}
		}
		if !joined {
			t.Errorf("%s: no calls were joined", tag)
		}
	}
}

// wantTrace checks the trace of a request, which is its only header; the empty one
// is none.
func (q *request) wantTrace(t *testing.T, want string) {
	t.Helper()
	values, has := q.header[messages.TraceparentHeader]
	if got := strings.Join(values, ","); got != want || has != (want != "") || has && len(q.header) > 1 {
		t.Errorf("request %d of %s for %d IDs: header %q, want the trace %q", q.k, q.subject, q.n, q.header, want)
	}
}
