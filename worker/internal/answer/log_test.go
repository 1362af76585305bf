package answer_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// from adds the trace of a request.
func (f *fakeRequest) from(trace string) *fakeRequest {
	f.header = micro.Headers{"traceparent": {trace}}
	return f
}

// lines returns the lines that were logged since the last call, as "message
// name=value …", with the fields in order of their names.
func lines(logged *observer.ObservedLogs) (all []string) {
	for _, entry := range logged.TakeAll() {
		fields := entry.ContextMap()
		line := entry.Message
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			line += fmt.Sprintf(" %s=%v", name, fields[name])
		}
		all = append(all, line)
	}
	return all
}

func wantLines(t *testing.T, why string, logged *observer.ObservedLogs, want ...string) {
	t.Helper()
	if got := lines(logged); !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", why, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRefusalsAreLogged with kind, tag, code, error and trace, however the
// request came. A reply with IDs is not logged.
func TestRefusalsAreLogged(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	m := newLoggedMemory(nil, zap.New(core))
	late := new(atomic.Bool)
	segments, snowflakes := m.Segments(late, open{}), m.Snowflakes(newGenerator(t), late)
	for _, direct := range []bool{false, true} {
		segments.Handle(newRequest("order", "").from(trace))
		if direct {
			_, _ = m.Segment(t.Context(), "order", []byte("0"), false, trace)
			_, _ = m.Segment(t.Context(), "or der", nil, false, "")
			_, _ = m.Snowflake([]byte("0"), newGenerator(t), trace)
			_ = m.RefuseSegment("order", trace, errors.New("stopping"))
			_ = m.RefuseSnowflake(trace, errors.New("stopping"))
		} else {
			segments.Handle(newRequest("order", "0").from(trace))
			segments.Handle(newRequest("or der", ""))
			req := newRequest("", "0").from(trace)
			req.subject = messages.DefaultPrefix.Snowflake()
			snowflakes.Handle(req)
		}
		want := []string{
			`request refused code=400 error=malformed count: "0", allowed is an empty request or a decimal from 1 to 500 kind=segment tag=order traceparent=` + trace,
			`request refused code=400 error=malformed tag: ' ' at byte 2, allowed are A-Z a-z 0-9 _ - and dots between tokens kind=segment tag=or der`,
			`request refused code=400 error=malformed count: "0", allowed is an empty request or a decimal from 1 to 500 kind=snowflake traceparent=` + trace,
			`request refused code=503 error=stopping kind=segment tag=order traceparent=` + trace,
			`request refused code=503 error=stopping kind=snowflake traceparent=` + trace,
		}
		if !direct {
			want = want[:3]
		}
		wantLines(t, fmt.Sprint("direct: ", direct), logged, want...)
	}
}

// TestHostileRequestsInTheLog: a caller can put neither a long text nor a
// control character of its own into a line.
func TestHostileRequestsInTheLog(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	m := newLoggedMemory(nil, zap.New(core))
	e := m.Segments(new(atomic.Bool), open{})
	for _, forged := range []string{strings.Repeat("x", 1<<20), "a\nERROR all is lost", "a b", "\x1b[2J", "é"} {
		e.Handle(newRequest("order", "0").from(forged))
	}
	many := newRequest("order", "0")
	many.header = micro.Headers{}
	for i := range 10_000 {
		many.header[fmt.Sprint("traceparent", i)] = []string{"x"}
	}
	e.Handle(many)
	e.Handle(newRequest(strings.Repeat("y", 5000), ""))
	e.Handle(newRequest("order", strings.Repeat("7", 1<<20)))
	for _, line := range lines(logged) {
		if strings.Contains(line, "traceparent") || len(line) > 600 {
			t.Errorf("%.1000s", line)
		}
	}
}

// TestLogIsLimited: under a flood, an outcome gets ten lines at once, and then
// one each six seconds, with the number of those that were left out. It takes no
// line of another outcome.
func TestLogIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.InfoLevel)
		m := newLoggedMemory(nil, zap.New(core))
		late := new(atomic.Bool)
		e := m.Segments(late, open{})
		flood := func(n int) {
			for range n {
				e.Handle(newRequest("order", "0"))
			}
		}
		flood(1000)
		if got := lines(logged); len(got) != 10 || slices.ContainsFunc(got, func(l string) bool { return strings.Contains(l, "omitted") }) {
			t.Errorf("of a flood of 1000:\n%s", strings.Join(got, "\n"))
		}
		late.Store(true)
		e.Handle(newRequest("order", "").from(trace))
		late.Store(false)
		wantLines(t, "another outcome", logged, "request refused code=429 error=overloaded: the request queued for more than 1s kind=segment tag=order traceparent="+trace)
		for range 3 {
			time.Sleep(6 * time.Second)
			flood(100)
		}
		var omitted []string
		for _, line := range lines(logged) {
			_, n, _ := strings.Cut(line, "omitted=")
			n, _, _ = strings.Cut(n, " ")
			omitted = append(omitted, n)
		}
		if want := []string{"990", "99", "99"}; !slices.Equal(omitted, want) {
			t.Errorf("left out: %v, want %v", omitted, want)
		}
	})
}

// TestSlowRequestsAreLogged: a request that waited longer than Config.Slow for a
// segment is logged, and so is each that was refused after it waited. Others are
// not.
func TestSlowRequestsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.InfoLevel)
		m := newLoggedMemory(nil, zap.New(core))
		e := m.Segments(new(atomic.Bool), open{})
		for way, park := range map[string]func(tag string){
			"nats":   func(tag string) { e.Handle(newRequest(tag, "").from(trace)) },
			"direct": func(tag string) { go func() { _, _ = m.Segment(t.Context(), tag, nil, false, trace) }() },
		} {
			for _, c := range []struct {
				tag     string
				waits   time.Duration
				refusal error
				want    string
			}{
				{"intime", slow, nil, ""},
				{"late", slow + time.Nanosecond, nil, "request waited for a segment kind=segment tag=late-" + way + " traceparent=" + trace + " waited=500.000001ms"},
				{"gone", time.Millisecond, store.ErrNoTag, "request refused code=404 error=no such tag kind=segment tag=gone-" + way + " traceparent=" + trace + " waited=1ms"},
			} {
				c.tag += "-" + way
				park(c.tag)
				synctest.Wait()
				time.Sleep(c.waits)
				if c.refusal != nil {
					m.refuse(c.tag, c.refusal)
				} else {
					m.grant(c.tag, store.Trend, 1)
				}
				synctest.Wait()
				if got := strings.Join(lines(logged), "\n"); got != c.want {
					t.Errorf("%s: %s; want %s", c.tag, got, c.want)
				}
			}
		}
	})
}
