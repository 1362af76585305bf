package worker

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// fakeRequest records how it is replied to.
type fakeRequest struct {
	micro.Request
	reply, data string
	answers     int
	code        string
}

func (f *fakeRequest) Subject() string { return "ids.segment.order" }
func (f *fakeRequest) Reply() string   { return f.reply }
func (f *fakeRequest) Data() []byte    { return []byte(f.data) }

func (f *fakeRequest) Headers() micro.Headers { return nil }

func (f *fakeRequest) Respond([]byte, ...micro.RespondOpt) error {
	f.answers++
	return nil
}

func (f *fakeRequest) Error(code, _ string, _ []byte, _ ...micro.RespondOpt) error {
	f.code = code
	return nil
}

// newTestEndpoint returns an endpoint whose tag order has many IDs in memory.
func newTestEndpoint(line *waitingLine, figures *requestFigures) *segmentEndpoint {
	var load allocator.Load
	alloc := allocator.New(allocator.Config{
		Clock: func() time.Duration { return time.Second }, Load: func(l allocator.Load) { load = l },
	})
	_, _ = alloc.TakeOrPark("order", allocator.Request{N: 1, Answer: func([]store.Segment, error) {}})
	alloc.CurrentLoad("order", load.Seq)
	alloc.Grant("order", load.Seq, allocator.Supply{Segment: store.Segment{First: 1, End: 1 << 50}, Step: 1000, Order: store.Trend})
	return newSegmentEndpoint(Config{}.WithDefaults(), alloc, line, figures)
}

// TestEveryRequestIsRepliedToAndCounted, but for those to which no reply must go.
func TestEveryRequestIsRepliedToAndCounted(t *testing.T) {
	for _, c := range []struct {
		why         string
		reply, data string
		late        bool
		code        string // of the reply
		outcome     messages.Code
	}{
		{"answered", "_INBOX.x", "5", false, "", answered},
		{"malformed", "_INBOX.x", "five", false, "400", messages.CodeMalformed},
		{"overloaded", "_INBOX.x", "5", true, "429", messages.CodeBusy},
		{"overloaded before it is read", "_INBOX.x", "five", true, "429", messages.CodeBusy},
	} {
		var line waitingLine
		var figures requestFigures
		line.overdue.Store(c.late)
		req := &fakeRequest{reply: c.reply, data: c.data}
		newTestEndpoint(&line, &figures).Handle(req)
		if answers := req.answers; req.code != c.code || answers == 1 != (c.code == "") {
			t.Errorf("%s: %d answers, code %q, want code %q", c.why, answers, req.code, c.code)
		}
		for i, code := range outcomes {
			if n := figures.outcomes[i].Load(); (n == 1) != (code == c.outcome) {
				t.Errorf("%s: code %d is counted %d times", c.why, code, n)
			}
		}
	}
	for _, reply := range []string{"", "$JS.API.STREAM.DELETE.KV_ids_register", "ids.reserve"} {
		var figures requestFigures
		req := &fakeRequest{reply: reply}
		newTestEndpoint(&waitingLine{}, &figures).Handle(req)
		if req.answers != 0 || req.code != "" || figures.outcomes[0].Load() != 0 || figures.ids.Load() != 0 {
			t.Errorf("reply to %q: %d answers, code %q, %d IDs", reply, req.answers, req.code, figures.ids.Load())
		}
	}
}

// TestHitAllocatesNothing: a request that is answered from memory costs idworker itself no
// allocation.
func TestHitAllocatesNothing(t *testing.T) {
	e := newTestEndpoint(&waitingLine{}, &requestFigures{})
	req := &fakeRequest{reply: "_INBOX.x"}
	if n := testing.AllocsPerRun(1000, func() { e.Handle(req) }); n != 0 {
		t.Errorf("%v allocations per request, want 0", n)
	}
}
