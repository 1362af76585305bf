package bench

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// measured is what a caller saw of a service in one round. Times are in microseconds.
type measured struct {
	rate           float64 // requests per second
	p50, p99, p999 float64
	allocs         float64 // per request; of caller, service and server together
}

// caller sends requests, all of them on one connection, with a number of them in
// flight, and sends the next as soon as one is answered. One inbox serves them all,
// and the last token of the reply subject says which of the requests it is; so the
// caller costs little beside the service, and the same whatever the service is.
type caller struct {
	message func(reply string) *nats.Msg // makes a request, if it is not an empty one to the subject

	nc       *nats.Conn
	inbox    string
	inFlight int

	// Belong to the subscription while a round is on.
	subject string
	until   time.Time
	sent    []time.Time
	took    []time.Duration
	open    int
	last    time.Time
	wrong   *nats.Msg
	done    chan struct{}
}

func newCaller(b *testing.B, nc *nats.Conn, inFlight int) *caller {
	c := &caller{nc: nc, inbox: nc.NewInbox() + ".", inFlight: inFlight, sent: make([]time.Time, inFlight)}
	sub, err := nc.Subscribe(c.inbox+"*", c.answered)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sub.Unsubscribe() })
	return c
}

// round calls a subject for that long.
func (c *caller) round(b *testing.B, subject string, d time.Duration) measured {
	runtime.GC() // no round pays for the garbage of the one before
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	c.subject, c.until, c.took, c.open, c.done = subject, start.Add(d), c.took[:0], c.inFlight, make(chan struct{})
	for i := range c.sent {
		c.sent[i] = start
	}
	for i := range c.inFlight {
		c.send(c.inbox + strconv.Itoa(i))
	}
	select {
	case <-c.done:
	case <-time.After(d + 20*time.Second):
		if c.wrong != nil {
			b.Fatalf("%s answered %q %v", subject, c.wrong.Data, c.wrong.Header)
		}
		b.Fatalf("%s: requests were not answered", subject)
	}
	runtime.ReadMemStats(&after)
	if c.wrong != nil {
		b.Fatalf("%s answered %q %v", subject, c.wrong.Data, c.wrong.Header)
	}
	slices.Sort(c.took)
	n := float64(len(c.took))
	return measured{
		rate:   n / c.last.Sub(start).Seconds(),
		p50:    micros(percentile(c.took, 0.5)),
		p99:    micros(percentile(c.took, 0.99)),
		p999:   micros(percentile(c.took, 0.999)),
		allocs: float64(after.Mallocs-before.Mallocs) / n,
	}
}

func (c *caller) send(reply string) {
	if c.message != nil {
		_ = c.nc.PublishMsg(c.message(reply))
		return
	}
	_ = c.nc.PublishRequest(c.subject, reply, nil) // if that fails, so does the round
}

// answered books a reply and sends the next request.
func (c *caller) answered(msg *nats.Msg) {
	now := time.Now()
	i, err := strconv.Atoi(strings.TrimPrefix(msg.Subject, c.inbox))
	if err != nil || len(msg.Data) != len(payload) {
		c.wrong = msg
		return
	}
	c.took = append(c.took, now.Sub(c.sent[i]))
	if now.Before(c.until) {
		c.sent[i] = now
		c.send(msg.Subject)
		return
	}
	if c.open--; c.open == 0 {
		c.last = now
		close(c.done)
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
