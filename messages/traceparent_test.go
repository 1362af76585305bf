package messages_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// TestDecodeTraceparent: a value that could forge a line of a log is no value.
func TestDecodeTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	longest := strings.Repeat("~", 256)
	for name, c := range map[string]struct {
		header map[string][]string
		want   string
	}{
		"none":           {nil, ""},
		"others":         {map[string][]string{"tracestate": {"a=b"}, messages.PrefetchHeader: {"1"}}, ""},
		"as W3C":         {map[string][]string{"traceparent": {good}}, good},
		"as net/http":    {map[string][]string{"Traceparent": {good}}, good},
		"longest":        {map[string][]string{"traceparent": {longest}}, longest},
		"too long":       {map[string][]string{"traceparent": {longest + "~"}}, ""},
		"empty":          {map[string][]string{"traceparent": {""}}, ""},
		"no value":       {map[string][]string{"traceparent": {}}, ""},
		"two values":     {map[string][]string{"traceparent": {good, good}}, ""},
		"two names":      {map[string][]string{"traceparent": {good}, "TRACEPARENT": {good}}, ""},
		"space":          {map[string][]string{"traceparent": {"00 01"}}, ""},
		"line break":     {map[string][]string{"traceparent": {"00\n{\"level\":\"error\"}"}}, ""},
		"escape":         {map[string][]string{"traceparent": {"00\x1b[2J"}}, ""},
		"delete":         {map[string][]string{"traceparent": {"00\x7f"}}, ""},
		"beyond ASCII":   {map[string][]string{"traceparent": {"00-é"}}, ""},
		"malformed utf8": {map[string][]string{"traceparent": {"00-\xff"}}, ""},
	} {
		if got := messages.DecodeTraceparent(c.header); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

type traceKey struct{}

// traced returns a context whose trace is a text.
func traced(ctx context.Context, trace string) context.Context {
	return context.WithValue(ctx, traceKey{}, trace)
}

// traceOf is the Traceparent of the clients of these tests.
func traceOf(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	return trace
}

// seen is the headers of requests, in order.
type seen struct {
	mu      sync.Mutex
	headers []nats.Header
}

func (s *seen) note(req *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.headers = append(s.headers, req.Header)
}

// want checks that the requests had these traces, "" for none, and no other
// header.
func (s *seen) want(t *testing.T, name string, traces ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for _, h := range s.headers {
		got = append(got, h.Get("traceparent"))
		if len(h) > 1 || len(h) == 1 && h.Get("traceparent") == "" {
			t.Errorf("%s: headers %v", name, slices.Collect(maps.Keys(h)))
		}
	}
	if !slices.Equal(got, traces) {
		t.Errorf("%s: traces %q, want %q", name, got, traces)
	}
	s.headers = nil
}

// TestTraceparentOfCalls: each kind of call sends its trace, with each try, and
// nothing that is no trace.
func TestTraceparentOfCalls(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		client.Traceparent = traceOf
		var requests seen
		reply := func(req *nats.Msg) {
			requests.note(req)
			n, _ := messages.DecodeCount(req.Data, 10)
			send(t, req, message(messages.Range{First: 11, Last: 10 + n}.String(), "", ""))
		}
		respond(t, nc, "order", func(_ int64, req *nats.Msg) { reply(req) })
		respond(t, nc, "retried", func(number int64, req *nats.Msg) {
			if number < 3 {
				requests.note(req)
				return
			}
			reply(req)
		})
		if _, err := nc.Subscribe(messages.DefaultPrefix.Snowflake(), reply); err != nil {
			t.Fatal(err)
		}
		trace := func(text string) context.Context { return traced(within(t, long), text) }
		for name, call := range map[string]func(context.Context) error{
			"Next":       func(ctx context.Context) error { _, err := client.Next(ctx, "order"); return err },
			"NextN":      func(ctx context.Context) error { _, err := client.NextN(ctx, "order", 2); return err },
			"Snowflake":  func(ctx context.Context) error { _, err := client.Snowflake(ctx); return err },
			"SnowflakeN": func(ctx context.Context) error { _, err := client.SnowflakeN(ctx, 2); return err },
		} {
			for text, want := range map[string]string{
				"00-a-b-01": "00-a-b-01", "": "", "a b": "", "a\r\nIds-Prefetch: 1": "", strings.Repeat("x", 257): "",
			} {
				if err := call(trace(text)); err != nil {
					t.Fatal(err)
				}
				requests.want(t, name, want)
			}
		}
		if _, err := client.Next(trace("a"), "retried"); err != nil {
			t.Fatal(err)
		}
		requests.want(t, "retried", "a", "a", "a")
	})
}

// TestTraceparentOfJoinedCalls: calls that travel together send the trace of the
// first, and their own if they continue alone.
func TestTraceparentOfJoinedCalls(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		client.Traceparent = traceOf
		var requests seen
		var first *nats.Msg
		respond(t, nc, "order", func(number int64, req *nats.Msg) {
			requests.note(req)
			switch {
			case number == 1:
				first = req
			case len(req.Data) > 0: // joined
				send(t, req, message("", "503", "too many at once"))
			default:
				send(t, req, message(strconv.FormatInt(number, 10), "", ""))
			}
		})
		var all calls
		for _, trace := range []string{"a", "b", "c"} {
			all.start(traced(within(t, long), trace), 1, nextOf(client, "order"))
			synctest.Wait()
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		send(t, first, message("1", "", ""))
		all.distinct(t, "joined", 3)
		// The two that continue alone are in any order.
		slices.SortFunc(requests.headers[2:], func(a, b nats.Header) int { return strings.Compare(a.Get("traceparent"), b.Get("traceparent")) })
		requests.want(t, "joined", "a", "b", "b", "c")
	})
}

// TestTraceparentRunsTheApplicationsCode: a function that panics, or requests an
// ID itself, disturbs no other call.
func TestTraceparentRunsTheApplicationsCode(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		requested := make(chan *nats.Msg, 10)
		var handed int64
		respond(t, nc, "order", func(_ int64, req *nats.Msg) { requested <- req })
		grant := func(n int64) {
			t.Helper()
			req := <-requested
			if got, err := messages.DecodeCount(req.Data, 10); got != n || err != nil {
				t.Errorf("a request for %d, %v; want %d", got, err, n)
			}
			send(t, req, message(messages.Range{First: handed + 1, Last: handed + n}.String(), "", ""))
			handed += n
		}
		client.Traceparent = func(ctx context.Context) string {
			switch traceOf(ctx) {
			case "panics":
				panic("of the application")
			case "calls":
				if _, err := client.Next(within(t, long), "order"); err != nil {
					t.Error(err)
				}
			}
			return ""
		}
		panics := func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not reach its caller")
				}
			}()
			_, _ = client.Next(traced(within(t, long), "panics"), "order")
		}
		panics()
		var all calls
		all.start(within(t, long), 1, nextOf(client, "order")) // has the token, so the others join
		synctest.Wait()
		panics()
		all.start(traced(within(t, long), "calls"), 1, nextOf(client, "order"))
		synctest.Wait()
		grant(1)
		grant(1) // that of the function
		grant(1)
		all.distinct(t, "others", 2)
	})
}

// TestTraceparentOfPrefetchers: a refill belongs to no call.
func TestTraceparentOfPrefetchers(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		client.Traceparent = traceOf
		respond(t, nc, "order", func(_ int64, req *nats.Msg) {
			if len(req.Header) != 1 || req.Header.Get(messages.PrefetchHeader) == "" {
				t.Errorf("headers %v", req.Header)
			}
			send(t, req, message("11", "", ""))
		})
		p, err := client.Prefetch("order", messages.PrefetchConfig{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if _, err := p.Next(traced(within(t, long), "a")); err != nil {
			t.Error(err)
		}
	})
}
