package conformance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/idworker/idworker/messages"
)

// callCases are those of single calls: requests, retries, replies.
var callCases = []testCase{
	{name: "03 requests as the contract has them", run: requestBytes},
	{name: "04 transient replies and silence, then IDs", run: transientThenServed},
	{name: "05 final errors end a call", run: finalErrors},
	{name: "05 malformed replies end a call", run: malformedReplies},
	{name: "05 a code makes an error, a status alone does not", run: codesAndStatuses},
	{name: "05 a status with a body is no error", needs: []string{"statuses"}, run: statusWithBody},
	{name: "06 the reason at the deadline", run: reasons},
	{name: "07 replies to earlier tries count", run: earlierTries},
	{name: "08 a second reply is dropped", run: secondReplies},
	{name: "08 a reply to another call is dropped", run: strayReplies},
	{name: "08 a storm of replies", run: storm},
	{name: "09 cancelled calls", needs: []string{"cancel"}, run: cancelledCalls},
	{name: "09 a deadline that is past", run: pastDeadline},
}

const segment = "ids.segment."

// requestBytes: a request is its subject, its count, and no header.
func requestBytes(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(op{"inbox_prefix": "_INBOX_caller"})
	other := s.connect(op{"prefix": "other_1"})
	for what, test := range map[string]struct {
		op            op
		subject, body string
		inbox         string
	}{
		"one":            {next(c, "one"), "ids.segment.one", "", "_INBOX_caller"},
		"one by number":  {nextN(c, "number", 1), "ids.segment.number", "", "_INBOX_caller"},
		"two":            {nextN(c, "two.A_z-9", 2), "ids.segment.two.A_z-9", "2", "_INBOX_caller"},
		"ten thousand":   {nextN(c, "many", 10_000), "ids.segment.many", "10000", "_INBOX_caller"},
		"snowflake":      {op{"op": "snowflake", "client": c, "timeout_ms": callTimeout}, "ids.snowflake", "", "_INBOX_caller"},
		"snowflakes":     {op{"op": "snowflake_n", "client": other, "n": 5, "timeout_ms": callTimeout}, "other_1.snowflake", "5", "_INBOX"},
		"another prefix": {next(other, "one"), "other_1.segment.one", "", "_INBOX"},
	} {
		s.on(test.subject, serve)
		r := s.do(test.op)
		q := s.request(test.subject, 1)
		s.wantServed(what, r, q)
		if q.body != test.body || len(q.header) > 0 {
			t.Errorf("%s: body %q, header %v; want %q and no header", what, q.body, q.header, test.body)
		}
		if inbox := regexp.MustCompile("^" + test.inbox + `\.[0-9A-Za-z_-]{22,}\.[0-9A-Za-z_-]+$`); !inbox.MatchString(q.reply) {
			t.Errorf("%s: reply subject %s, want %s", what, q.reply, inbox)
		}
	}

	s.on("ids.segment.later", serve)
	wantOK(t, "prefetcher", s.do(take(s.prefetch(c, "later", nil), 2, 100)))
	for _, q := range s.requests("ids.segment.later") {
		if len(q.header) != 1 || q.header.Get(messages.PrefetchHeader) == "" {
			t.Errorf("request of a prefetcher: header %v, want %s alone, not empty", q.header, messages.PrefetchHeader)
		}
	}

	tokens := make(map[string]bool)
	bases := make(map[string]bool)
	for range 3 {
		s.on("ids.segment.again", serve)
		wantOK(t, "again", s.do(next(c, "again")))
	}
	for _, q := range s.requests("ids.segment.again") {
		i := strings.LastIndexByte(q.reply, '.')
		bases[q.reply[:i]], tokens[q.reply[i:]] = true, true
	}
	if len(bases) != 1 || len(tokens) < 3 {
		t.Errorf("inboxes %v, tokens %v; want one inbox, and a token for each of three calls", bases, tokens)
	}
}

// transients are the replies after which a call goes on, by its reason.
var transients = map[string]step{
	"busy":          refuse(429, "too many"),
	"unavailable":   refuse(503, "no IDs"),
	"no_responders": noResponders,
	"no_reply":      silent,
}

// transientThenServed: a call goes on after each of them, as often as it takes.
func transientThenServed(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	calls := make(map[string]*pending)
	for reason, trouble := range transients {
		for _, n := range []int{1, 2, 4} {
			one, many := fmt.Sprint(reason, n), fmt.Sprint("n-", reason, n)
			for _, tag := range []string{one, many} {
				s.on(segment+tag, append(times(n, trouble), serve)...)
			}
			calls[one] = s.begin(next(c, one))
			calls[many] = s.begin(nextN(c, many, 3))
		}
	}
	for tag, call := range calls {
		r := s.await(call)
		s.wantServed(tag, r, s.request(segment+tag, 1))
	}
}

// finals are the codes that a retry cannot cure.
var finals = map[messages.Code]string{
	400: "malformed", 404: "no_tag", 409: "strict", 507: "exhausted",
	401: "code", 500: "code", 504: "code", 999: "code", 100: "code",
}

// finalErrors: a code that a retry cannot cure ends the call, and the client
// then sends nothing.
func finalErrors(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	var ended []endedCall
	for _, k := range []int{1, 3} {
		for code, kind := range finals {
			one, many := fmt.Sprintf("one-%d-%d", code, k), fmt.Sprintf("many-%d-%d", code, k)
			for _, tag := range []string{one, many} {
				s.on(segment+tag, append(times(k-1, refuse(503, "no IDs")), refuse(code, "the text"))...)
			}
			ended = append(ended, endedCall{one, kind, s.begin(next(c, one)), 0}, endedCall{many, kind, s.begin(nextN(c, many, 2)), 0})
		}
	}
	s.wantEnded(c, ended, func(e endedCall, r result) {
		if r.err.Retryable || !strings.Contains(r.err.Text, "the text") || !strings.Contains(r.err.Text, segment+e.tag) {
			t.Errorf("%s: %v; want the worker's text and the subject, not retryable", e.tag, r)
		}
		if code := fmt.Sprint(r.err.Code); !strings.Contains(e.tag, code) || r.err.Code == 0 {
			t.Errorf("%s: code %s", e.tag, code)
		}
	})
}

// endedCall is a call that ends with an error.
type endedCall struct {
	tag, kind string
	call      *pending
	requests  int
}

// wantEnded checks that calls end with their errors, and send nothing then.
func (s *scene) wantEnded(client string, all []endedCall, check func(e endedCall, r result)) {
	s.t.Helper()
	for i, e := range all {
		r := s.await(e.call)
		s.fence(client)
		all[i].requests = len(s.requests(segment + e.tag))
		if r.kind() != e.kind || len(r.Ranges) > 0 {
			s.t.Errorf("%s: %v; want the kind %s", e.tag, r, e.kind)
		} else if check != nil {
			check(e, r)
		}
	}
	s.pass(client)
	for _, e := range all {
		if n := len(s.requests(segment + e.tag)); n != e.requests {
			s.t.Errorf("%s: %d requests after the call had ended", e.tag, n-e.requests)
		}
	}
}

// pass lets time pass, that of a call that retries several times.
func (s *scene) pass(client string) {
	s.t.Helper()
	tag := s.d.newName()
	s.on(segment+tag, append(times(4, refuse(503, "no IDs")), serve)...)
	if r := s.do(next(client, tag)); r.err != nil {
		s.t.Fatalf("a call that is served at last: %v", r)
	}
	s.fence(client)
}

// malformed are replies that break the contract, to a request for so many IDs.
var malformed = []struct {
	n    int64
	body string
}{
	{1, ""}, {1, "1\n"}, {1, "\n1"}, {1, "1\r"}, {1, " 1"}, {1, "1 "}, {1, "+1"}, {1, "-1"}, {1, "01"}, {1, "0"}, {1, "1-"}, {1, "5-5"},
	{1, "1_0"}, {1, "1.0"}, {1, "1e0"}, {1, "0x1"}, {1, "1\x00"}, {1, "\ufeff1"}, {1, "١"}, {1, "9223372036854775808"},
	{1, "99999999999999999999"}, {1, "18446744073709551617"}, {1, `"1"`}, {1, "1,"}, {1, "1-2"}, {1, "1\n2"}, {1, "null"},
	{2, ""}, {2, "1"}, {2, "1-3"}, {2, "1\n\n2"}, {2, "1\r\n2"}, {2, "1-2\n"}, {2, "2-1"}, {2, "2\n1"}, {2, "1\n1"}, {2, "1-2-3"}, {2, "-1-2"},
	{2, "0-1"}, {2, "9223372036854775807-9223372036854775808"}, {2, "1 - 2"}, {2, "1-+2"}, {2, "1-02"}, {2, "1--2"}, {2, "1 2"}, {2, "1,2"},
	{3, "1-2\n2"}, {3, "5-6\n1"}, {3, "1-2\n3-4"}, {3, "1-9223372036854775807"}, {3, "1-2\n4-9223372036854775807"},
}

// malformedReplies: no ID of a reply that breaks the contract is used.
func malformedReplies(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	var ended []endedCall
	for _, k := range []int{1, 3} {
		for i, m := range malformed {
			tag := fmt.Sprint("bad", i, ".", k)
			s.on(segment+tag, append(times(k-1, refuse(503, "no IDs")), reply(nil, m.body), serve)...)
			ended = append(ended, endedCall{tag, "bad_reply", s.begin(nextN(c, tag, m.n)), 0})
		}
	}
	s.wantEnded(c, ended, func(e endedCall, r result) {
		if r.err.Retryable {
			t.Errorf("%s: %v; want it not retryable", e.tag, r)
		}
	})
}

// codesAndStatuses: the header with the code makes a reply an error, whatever
// else it has. A status line does not. The values are ASCII: some libraries drop
// a message with any other.
func codesAndStatuses(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	var ended []endedCall
	for i, code := range []string{"4x4", "", "+404", "-404", "0404", "40", "4040"} {
		tag := fmt.Sprint("code", i)
		s.on(segment+tag, refuseAs(code, "the text", "7"), serve)
		ended = append(ended, endedCall{tag, "bad_reply", s.begin(next(c, tag)), 0})
	}
	s.on("ids.segment.408", replyStatus("408 Request Timeout", ""), serve)
	ended = append(ended, endedCall{"408", "bad_reply", s.begin(next(c, "408")), 0})
	s.wantEnded(c, ended, nil)

	s.on("ids.segment.404", refuseAs("404", "none", "1"), serve)
	wantKind(t, "404 with a body of IDs", s.do(next(c, "404")), "no_tag")
	s.on("ids.segment.503", refuseAs("503", "no IDs", "1"), serve)
	r := s.do(next(c, "503"))
	s.wantServed("code 503 with a body of IDs, then IDs", r, s.request("ids.segment.503", 1))
	s.on("ids.segment.largest", reply(nil, "9223372036854775806-9223372036854775807"))
	wantIDs(t, "the largest IDs", s.do(nextN(c, "largest", 2)), "9223372036854775806-9223372036854775807")
}

// statusWithBody: a status without a body alone is the server's.
func statusWithBody(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on("ids.segment.status", replyStatus("503", apart+"-4000000000000000002"))
	wantIDs(t, "status 503 with a body of IDs", s.do(nextN(c, "status", 3)), apart+"-4000000000000000002")
}

// reasons: at the deadline the error has the latest reason, and the subject.
func reasons(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	calls := make(map[*pending]string)
	begin := func(tag, reason string) {
		calls[s.begin(next(c, tag).with("timeout_ms", shortTimeout))] = reason
		calls[s.begin(nextN(c, tag, 2).with("timeout_ms", shortTimeout))] = reason
	}
	for reason, trouble := range transients {
		s.on(segment+reason, trouble)
		begin(reason, reason)
	}
	begin("without.responders", "no_responders")
	s.onCalls("ids.segment.hushed", refuse(503, "no IDs"), silent)
	begin("hushed", "unavailable")
	s.onCalls("ids.segment.worse", noResponders, refuse(503, "no IDs"), refuse(429, "too many"), silent)
	begin("worse", "busy")
	quick := s.connect(op{"timeout_ms": shortTimeout})
	calls[s.begin(op{"op": "next_n", "client": quick, "tag": "no_reply", "n": 1})] = "no_reply"
	for call, reason := range calls {
		r := s.await(call)
		subject := segment + call.op["tag"].(string)
		if wantTimeout(t, subject, r, reason); r.err != nil && !strings.Contains(r.err.Text, subject) {
			t.Errorf("%s: text %q, want the subject in it", subject, r.err.Text)
		}
	}
}

// earlierTries: a reply to an earlier try ends a call, good or bad.
func earlierTries(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on("ids.segment.first", silent, silent, silent, to(1, serve), silent)
	s.on("ids.segment.parked", silent, silent, refuse(503, "no IDs"), to(2, serve), silent)
	s.on("ids.segment.refused", silent, silent, to(1, refuse(404, "no such tag")), silent)
	s.on("ids.segment.refused.last", refuse(429, "too many"), silent, refuse(503, "no IDs"), to(2, refuse(507, "used up")), silent)
	refused, last := s.begin(next(c, "refused")), s.begin(nextN(c, "refused.last", 2))
	first, parked := s.begin(next(c, "first")), s.begin(nextN(c, "parked", 3))
	r := s.await(first)
	s.wantServed("a reply to request 1 after request 4", r, s.request("ids.segment.first", 1))
	r = s.await(parked)
	s.wantServed("a reply to request 2 after request 3 was refused", r, s.request("ids.segment.parked", 2))
	wantKind(t, "request 1 refused for good, request 2 parked", s.await(refused), "no_tag")
	wantKind(t, "request 2 refused for good after request 4", s.await(last), "exhausted")
}

// secondReplies: a request that is answered more than once gives one reply's
// IDs, and the next call is right.
func secondReplies(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	before := slices.Sorted(maps.Keys(s.connections()))
	for tag, answers := range map[string][]step{
		"equal":     times(2, reply(nil, apart)),
		"different": times(2, serve),
		"hundred":   times(100, serve),
		"worse":     {serve, refuse(404, "no such tag")},
		"malformed": {serve, reply(nil, "x")},
		"busy":      {serve, refuse(429, "too many"), noResponders},
	} {
		s.on(segment+tag, each(answers...), serve)
		for k := range 3 {
			r := s.do(next(c, tag))
			s.wantServed(fmt.Sprint(tag, ", call ", k+1), r, s.waitCalls(segment+tag, k+1)[k])
		}
		r := s.do(nextN(c, tag, 2))
		s.wantServed(tag+", for two", r, s.waitCalls(segment+tag, 4)[3])
	}
	s.fence(c)
	if after := slices.Sorted(maps.Keys(s.connections())); !slices.Equal(before, after) {
		t.Errorf("connections %v before, %v after; want the same", before, after)
	}
}

// strayReplies: a reply to a call that has ended, to no call, or to another
// call, gives no ID to a call that did not cause it.
func strayReplies(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on("ids.segment.ended", serve, each(to(1, serve), serve), each(to(2, serve), to(1, serve), serve))
	for k := range 3 {
		r := s.do(next(c, "ended"))
		s.wantServed(fmt.Sprint("call ", k+1, ", after a reply to an ended call"), r, s.waitCalls("ids.segment.ended", k+1)[k])
	}
	unknown := each(toToken("unknown", serve), toToken("0", serve), toToken("a.b", serve), serve)
	s.on("ids.segment.unknown", unknown)
	r := s.do(next(c, "unknown"))
	s.wantServed("after replies to unknown tokens", r, s.request("ids.segment.unknown", 1))

	// Two calls for as many IDs wait. The first gets the reply that the second
	// request caused.
	s.on("ids.segment.a", silent)
	s.on("ids.segment.b", silent)
	a, b := s.begin(nextN(c, "a", 2)), s.begin(nextN(c, "b", 2))
	toA, toB := s.waitCalls("ids.segment.a", 1)[0], s.waitCalls("ids.segment.b", 1)[0]
	s.answer(toB, toToken(toA.reply[strings.LastIndexByte(toA.reply, '.')+1:], serve))
	s.answer(toB, serve)
	s.wantServed("the call whose token was used", s.await(a), toA)
	s.wantServed("the other call", s.await(b), toB)
}

// storm: each call gets IDs of its own, whatever replies come in whatever order.
func storm(t *testing.T, d *driver) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newScene(t, d)
	c := s.connect(nil)
	moods := []step{silent, serve, serve, serve, each(serve, serve), refuse(503, "no IDs"), refuse(429, "too many"), noResponders}
	s.follow("ids.segment.storm", func(r *responder, q *request) {
		moods[random.IntN(len(moods))](r, q)
		to(1+random.IntN(q.k), serve)(r, q)
	})
	calls := []*pending{s.begin(op{"op": "many", "client": c, "tag": "storm", "callers": 20, "calls": 20, "timeout_ms": callTimeout})}
	for n := range int64(100) {
		calls = append(calls, s.begin(nextN(c, "storm", 1+n%3)))
	}
	var ids int64
	for _, call := range calls {
		r := s.await(call)
		wantOK(t, fmt.Sprint(call.op), r)
		ids += countIDs(t, r)
	}
	if want := int64(20*20 + 34*1 + 33*2 + 33*3); ids != want {
		t.Errorf("%d IDs, want %d", ids, want)
	}
}

// cancelledCalls: a cancelled call ends, sends nothing more, and takes no ID of
// the next call.
func cancelledCalls(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on("ids.segment.before", serve)
	for _, call := range []op{next(c, "before"), nextN(c, "before", 2)} {
		r := s.do(call.with("cancelled", true))
		if wantKind(t, "cancelled before", r, "cancelled"); r.err != nil && r.err.Reason != "" {
			t.Errorf("cancelled before: %v; want no reason, as nothing was sent", r)
		}
	}

	s.on("ids.segment.try", silent)
	s.on("ids.segment.pause", refuse(429, "too many"))
	for tag, after := range map[string]int{"try": 1, "pause": 4} {
		for _, call := range []op{next(c, tag), nextN(c, tag, 2)} {
			arrived := len(s.requests(segment + tag))
			p := s.begin(call)
			s.waitRequests(segment+tag, arrived+after)
			s.d.must(t, op{"op": "cancel", "call": p.id})
			r := s.await(p)
			if wantKind(t, tag, r, "cancelled"); r.err != nil && r.err.Retryable {
				t.Errorf("%s: %v; want it not retryable", tag, r)
			}
		}
	}
	s.fence(c)
	before := len(s.requests("ids.segment.try")) + len(s.requests("ids.segment.pause"))
	s.pass(c)
	if n := len(s.requests("ids.segment.try")) + len(s.requests("ids.segment.pause")) - before; n > 0 {
		t.Errorf("%d requests of calls that had been cancelled", n)
	}
	if n := len(s.requests("ids.segment.before")); n > 0 {
		t.Errorf("%d requests of a call that was cancelled before it began", n)
	}
	for _, tag := range []string{"try", "pause"} {
		late := s.request(segment+tag, 1)
		s.on(segment+tag, func(r *responder, q *request) {
			serve(r, late)
			serve(r, q)
		})
		r := s.do(next(c, tag))
		calls := s.calls(segment + tag)
		s.wantServed("the next call, after a reply to the cancelled one", r, calls[len(calls)-1])
	}
}

// pastDeadline: a call whose deadline is past sends nothing. Where a timeout must
// be above 0, it is a bad option.
func pastDeadline(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on("ids.segment.past", serve)
	wantKind(t, "one", s.do(next(c, "past").with("timeout_ms", 0)), "timeout", "config")
	wantKind(t, "two", s.do(nextN(c, "past", 2).with("timeout_ms", 0)), "timeout", "config")
	s.fence(c)
	if n := len(s.requests("ids.segment.past")); n > 0 {
		t.Errorf("%d requests, want none", n)
	}
}
