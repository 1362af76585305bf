package allocator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

const (
	fewestPlaces = 5
	mostPlaces   = 128
)

// busyWorker is an allocator with many tags, and a step of 10.
type busyWorker struct {
	*harness
	sent int // loads so far
	all  []allocator.Load
}

// newBusyWorker returns n tags that were granted once, named tag-0 and so on.
func newBusyWorker(n int, order store.Order) *busyWorker {
	c := &busyWorker{harness: newHarness(allocator.Config{MaxParked: 1 << 20})}
	c.order = order
	for i := range n {
		c.request(fmt.Sprint("tag-", i), 1)
		c.grantAll()
	}
	return c
}

// pass lets time pass, with the ticks of a worker. Loads are answered at once
// if that is not nil.
func (c *busyWorker) pass(d time.Duration, answer func(allocator.Load)) {
	for end := c.now + d; c.now < end; {
		c.now += 50 * time.Millisecond
		c.Tick()
		c.take(answer)
	}
}

// take takes the loads that were sent.
func (c *busyWorker) take(answer func(allocator.Load)) {
	for len(c.asked) > 0 {
		l := c.asked[0]
		c.asked = c.asked[1:]
		c.sent++
		c.all = append(c.all, l)
		if answer != nil {
			answer(l)
		}
	}
}

func (c *busyWorker) serve(l allocator.Load) { c.Grant(l.Tag, l.Seq, c.reserve(c.size(l))) }

// calm fails the test if more loads than five a second are sent in the next
// minute.
func (c *busyWorker) calm(t *testing.T, each func(second int)) {
	t.Helper()
	before := 0
	for second := range 63 {
		if second == 3 { // the places have fallen to five
			before = c.sent
		}
		each(second)
		c.pass(time.Second, nil)
	}
	if n := c.sent - before; n > 61*fewestPlaces || n == 0 {
		t.Errorf("%d loads were sent in a minute, want at most %d a second", n, fewestPlaces)
	}
}

// TestFivePlacesInAnOutage: while no loader answers, a worker sends five loads
// a second, however many it wants. When a loader answers, it sends all of them,
// as fast as they are answered.
func TestFivePlacesInAnOutage(t *testing.T) {
	const tags = 3000
	c := newBusyWorker(tags, store.Trend)
	var parked []*outcome
	want := func() {
		for i := range tags {
			parked = append(parked, c.request(fmt.Sprint("tag-", i), 1000))
		}
	}
	want()
	c.take(nil)
	if c.sent != mostPlaces {
		t.Errorf("%d loads were sent at once after answers had come, want %d", c.sent, mostPlaces)
	}
	c.calm(t, func(int) {})
	parked = nil
	want()
	c.pass(2*time.Second, c.serve)
	for i, r := range parked {
		if r.answered != 1 || r.err != nil {
			t.Fatalf("request %d was answered %d times, with %v", i, r.answered, r.err)
		}
	}
}

// TestCallersWhoGiveUp cause no more loads than callers who wait: a place
// belongs to the sending, and not to the tag.
func TestCallersWhoGiveUp(t *testing.T) {
	const tags = 300
	for _, order := range []store.Order{store.Strict, store.Trend, ""} {
		c, names := newBusyWorker(tags, order), "tag-"
		if order == "" {
			c, names = newBusyWorker(0, store.Trend), "made-up-"
		}
		c.calm(t, func(int) {
			for i := range tags {
				tag := fmt.Sprint(names, i)
				r := c.park(allocator.Request{Tag: tag, N: 1000})
				c.take(nil)
				c.Withdraw(tag, r)
			}
		})
	}
}

// TestNeediestFirst: loads are sent in order of need. A load that is no longer
// wanted is not sent. Requests that are parked for a refill move it forward.
func TestNeediestFirst(t *testing.T) {
	c := newHarness(allocator.Config{MaxStep: 10_000, Wait: time.Hour})
	c.order, c.step = store.Trend, 10_000
	use := func(tag string, n int64) { // IDs a second
		for range 30 {
			c.request(tag, n)
			c.grantAll()
			c.now += time.Second
		}
	}
	// A segment of 10,000 and a low rate lasts for hours.
	use("hours", 1)
	use("minutes", 30)
	use("forward", 1)
	for i := range fewestPlaces {
		c.request(fmt.Sprint("open-", i), 1)
		c.grantAll()
	}
	for i := range fewestPlaces { // they take all places, of which five are left
		c.request(fmt.Sprint("open-", i), 10_001)
	}
	c.now += allocator.DefaultReAsk
	c.Tick()
	c.asked = nil
	c.request("hours", 6000)
	c.request("minutes", 6000)
	c.request("forward", 6000)
	gone := c.request("open-gone", 1)
	c.Withdraw("open-gone", gone)
	parked := c.request("forward", 10_001)
	if len(c.asked) > 0 {
		t.Fatalf("sent %v without a place", c.asked)
	}
	c.now += allocator.DefaultReAsk
	c.Tick()
	var got []string
	for _, l := range c.asked {
		got = append(got, l.Tag)
	}
	if want := "[minutes forward]"; len(got) != fewestPlaces || fmt.Sprint(got[:2]) != want || slices.Contains(got, "hours") {
		t.Errorf("sent %v, want the neediest refill, the parked request, and those that were not served", got)
	}
	parked.wantNone(t)
}

// TestPlacesForUnknownTags: tags without a grant, whose names may be made up,
// take an eighth of the places, whatever else waits.
func TestPlacesForUnknownTags(t *testing.T) {
	c := newBusyWorker(mostPlaces, store.Trend)
	for i := range 1000 {
		c.request(fmt.Sprint("evil-", i), 1)
	}
	evil := c.asked[0]
	c.take(nil)
	if c.sent != mostPlaces/8 {
		t.Errorf("%d unknown tags are open, of %d loads that may be", c.sent, mostPlaces)
	}
	c.request("tag-7", 1000)
	if len(c.asked) != 1 || c.asked[0].Tag != "tag-7" {
		t.Errorf("sent %+v, want the tag that was granted", c.asked)
	}
	c.asked = nil
	c.Refuse(evil.Tag, evil.Seq, store.ErrNoTag)
	if len(c.asked) != 1 || !c.asked[0].First {
		t.Errorf("sent %+v, want the next unknown tag", c.asked)
	}
}

// TestSecondSending: while places are free, and no other load waits, a strict
// load is sent again after an eighth of a second, and a refill as soon as
// requests wait for it.
func TestSecondSending(t *testing.T) {
	strict := newBusyWorker(10, store.Strict)
	strict.now += time.Minute
	strict.request("tag-0", 1)
	strict.pass(900*time.Millisecond, nil)
	if strict.sent != 2 {
		t.Errorf("a strict load was sent %d times, want 2", strict.sent)
	}
	strict.pass(5*time.Second, nil)
	strict.sent = 2
	for i := range 10 {
		strict.request(fmt.Sprint("tag-", i), 1)
	}
	strict.pass(900*time.Millisecond, nil)
	if strict.sent != 2+fewestPlaces {
		t.Errorf("with ten that wait, %d loads were sent, want %d", strict.sent-2, fewestPlaces)
	}

	trend := newBusyWorker(10, store.Trend)
	trend.now += time.Minute
	for trend.request("tag-0", 1); len(trend.asked) == 0; trend.request("tag-0", 1) {
	}
	refill := trend.latest()
	for range 3 {
		trend.request("tag-0", 100)
	}
	if again := trend.latest(); len(trend.asked) != 2 || again.Seq != refill.Seq || refill.Direct || !again.Direct {
		t.Errorf("sent %+v, want the refill once more, directly", trend.asked)
	}
}

// TestRefillBesideManyUrgentLoads: loads that no loader serves keep no refill
// from being sent in time, however many they are.
func TestRefillBesideManyUrgentLoads(t *testing.T) {
	const tags = 3000
	c := newBusyWorker(tags, store.Trend)
	c.now += time.Hour
	c.step = 600
	c.request("refill", 1)
	c.grantAll()
	retry := func() {
		for i := range tags {
			c.request(fmt.Sprint("tag-", i), 1000)
		}
	}
	for i := range tags { // so that their buffers are empty
		c.request(fmt.Sprint("tag-", i), 9)
	}
	for range 5 {
		retry()
		c.pass(allocator.DefaultWait, nil)
	}
	served := time.Duration(0)
	began := c.now
	for second := range 60 { // 10 IDs a second
		if second%2 == 0 {
			retry()
		}
		for range 10 {
			if r := c.request("refill", 1); r.err != nil || r.answered != 1 {
				t.Fatalf("%v: answered %d times, %v", c.now-began, r.answered, r.err)
			}
		}
		c.pass(time.Second, func(l allocator.Load) {
			if l.Tag == "refill" {
				served = c.now
				c.serve(l)
			}
		})
	}
	if served == 0 {
		t.Error("the refill was not sent")
	}
}

// TestQueuedTwice: a refill that the load stream refuses twice, because it has
// an event of the tag, goes directly to a loader if its buffer lasts for less
// than 20 seconds, and otherwise into the stream again.
func TestQueuedTwice(t *testing.T) {
	for _, c := range []struct {
		rate   int64 // IDs a second
		direct bool
	}{{500, true}, {1, false}} {
		h := order(1000)
		h.request("order", 1)
		h.grantAll()
		for h.asked = nil; len(h.asked) == 0; h.now += time.Second {
			h.request("order", c.rate)
		}
		for sending := range 3 {
			l := h.latest()
			if l.Direct != (c.direct && sending == 2) {
				t.Errorf("%d a second: sending %d is %+v", c.rate, sending, l)
			}
			h.Answer("order", l.Seq, allocator.Answer{Later: allocator.Queued})
			h.now += allocator.DefaultReAsk
			h.Tick()
		}
	}
}

// TestLoadThatWasNotSent is returned once more at once, to be sent directly.
func TestLoadThatWasNotSent(t *testing.T) {
	h := order(10)
	for h.request("order", 1); len(h.asked) == 0 || h.latest().First; h.request("order", 1) {
		h.grantAll()
	}
	refill := h.latest()
	h.Answer("order", refill.Seq+1, allocator.Answer{Later: allocator.NotSent})
	h.drain()
	if len(h.asked) != 1 {
		t.Fatalf("sent %+v after the fate of another load", h.asked)
	}
	h.Answer("order", refill.Seq, allocator.Answer{Later: allocator.NotSent})
	h.drain()
	if again := h.latest(); len(h.asked) != 2 || again.Seq != refill.Seq || !again.Direct || refill.Direct {
		t.Errorf("sent %+v, want the refill once more, directly", h.asked)
	}
}
