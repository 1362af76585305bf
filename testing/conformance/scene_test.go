package conformance

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/messages"
)

// scene is a case against a responder. When it ends, it fails the test if an ID
// was returned twice, or was not granted.
type scene struct {
	*responder
	t *testing.T
	d *driver

	mu       sync.Mutex
	returned []messages.Range
}

// newScene starts a server and a responder for a case.
func newScene(t *testing.T, d *driver, options ...func(*server.Options)) *scene {
	t.Helper()
	s := &scene{t: t, d: d}
	t.Cleanup(s.check)
	s.responder = startResponder(t, options...)
	return s
}

// check checks all IDs that operations returned.
func (s *scene) check() {
	isGranted := s.isGranted()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range sortRanges(s.returned) {
		if i > 0 && r.First <= s.returned[i-1].Last {
			s.t.Errorf("DUPLICATE: %v was returned, and %v, too", s.returned[i-1], r)
		}
		if !isGranted(r) {
			s.t.Errorf("%v was returned, but not granted", r)
		}
	}
}

// connect makes a client, with more fields than its name and URL, and closes it
// when the test ends.
func (s *scene) connect(fields op) (client string) {
	s.t.Helper()
	client = s.d.newName()
	o := op{"op": "connect", "client": client, "url": s.srv.URL()}
	maps.Copy(o, fields)
	s.d.must(s.t, o)
	s.t.Cleanup(func() { s.d.must(s.t, op{"op": "close", "client": client}) })
	return client
}

// prefetch makes a prefetcher of a tag.
func (s *scene) prefetch(client, tag string, fields op) (name string) {
	s.t.Helper()
	name = s.d.newName()
	o := op{"op": "prefetch", "client": client, "name": name, "tag": tag}
	maps.Copy(o, fields)
	s.d.must(s.t, o)
	s.t.Cleanup(func() { s.d.must(s.t, op{"op": "close_prefetch", "name": name}) })
	return name
}

// do performs an operation, and keeps its IDs for the check.
func (s *scene) do(o op) result {
	s.t.Helper()
	return s.await(s.begin(o))
}

func (s *scene) begin(o op) *pending {
	s.t.Helper()
	return s.d.begin(s.t, o)
}

func (s *scene) await(p *pending) result {
	s.t.Helper()
	r := p.wait(s.t)
	if len(r.Ranges) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.returned = append(s.returned, parseRanges(s.t, r.Ranges)...)
	}
	return r
}

// fence returns when all requests that the client has sent are recorded.
func (s *scene) fence(client string) {
	s.t.Helper()
	s.on("ids.segment.fence", serve)
	if r := s.do(next(client, "fence")); r.err != nil {
		s.t.Fatalf("a call that is served: %v", r)
	}
}

// connections are those of clients to the server, by their numbers.
func (s *scene) connections() map[uint64]*server.ConnInfo {
	s.t.Helper()
	all, err := s.srv.Running().Connz(&server.ConnzOptions{Subscriptions: true, Limit: 1000})
	if err != nil {
		s.t.Fatal(err)
	}
	own, err := s.conn.GetClientID()
	if err != nil {
		s.t.Fatal(err)
	}
	found := make(map[uint64]*server.ConnInfo)
	for _, conn := range all.Conns {
		if conn.Cid != own && conn.Lang != "" { // replyStatus names no language
			found[conn.Cid] = conn
		}
	}
	return found
}

// apart is an ID that no other reply of a case has.
const apart = "4000000000000000000"

// callTimeout is the deadline of calls that must succeed.
const callTimeout = 60_000

// shortTimeout is the deadline of calls that must reach it.
const shortTimeout = 3_000

// next is a call for one ID, which may share a request with others.
func next(client, tag string) op {
	return op{"op": "next", "client": client, "tag": tag, "timeout_ms": callTimeout}
}

// nextN is a call for n IDs.
func nextN(client, tag string, n int64) op {
	return op{"op": "next_n", "client": client, "tag": tag, "n": n, "timeout_ms": callTimeout}
}

// take takes n IDs for each of so many callers.
func take(prefetcher string, callers, n int64) op {
	return op{"op": "take", "name": prefetcher, "callers": callers, "n": n, "timeout_ms": callTimeout}
}

// with returns an operation with another field.
func (o op) with(field string, value any) op {
	o = maps.Clone(o)
	o[field] = value
	return o
}

func parseRanges(t testing.TB, lines []string) (all []messages.Range) {
	t.Helper()
	for _, line := range lines {
		first, last, isRange := strings.Cut(line, "-")
		if !isRange {
			last = first
		}
		r := messages.Range{First: parseID(t, first), Last: parseID(t, last)}
		if r.Last < r.First {
			t.Fatalf("the driver returned the range %q", line)
		}
		all = append(all, r)
	}
	return all
}

func parseID(t testing.TB, text string) int64 {
	t.Helper()
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("the driver returned the ID %q", text)
	}
	return id
}

// countIDs is the number of IDs in a result.
func countIDs(t testing.TB, r result) (n int64) {
	t.Helper()
	for _, ids := range parseRanges(t, r.Ranges) {
		n += ids.Len()
	}
	return n
}

// wantIDs checks that a call returned these IDs.
func wantIDs(t testing.TB, what string, got result, ids ...string) {
	t.Helper()
	if got.err != nil || !slices.Equal(got.Ranges, ids) {
		t.Errorf("%s: %v; want IDs %q", what, got, ids)
	}
}

// wantServed checks that a call returned the IDs of the first good reply to it.
func (s *scene) wantServed(what string, got result, call *request) {
	s.t.Helper()
	ids := s.grantedBy(call)
	if len(ids) == 0 {
		s.t.Errorf("%s: %v; nothing was granted to the call", what, got)
		return
	}
	wantIDs(s.t, what, got, ids[0])
}

// wantKind checks that a call failed so, with one of the kinds.
func wantKind(t testing.TB, what string, got result, kinds ...string) {
	t.Helper()
	if !slices.Contains(kinds, got.kind()) || len(got.Ranges) > 0 {
		t.Errorf("%s: %v; want an error of the kind %q", what, got, kinds)
	}
}

// wantTimeout checks that a call reached its deadline for a reason.
func wantTimeout(t testing.TB, what string, got result, reason string) {
	t.Helper()
	if got.kind() != "timeout" || got.err.Reason != reason || !got.err.Retryable || len(got.Ranges) > 0 {
		t.Errorf("%s: %v; want a timeout that is retryable, reason %s", what, got, reason)
	}
}

// wantOK checks that an operation succeeded, for each of its callers.
func wantOK(t testing.TB, what string, got result) {
	t.Helper()
	wantErrors(t, what, got, nil)
}

// wantErrors checks the number of callers that ended with each kind of error.
func wantErrors(t testing.TB, what string, got result, want map[string]int64) {
	t.Helper()
	if got.err != nil || !maps.Equal(got.Errors, want) {
		t.Errorf("%s: %v; want errors %v", what, got, want)
	}
}
