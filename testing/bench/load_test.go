package bench

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// measured holds a caller's figures of a service in a round. Times are in
// microseconds.
type measured struct {
	rate           float64 // requests per second
	p50, p99, p999 float64
	allocs         float64 // per request; of caller, service and server together
}

// caller sends requests, all on a single connection, with a number of them in
// flight, and sends the next as soon as an answer arrives. A single inbox
// serves them all, and the last token of the reply subject identifies the
// request; so the caller costs little beside the service, and the same for
// every service.
type caller struct {
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
	runtime.GC() // no round pays for the last round's garbage
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	if err := c.run(subject, d); err != nil {
		b.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	m := measure(c.took, c.last.Sub(start))
	m.allocs = float64(after.Mallocs-before.Mallocs) / float64(len(c.took))
	return m
}

// measure returns the figures of calls with these durations.
func measure(took []time.Duration, all time.Duration) measured {
	slices.Sort(took)
	return measured{
		rate: float64(len(took)) / all.Seconds(),
		p50:  micros(percentile(took, 0.5)),
		p99:  micros(percentile(took, 0.99)),
		p999: micros(percentile(took, 0.999)),
	}
}

// run calls a subject for that long.
func (c *caller) run(subject string, d time.Duration) error {
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
		return fmt.Errorf("%s: requests were not answered; the latest answer that was no ID: %+v", subject, c.wrong)
	}
	return nil
}

// callers are many callers with connections of their own, each with a single
// request in flight.
type callers []*caller

func newCallers(b *testing.B, net connector, n int) (all callers) {
	for range n {
		all = append(all, newCaller(b, net.Connect(b), 1))
	}
	return all
}

// round has all of them call a subject for that long.
func (all callers) round(b *testing.B, subject string, d time.Duration) measured {
	runtime.GC()
	start := time.Now()
	var group sync.WaitGroup
	for _, c := range all {
		group.Go(func() {
			if err := c.run(subject, d); err != nil {
				b.Error(err)
			}
		})
	}
	group.Wait()
	took := time.Since(start)
	var each []time.Duration
	for _, c := range all {
		each = append(each, c.took...)
	}
	return measure(each, took)
}

func (c *caller) send(reply string) {
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
