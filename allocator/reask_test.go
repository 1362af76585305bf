package allocator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
)

// TestReAskBacksOff: a load that nobody answers is asked for after 1, 2, 4, 8 and then every 16
// seconds, and at once when the first request has to wait for it.
func TestReAskBacksOff(t *testing.T) {
	h := order(10)
	h.request("order", 1)
	h.grantAll()
	for len(h.asked) == 0 { // until the last segment in memory is past its mark
		h.request("order", 1)
	}
	var at []time.Duration
	tick := func(until time.Duration) {
		for ; h.now < until; h.now += 10 * time.Millisecond {
			h.Tick()
			for range h.asked {
				at = append(at, h.now.Round(time.Second))
			}
			h.asked = nil
		}
	}
	h.asked = nil
	tick(70 * time.Second)
	if got, want := fmt.Sprint(at), "[1s 3s 7s 15s 31s 47s 1m3s]"; got != want {
		t.Errorf("asked again at %s, want %s", got, want)
	}
	for range 10 {
		h.request("order", 100)
	}
	if len(h.asked) != 1 || h.asked[0].Want != 100 {
		t.Errorf("with ten requests parked, asked for %+v; want the load once", h.asked)
	}
}

// TestLoadSaysHowMuchItIsNeeded: a load says how long memory lasts when it is asked for, and
// again when it is looked at.
func TestLoadSaysHowMuchItIsNeeded(t *testing.T) {
	h := order(1000)
	h.request("order", 1)
	h.grantAll()
	for range 100 {
		h.now += 100 * time.Millisecond
		h.request("order", 1)
	}
	last := h.asked[len(h.asked)-1]
	if last.Runway < 80*time.Second || last.Runway > 100*time.Second {
		t.Fatalf("asked for %+v; want a runway of 90 s", last)
	}
	h.request("order", 850)
	now, ok := h.CurrentLoad("order", last.Seq)
	if !ok || now.Runway > 10*time.Second {
		t.Errorf("then it is %+v, %v; want a runway of seconds", now, ok)
	}
	h.grantAll()
	if now, ok := h.CurrentLoad("order", now.Seq); ok {
		t.Errorf("granted, and still under way: %+v", now)
	}
}

// TestTicksCostWhatIsDue: with 10,000 loads under way of which none is due, a tick visits none.
func TestTicksCostWhatIsDue(t *testing.T) {
	t.Parallel()
	const tags = 10_000
	h := newHarness(allocator.Config{MaxParked: tags})
	for i := range tags {
		tag := fmt.Sprint("t", i)
		h.request(tag, 1)
		h.grantAll()
		h.request(tag, 1000) // which is more than there is
		h.asked = nil
	}
	h.now = 40 * time.Second // expires the requests, and is the first asking again
	h.Tick()
	if len(h.asked) != tags {
		t.Fatalf("%d loads were asked for again, want %d", len(h.asked), tags)
	}
	h.asked = nil
	reads := h.reads
	for range 20 {
		h.now += 50 * time.Millisecond
		h.Tick()
	}
	if reads = h.reads - reads; reads > 100 || len(h.asked) > 0 {
		t.Errorf("in a second of ticks the allocator read the clock %d times and asked for %d loads, want next to none", reads, len(h.asked))
	}
}

// TestVisitThatComesTooEarly: a tick a moment before a deadline does not forget it.
func TestVisitThatComesTooEarly(t *testing.T) {
	h := order(10)
	r := h.request("order", 1)
	h.now = allocator.DefaultWait + 5*time.Millisecond
	late := h.request("order", 1) // its deadline lies in the midst of the agenda's unit
	h.Tick()
	h.now += allocator.DefaultWait - time.Millisecond
	h.Tick()
	h.now += time.Millisecond
	h.Tick()
	if r.answered != 1 || late.answered != 1 {
		t.Errorf("answered %d and %d times at the deadlines, want both once", r.answered, late.answered)
	}
}

// TestEmptyTagHasNoRunway: also if nothing is parked any more.
func TestEmptyTagHasNoRunway(t *testing.T) {
	h := order(10)
	h.request("order", 10)
	h.Grant("order", h.asked[0].Seq, h.reserve(10))
	h.request("order", 1)
	h.now += time.Minute
	h.Tick()
	if last := h.asked[len(h.asked)-1]; last.Want != 0 || last.Runway != 0 {
		t.Errorf("asked for %+v; want nothing parked, and no runway", last)
	}
}
