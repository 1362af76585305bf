package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/testing/soak"
)

// TestTagBecomesStrict makes an ordinary tag strict while callers ask for its IDs. A worker that is
// paused, and whose lease others have ended, may have IDs of it in memory: the command names the worker and
// changes nothing. Once the command has succeeded, every ID that is asked for is above all that
// were answered before, whoever answered.
func TestTagBecomesStrict(t *testing.T) {
	t.Parallel()
	const tag = "order"
	s := startStrictWorkers(t, 3, "anchor") // a strict tag, so that leases matter
	createTag(t, s.urls[0], tag, "--step", "500")
	knownToAll(t, s.urls[0], tag, 3)
	for range soak.Pick(1, 5) {
		must(t, "tag", "set", "--server", s.urls[0], tag, "--order", "trend")
		callers := startObservers(t, s.urls, load{callers: 8, tags: []string{tag}, maxBatch: 100, timeout: 400 * time.Millisecond, retry: transient})
		more := func() {
			t.Helper()
			target := callers.ids.Load() + 5000
			natstest.Eventually(t, time.Minute, "IDs are handed out", func() bool { return callers.ids.Load() >= target || t.Failed() })
		}
		more()
		paused := s.workers[0]
		before := s.ended(0)
		paused.pause()
		natstest.Eventually(t, readyWithin, "the lease of the paused worker is ended by others", func() bool { return s.ended(0) > before })
		refused := run(t, "tag", "set", "--server", s.urls[0], tag, "--order", "strict")
		if refused.code == 0 || !strings.Contains(refused.stderr, paused.instance()) {
			t.Errorf("exit code %d, does not name %s: %s", refused.code, paused.instance(), refused.stderr)
		}
		paused.resume()
		natstest.Eventually(t, time.Minute, "the tag is strict", func() bool {
			return run(t, "tag", "set", "--server", s.urls[0], tag, "--order", "strict").code == 0
		})
		since := time.Now()
		more()
		callers.finish()
		callers.checkSince(since)
	}
}

// checkSince is check for a tag that became strict. What was answered before counts as one answer.
func (all *observers) checkSince(since time.Time) {
	all.t.Helper()
	all.mu.Lock()
	defer all.mu.Unlock()
	var top order.Call
	var strict []order.Call
	for _, c := range all.history {
		switch {
		case c.Received.Before(since):
			if last := c.Ranges[len(c.Ranges)-1]; top.Ranges == nil || last.Last > top.Ranges[0].Last {
				top = order.Call{Tag: c.Tag, Sent: c.Received, Received: c.Received, Count: 1, Ranges: []messages.Range{{First: last.Last, Last: last.Last}}}
			}
		case c.Sent.After(since):
			strict = append(strict, c)
		}
	}
	if err := order.Check(append(strict, top)); err != nil {
		all.t.Error(err)
	}
	all.t.Logf("%d answers before the tag was strict, %d since", len(all.history)-len(strict), len(strict))
}
