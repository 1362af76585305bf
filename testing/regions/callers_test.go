package regions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/order"
)

// The kinds of IDs.
const (
	trend     = "trend"
	strict    = "strict"
	snowflake = "snowflake"
)

var kinds = []string{trend, strict, snowflake}

func subject(kind string) string {
	if kind == snowflake {
		return messages.DefaultPrefix.Snowflake()
	}
	return messages.DefaultPrefix.Segment(kind) // the tag is named after its kind
}

// request is a request and its outcome. An empty outcome is an answer with IDs.
type request struct {
	history.Call
	region, phase, outcome string
}

// callers request IDs in several regions until they are stopped. Each has one
// request at a time, and does not retry it, so that failures show.
type callers struct {
	t     testing.TB
	phase atomic.Pointer[string]
	zero  time.Time     // of the times of requests
	began time.Duration // of the phase

	mu       sync.Mutex
	requests []request

	stop chan struct{}
	once sync.Once
	wg   sync.WaitGroup
}

func newCallers(t testing.TB) *callers {
	c := &callers{t: t, zero: time.Now(), stop: make(chan struct{})}
	c.enter("start")
	t.Cleanup(c.finish)
	return c
}

// enter begins a phase, by which figures are listed.
func (c *callers) enter(phase string) {
	c.phase.Store(&phase)
	c.began = time.Since(c.zero)
}

// since logs the time since the phase began.
func (c *callers) since(what string) {
	c.t.Helper()
	c.t.Logf("%s: %s after %v", *c.phase.Load(), what, (time.Since(c.zero) - c.began).Round(time.Millisecond))
}

// start starts a caller of each kind in a region, with a connection of its own.
func (c *callers) start(r *region, batch int64, kinds ...string) {
	c.t.Helper()
	for _, kind := range kinds {
		conn := r.connect("caller")
		c.wg.Go(func() { c.call(conn, r.name, kind, batch) })
	}
}

// pace spares the machine: 100 requests a second from each caller.
const pace = 10 * time.Millisecond

// answerWithin exceeds the time in which a worker replies 503 (--wait).
const answerWithin = 3 * time.Second

func (c *callers) call(conn *nats.Conn, region, kind string, batch int64) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		r := request{Call: history.Call{Tag: kind, Count: batch}, region: region, phase: *c.phase.Load()}
		ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
		r.Sent = time.Since(c.zero)
		reply, err := conn.RequestWithContext(ctx, subject(kind), messages.EncodeCount(batch))
		r.Received = time.Since(c.zero)
		cancel()
		if err == nil {
			r.Ranges, err = messages.DecodeReply(reply, batch)
		}
		r.outcome = outcome(err)
		c.mu.Lock()
		c.requests = append(c.requests, r)
		c.mu.Unlock()
	}
}

// outcome is the reason of a failure that a cut link may cause. Other errors
// are prefixed by WRONG.
func outcome(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, messages.ErrUnavailable):
		return "503"
	case errors.Is(err, nats.ErrNoResponders):
		return "no responders"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "WRONG: " + err.Error()
}

// finish stops the callers, and waits for their last replies.
func (c *callers) finish() {
	c.once.Do(func() { close(c.stop) })
	c.wg.Wait()
}

// ended returns the requests with an outcome that were sent at or after a time,
// the latest first.
func (c *callers) ended(since time.Duration, region, kind, outcome string) (found []request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range slices.Backward(c.requests) {
		if r.Received < since {
			break // all others were received even earlier
		}
		if r.region == region && r.Tag == kind && r.outcome == outcome && r.Sent >= since {
			found = append(found, r)
		}
	}
	return found
}

// answers waits for so many further answers of each kind in a region.
func (c *callers) answers(n int, region string, kinds ...string) {
	c.t.Helper()
	now := time.Since(c.zero)
	for _, kind := range kinds {
		natstest.Eventually(c.t, fmt.Sprintf("%d answers with %s IDs in %s", n, kind, region), func() bool {
			return len(c.ended(now, region, kind, "")) >= n
		})
	}
}

// sees waits until a request sent in this phase ends with an outcome, and logs
// when the first did.
func (c *callers) sees(region, kind, outcome string) {
	c.t.Helper()
	var found []request
	natstest.Eventually(c.t, fmt.Sprintf("a request for %s IDs in %s ends with %q", kind, region, outcome), func() bool {
		found = c.ended(c.began, region, kind, outcome)
		return len(found) > 0
	})
	first := found[len(found)-1]
	c.t.Logf("%s: first %q for %s in %s after %v", *c.phase.Load(), cmp.Or(outcome, "answer"), kind, region,
		(first.Received - c.began).Round(time.Millisecond))
}

// check stops the callers, and checks all of their IDs.
func (c *callers) check() {
	c.t.Helper()
	c.finish()
	c.log()
	var ledger order.Ledger
	var ordered []history.Call
	for _, r := range c.requests {
		if strings.HasPrefix(r.outcome, "WRONG") {
			c.t.Errorf("%s in %s, %s: %s", r.Tag, r.region, r.phase, r.outcome)
		}
		if r.outcome != "" {
			continue
		}
		ledger.Add(r.Tag, r.Count, r.Ranges...)
		if r.Tag == strict {
			ordered = append(ordered, r.Call)
		}
	}
	ledger.Check(c.t)
	if err := order.Check(ordered); err != nil {
		c.t.Error(err)
	}
	c.t.Logf("checked %d trend, %d strict and %d snowflake IDs", ledger.Sum(trend), ledger.Sum(strict), ledger.Sum(snowflake))
}

// log logs the figures of each phase, region and kind, in the order of their
// beginnings.
func (c *callers) log() {
	c.t.Helper()
	type row struct{ phase, region, kind string }
	type figures struct {
		requests int
		failed   map[string]int
		wait     time.Duration
		last     time.Duration // of an answer
		gap      time.Duration
	}
	var rows []row
	all := make(map[row]*figures)
	for _, r := range c.requests {
		key := row{r.phase, r.region, r.Tag}
		f := all[key]
		if f == nil {
			f = &figures{failed: make(map[string]int), last: r.Sent}
			all[key] = f
			rows = append(rows, key)
		}
		f.requests++
		f.wait = max(f.wait, r.Received-r.Sent)
		f.gap = max(f.gap, r.Received-f.last)
		if r.outcome == "" {
			f.last = r.Received
		} else {
			f.failed[r.outcome]++
		}
	}
	for _, key := range rows {
		f := all[key]
		c.t.Logf("%-28s %-5s %-10s %5d requests, failed %v, longest wait %v, longest time without an ID %v",
			key.phase, key.region, key.kind, f.requests, f.failed, f.wait.Round(time.Millisecond), f.gap.Round(time.Millisecond))
	}
}
