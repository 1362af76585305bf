package bench

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// BenchmarkSnowflakeRequest measures requests for a snowflake ID beside those
// for a bare echo service on the same server, as BenchmarkRequest does for
// segments.
func BenchmarkSnowflakeRequest(b *testing.B) {
	for _, c := range []struct {
		what     string
		inFlight int
	}{{"one at a time", 1}, {"256 in flight", 256}} {
		b.Run(fmt.Sprintf("inflight=%d", c.inFlight), func(b *testing.B) {
			benchmarkSnowflakeRequest(b, c.what, c.inFlight)
		})
	}
}

func benchmarkSnowflakeRequest(b *testing.B, what string, inFlight int) {
	srv := natstest.Start(b, syncAlways)
	own := newGenerator(b, snowflake.Default())
	id, err := own.Next()
	if err != nil {
		b.Fatal(err)
	}
	startSnowflakeEcho(b, srv, "echo", id.String())
	newSite(b, srv, worker.Config{Prefix: "subject"}, nil).mustStart(worker.RoleWorker)

	call := newLongCaller(b, srv.Connect(b), inFlight, len(id.String()))
	await(b, srv, "subject")
	side := func(prefix messages.Prefix) func() measured {
		return func() measured { return call.round(b, prefix.Snowflake(), requestRound) }
	}
	figures := inTurns(requestRounds, side("echo"), side("subject"))
	echo, subject := figures[0], figures[1]
	add := func(field func(measured) float64, metric, unit string, bar bar) {
		ratio := medianRatio(column(subject, field), column(echo, field))
		b.ReportMetric(ratio, metric+"/echo")
		table.add(row{
			what: "snowflake request, " + what + ": " + metric, unit: unit, beside: "echo", ratio: ratio, bar: bar,
			subject: median(column(subject, field)), baseline: median(column(echo, field)),
		})
	}
	add(func(m measured) float64 { return m.rate }, "throughput", "/s", atLeast(rateBar))
	add(func(m measured) float64 { return m.p50 }, "p50", "µs", bar{})
	add(func(m measured) float64 { return m.p999 }, "p99.9", "µs", bar{})
	add(func(m measured) float64 { return m.allocs }, "allocations", "each", bar{})
	b.ReportMetric(0, "ns/op")
}

// newLongCaller is a caller that takes replies of that length for the usual
// payload.
func newLongCaller(b *testing.B, nc *nats.Conn, inFlight, length int) *caller {
	c := newCaller(b, nc, inFlight)
	c.inbox = nc.NewInbox() + "."
	sub, err := nc.Subscribe(c.inbox+"*", func(msg *nats.Msg) {
		if len(msg.Data) == length {
			msg.Data = msg.Data[:len(payload)]
		} else if len(msg.Data) == len(payload) {
			msg.Data = nil // as wrong as any other length
		}
		c.answered(msg)
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sub.Unsubscribe() })
	return c
}

// startSnowflakeEcho is the plainest service that could answer these requests.
func startSnowflakeEcho(b *testing.B, srv *natstest.Node, prefix messages.Prefix, text string) {
	b.Helper()
	reply := []byte(text)
	service, err := micro.AddService(srv.Connect(b), micro.Config{
		Name: "echo", Version: "0.0.0", QueueGroup: prefix.QueueGroup(),
		Endpoint: &micro.EndpointConfig{
			Subject: prefix.Snowflake(),
			Handler: micro.HandlerFunc(func(req micro.Request) { _ = req.Respond(reply) }),
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = service.Stop() })
}

// await returns when snowflake IDs are served.
func await(b *testing.B, srv *natstest.Node, prefix messages.Prefix) {
	b.Helper()
	client := messages.NewClient(srv.Connect(b), prefix)
	natstest.Eventually(b, "snowflake IDs", func() bool {
		_, err := client.Snowflake(b.Context())
		return err == nil
	})
}
