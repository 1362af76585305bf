package answer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/metric"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker/internal/answer"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// maxBatch is the maximum of IDs per request in tests.
const maxBatch = 500

// memory is an allocator whose replies and loads the test takes, by calling
// work. The tag order has IDs from 1.
type memory struct {
	*allocator.Allocator
	*answer.Answerer
	next int64 // the next ID to be granted
}

func newMemory(conn *nats.Conn) *memory { return newLoggedMemory(conn, nil) }

// slow is how long a request may wait without a line in the log.
const slow = 500 * time.Millisecond

func newLoggedMemory(conn *nats.Conn, log *zap.Logger) *memory {
	start := time.Now()
	m := &memory{next: 1}
	m.Allocator = allocator.New(allocator.Config{Clock: func() time.Duration { return time.Since(start) }, Wait: time.Hour, MaxParkedPerTag: 2})
	m.Answerer = answer.New(answer.Config{Prefix: messages.DefaultPrefix, MaxBatch: maxBatch, Requests: conn, Slow: slow, Log: log}, m.Allocator)
	m.fill("order", store.Trend, 1<<50)
	return m
}

// fill grants n IDs of a tag that is not buffered yet.
func (m *memory) fill(tag string, order store.Order, n int64) {
	if _, err := m.TakeOrPark(allocator.Request{Tag: tag, N: 1, From: discard{}}); err != nil {
		panic(err)
	}
	m.grant(tag, order, n)
	m.next = 1
}

// requester is the type of a parked request's From.
type requester interface {
	Reply(ids []store.Segment, err error)
}

// open is a barrier that holds nothing.
type open struct{}

func (open) Pass() {}

// discard drops the ID of the request that made a tag's buffer.
type discard struct{}

func (discard) Reply([]store.Segment, error) {}

// work sends the due replies, and returns the loads of a tag. Those of other
// tags are lost.
func (m *memory) work(tag string) (loads []allocator.Load) {
	for _, r := range m.Replies() {
		r.From.(requester).Reply(r.IDs, r.Err)
	}
	for l, ok := m.Send(); ok; l, ok = m.Send() {
		if l.Tag == tag {
			loads = append(loads, l)
		}
	}
	return loads
}

// grant serves the loads of a tag with n IDs, or with as many as they want if
// that is more.
func (m *memory) grant(tag string, order store.Order, n int64) {
	for _, l := range m.work(tag) {
		s := store.Segment{First: m.next, End: m.next + max(n, l.Want)}
		m.next = s.End
		m.Answer(tag, l.Seq, allocator.Answer{Segment: s, Step: 1000, Order: order})
	}
	m.work("")
}

// refuse refuses the loads of a tag.
func (m *memory) refuse(tag string, err error) {
	for _, l := range m.work(tag) {
		m.Answer(tag, l.Seq, allocator.Answer{Refused: err})
	}
	m.work("")
}

// fakeRequest is a NATS request that records the reply.
type fakeRequest struct {
	micro.Request
	subject, reply string
	data           []byte
	header         micro.Headers

	replies int
	body    []byte
	err     *messages.Error
	replied func() // called with each reply that has IDs, unless nil
}

// newRequest returns a request for IDs of a tag.
func newRequest(tag, data string) *fakeRequest {
	return &fakeRequest{subject: messages.DefaultPrefix.Segment(tag), reply: "_INBOX.x", data: []byte(data)}
}

// kept marks a request for IDs that are kept for later.
func (f *fakeRequest) kept() *fakeRequest {
	f.header = micro.Headers{messages.PrefetchHeader: {"1"}}
	return f
}

func (f *fakeRequest) Subject() string        { return f.subject }
func (f *fakeRequest) Reply() string          { return f.reply }
func (f *fakeRequest) Data() []byte           { return f.data }
func (f *fakeRequest) Headers() micro.Headers { return f.header }

func (f *fakeRequest) Respond(body []byte, _ ...micro.RespondOpt) error {
	f.replies++
	f.body = append(f.body[:0], body...)
	if f.replied != nil {
		f.replied()
	}
	return nil
}

func (f *fakeRequest) Error(code, text string, _ []byte, opts ...micro.RespondOpt) error {
	f.replies++
	msg := nats.NewMsg("")
	msg.Header.Set(micro.ErrorCodeHeader, code)
	msg.Header.Set(micro.ErrorHeader, text)
	for _, opt := range opts {
		opt(msg)
	}
	f.err = errorReply(msg)
	return nil
}

// errorReply reads an error reply like a caller.
func errorReply(msg *nats.Msg) *messages.Error {
	_, err := messages.DecodeReply(msg, 1)
	reply, _ := errors.AsType[*messages.Error](err)
	return reply
}

// collector makes an Answerer a prometheus.Collector.
type collector struct{ *answer.Answerer }

func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }
func (c collector) Collect(ch chan<- prometheus.Metric) { c.Answerer.Collect(metric.Sink{To: ch}) }

// scrape returns the metrics by name and the values of the labels in order:
// "requests_total/ok/segment". A histogram is its count and its sum in seconds.
func scrape(t testing.TB, a *answer.Answerer) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{a})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()[len("idworker_"):]
			for _, l := range m.GetLabel() {
				key += "/" + l.GetValue()
			}
			if h := m.GetHistogram(); h != nil {
				values[key+"/count"], values[key+"/sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
				values[key+"/at once"] = float64(h.GetBucket()[0].GetCumulativeCount())
			} else {
				values[key] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

// expect compares all metrics that are not zero.
func expect(t testing.TB, a *answer.Answerer, want map[string]float64) {
	t.Helper()
	got := scrape(t, a)
	for key, v := range got {
		if v != want[key] {
			t.Errorf("%s is %v, want %v", key, v, want[key])
		}
	}
	for key := range want {
		if _, there := got[key]; !there {
			t.Errorf("there is no metric %s", key)
		}
	}
}
