package messages_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// TestDecodeTraceparent: the header is found by its name without case, and counts
// only if it is there once. vectors.json has what values may be.
func TestDecodeTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, c := range map[string]struct {
		header map[string][]string
		want   string
	}{
		"none":           {nil, ""},
		"others":         {map[string][]string{"tracestate": {"a=b"}, messages.PrefetchHeader: {"1"}}, ""},
		"as W3C":         {map[string][]string{"traceparent": {good}}, good},
		"as net/http":    {map[string][]string{"Traceparent": {good}}, good},
		"no value":       {map[string][]string{"traceparent": {}}, ""},
		"two values":     {map[string][]string{"traceparent": {good, good}}, ""},
		"two names":      {map[string][]string{"traceparent": {good}, "TRACEPARENT": {good}}, ""},
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
