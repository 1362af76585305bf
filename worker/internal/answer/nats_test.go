package answer_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker/internal/answer"
)

// newGenerator returns a generator with a worker ID.
func newGenerator(t testing.TB) *snowflake.Generator {
	t.Helper()
	g, err := snowflake.New(snowflake.Settings{Layout: snowflake.Default(), Fence: snowflake.Fence{Hi: snowflake.Forever}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestEveryRequestIsRepliedToAndCounted: each request gets one reply, with the
// IDs or with the code of the error, and is counted by kind and code.
func TestEveryRequestIsRepliedToAndCounted(t *testing.T) {
	late := new(atomic.Bool)
	for _, c := range []struct {
		why  string
		req  *fakeRequest
		late bool
		want messages.Code
		most int64 // the largest count in the reply
	}{
		{"in memory", newRequest("order", "5"), false, 0, 0},
		{"one", newRequest("order", ""), false, 0, 0},
		{"the most", newRequest("order", "500"), false, 0, 0},
		{"not a number", newRequest("order", "five"), false, messages.CodeMalformed, maxBatch},
		{"none", newRequest("order", "0"), false, messages.CodeMalformed, maxBatch},
		{"too many", newRequest("order", "501"), false, messages.CodeMalformed, maxBatch},
		{"no tag", newRequest("or$der", ""), false, messages.CodeMalformed, 0},
		{"kept", newRequest("order", "").kept(), false, 0, 0},
		{"kept of a strict tag", newRequest("strict", "").kept(), false, messages.CodeStrict, 0},
		{"overloaded", newRequest("order", "5"), true, messages.CodeBusy, 0},
		{"overloaded before it is read", newRequest("order", "five"), true, messages.CodeBusy, 0},
	} {
		m := newMemory(nil)
		m.fill("strict", store.Strict, 1)
		for kind, e := range map[string]answer.Endpoint{"segment": m.Segments(late, open{}), "snowflake": m.Snowflakes(newGenerator(t), late)} {
			if kind == "snowflake" && (c.req.subject != "ids.segment.order" || c.req.header != nil) {
				continue
			}
			late.Store(c.late)
			req := *c.req
			e.Handle(&req)
			n, _ := messages.DecodeCount(req.data, maxBatch)
			outcome := fmt.Sprintf("requests_total/%d/%s", c.want, kind)
			if c.want == 0 {
				outcome = "requests_total/ok/" + kind
				if _, err := messages.DecodeRanges(req.body, n); err != nil {
					t.Errorf("%s, %s: %v", c.why, kind, err)
				}
			} else if n = 0; req.err == nil || req.err.Code != c.want || req.err.Text == "" || req.err.MaxCount != c.most {
				t.Errorf("%s, %s: %#v, want code %d, at most %d", c.why, kind, req.err, c.want, c.most)
			}
			if got := scrape(t, m.Answerer); req.replies != 1 || got[outcome] != 1 || got["ids_total/"+kind] != float64(n) {
				t.Errorf("%s, %s: %d replies, and %v is counted", c.why, kind, req.replies, got)
			}
		}
	}
}

// TestSubjectsWithoutReply: a reply to a subject of the worker or the server
// could be a command. Nothing is sent there, not even an error, and no ID is
// used.
func TestSubjectsWithoutReply(t *testing.T) {
	m, late := newMemory(nil), new(atomic.Bool)
	late.Store(true)
	for _, e := range []answer.Endpoint{m.Segments(new(atomic.Bool), open{}), m.Snowflakes(newGenerator(t), new(atomic.Bool)), m.Segments(late, open{})} {
		for _, reply := range []string{"", "$JS.API.STREAM.DELETE.KV_ids_register", "ids.reserve", "ids."} {
			for _, data := range []string{"", "five"} {
				req := newRequest("order", data)
				req.reply = reply
				if e.Handle(req); req.replies != 0 {
					t.Errorf("a request with the reply subject %q was replied to", reply)
				}
			}
		}
	}
	expect(t, m.Answerer, nil)
	req := newRequest("order", "")
	req.reply = "idsx"
	if m.Segments(new(atomic.Bool), open{}).Handle(req); req.replies != 1 {
		t.Error("a request with a reply subject of its caller's got no reply")
	}
}

// raising is a barrier that learns a decision.
type raising struct{ *memory }

func (r raising) Pass() { r.Learn(1000) }

// TestNothingBeforeTheBarrier: a request that the barrier holds until a decision
// was learned gets nothing from before it.
func TestNothingBeforeTheBarrier(t *testing.T) {
	m := newMemory(nil)
	req := newRequest("order", "1")
	if m.Segments(new(atomic.Bool), raising{m}).Handle(req); req.replies != 0 {
		t.Errorf("replied from the buffer that the decision voided: %+v", req)
	}
}

// TestHitAllocatesNothing: a request answered from a buffer costs no allocation
// beyond those of a bare micro endpoint.
func TestHitAllocatesNothing(t *testing.T) {
	m := newMemory(nil)
	for kind, e := range map[string]answer.Endpoint{
		"segment": m.Segments(new(atomic.Bool), open{}), "snowflake": m.Snowflakes(newGenerator(t), new(atomic.Bool)),
	} {
		req := newRequest("order", "5")
		if n := testing.AllocsPerRun(1000, func() { e.Handle(req) }); n != 0 || req.err != nil {
			t.Errorf("%s: %v allocations per request, want 0 (%v)", kind, n, req.err)
		}
	}
}

// TestNothingIsHandledAfterEnd: End waits for the request that is being
// handled, and none is handled after it.
func TestNothingIsHandledAfterEnd(t *testing.T) {
	m := newMemory(nil)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 100 {
				e, begun := m.Segments(new(atomic.Bool), open{}), make(chan struct{})
				var over atomic.Bool
				req := newRequest("order", "")
				req.replied = func() {
					if req.replies == 10 {
						close(begun)
					}
					runtime.Gosched() // so that End often comes in the middle
					if over.Load() {
						t.Error("a request was handled after End")
					}
				}
				all.Go(func() {
					for handled := -1; handled < req.replies && !over.Load(); e.Handle(req) {
						handled = req.replies
					}
					e.Handle(req)
				})
				<-begun
				e.End()
				over.Store(true)
			}
		})
	}
	all.Wait()

	e, entered, leave := m.Segments(new(atomic.Bool), open{}), make(chan struct{}), make(chan struct{})
	req := newRequest("order", "")
	req.replied = func() { close(entered); <-leave }
	all.Go(func() { e.Handle(req) })
	<-entered
	var left atomic.Bool
	all.Go(func() { left.Store(true); close(leave) })
	if e.End(); !left.Load() {
		t.Error("End did not wait for the request that was being handled")
	}
	all.Wait()
}

// TestParkedRequestsAreAnsweredLater: a request that the buffer cannot answer
// gets the IDs, or the code and text of the error, when they arrive, both by
// NATS and directly. During that time, the endpoint handles other requests, or
// has ended.
func TestParkedRequestsAreAnsweredLater(t *testing.T) {
	server := natstest.Start(t)
	conn := server.Connect(t)
	m := newMemory(server.Connect(t))
	e := m.Segments(new(atomic.Bool), open{})
	service, err := micro.AddService(conn, micro.Config{Name: "segment", Version: "0.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := service.AddEndpoint("segment", e, micro.WithEndpointSubject(messages.DefaultPrefix.Segment(">"))); err != nil {
		t.Fatal(err)
	}
	inbox, err := conn.SubscribeSync(conn.NewRespInbox())
	if err != nil {
		t.Fatal(err)
	}
	// request makes two requests for an unknown tag, serves them, and returns
	// the replies.
	request := func(tag string, serve func()) (byNATS *nats.Msg, direct string, err error) {
		if err := conn.PublishRequest(messages.DefaultPrefix.Segment(tag), inbox.Subject, []byte("2")); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "the request is parked", func() bool { return m.Parked() == 1 })
		done := make(chan struct{})
		go func() {
			defer close(done)
			var reply []byte
			reply, err = m.Segment(t.Context(), tag, []byte("3"), false, "")
			direct = string(reply)
		}()
		natstest.Eventually(t, "both requests are parked", func() bool { return m.Parked() == 2 })
		serve()
		byNATS, lost := inbox.NextMsg(natstest.Patience)
		if lost != nil {
			t.Fatal(lost)
		}
		<-done
		return byNATS, direct, err
	}
	byNATS, direct, err := request("trend", func() { m.grant("trend", store.Trend, 10) })
	if string(byNATS.Data) != "1-2" || direct != "3-5" || err != nil || len(byNATS.Header) > 0 {
		t.Errorf("got %q and %q, %v; want the IDs 1 to 5", byNATS.Data, direct, err)
	}
	for i, c := range []struct {
		refusal error
		want    messages.Error
	}{
		{store.ErrNoTag, messages.Error{Code: messages.CodeNoTag, Text: store.ErrNoTag.Error()}},
		{fmt.Errorf("tag: %w", store.ErrExhausted), messages.Error{Code: messages.CodeExhausted, Text: "tag: " + store.ErrExhausted.Error()}},
		{
			&messages.Error{Code: messages.CodeBusy, Text: "a loader's words", FullTemplate: "tag*"},
			messages.Error{Code: messages.CodeBusy, Text: "a loader's words", FullTemplate: "tag*"},
		},
		{allocator.ErrNoSegment, messages.Error{Code: messages.CodeUnavailable, Text: allocator.ErrNoSegment.Error()}},
		{errors.New("no reason known"), messages.Error{Code: messages.CodeUnavailable, Text: "no reason known"}},
		{errors.New("致命\t错误"), messages.Error{Code: messages.CodeUnavailable, Text: "致命 错误"}},
		{errors.New("refused: " + strings.Repeat("word ", 300)), messages.Error{Code: messages.CodeUnavailable, Text: "refused: " + strings.Repeat("word ", 196) + "word…"}},
	} {
		tag := fmt.Sprint("tag", i)
		byNATS, _, direct := request(tag, func() { m.refuse(tag, c.refusal) })
		got := errorReply(byNATS)
		ascii := c.want // jnats receives nothing after a header in other characters
		ascii.Text = strings.NewReplacer("致命 错误", "? ?", "…", "...").Replace(ascii.Text)
		if got == nil || *got != ascii || len(byNATS.Data) > 0 {
			t.Errorf("by NATS: %v, want %v", got, &ascii)
		}
		if got, ok := errors.AsType[*messages.Error](direct); !ok || *got != c.want {
			t.Errorf("direct: %v, want %v", direct, &c.want)
		}
	}
	got := scrape(t, m.Answerer)
	for key, want := range map[string]float64{
		"requests_total/ok/segment": 2, "ids_total/segment": 5, "requests_total/404/segment": 2, "requests_total/507/segment": 2,
		"requests_total/429/segment": 2, "requests_total/503/segment": 8, "request_duration_seconds/segment/count": 16,
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}

	for range 2 { // as many as may be parked
		if err := conn.PublishRequest(messages.DefaultPrefix.Segment("last"), inbox.Subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Eventually(t, "the requests are parked", func() bool { return m.Parked() == 2 })
	if _, err := m.Segment(t.Context(), "last", nil, false, ""); !errors.Is(err, messages.ErrBusy) {
		t.Errorf("got %v, want that too many requests are parked", err)
	}
	e.End()
	m.grant("last", store.Trend, 10)
	var ids []string
	for range 2 {
		msg, err := inbox.NextMsg(natstest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(msg.Data))
	}
	if got := strings.Join(ids, " "); got != fmt.Sprintf("%d %d", m.next-10, m.next-9) {
		t.Errorf("after End the parked requests got %s of the IDs below %d", got, m.next)
	}
}
