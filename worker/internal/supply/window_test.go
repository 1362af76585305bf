package supply

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// requestedLoads requests the loads that a window admits, and answers them, or
// not.
type requestedLoads struct {
	w         *window
	answers   time.Duration // delay of each answer; 0: no answer
	requested []string
	unwanted  map[string]bool
	due       []answer // in order
}

type answer struct {
	at  time.Time
	tag string
	seq uint64
}

func (r *requestedLoads) add(tag string, seq uint64, need time.Time, first bool) {
	r.w.add(tag, seq, need, first)
	r.advance()
}

func (r *requestedLoads) answer(tag string, seq uint64) {
	r.w.answer(tag, seq)
	r.advance()
}

// advance does the loop's work.
func (r *requestedLoads) advance() {
	for l := r.w.next(); l != nil; l = r.w.next() {
		if r.unwanted[l.tag] {
			r.w.end(l, false)
			continue
		}
		r.requested = append(r.requested, l.tag)
		if r.answers > 0 {
			r.due = append(r.due, answer{time.Now().Add(r.answers), l.tag, l.seq})
		}
	}
}

// passTime lets time pass, with the due answers and the ticks of a worker.
func (r *requestedLoads) passTime(d time.Duration) {
	for n := 1; n <= int(d/(5*time.Millisecond)); n++ {
		time.Sleep(5 * time.Millisecond)
		for len(r.due) > 0 && !time.Now().Before(r.due[0].at) {
			r.unwanted[r.due[0].tag] = true
			r.answer(r.due[0].tag, r.due[0].seq)
			r.due = r.due[1:]
		}
		if n%10 == 0 {
			r.w.tick()
			r.advance()
		}
	}
}

func testWindow(t *testing.T, f func(t *testing.T, r *requestedLoads)) {
	synctest.Test(t, func(t *testing.T) {
		f(t, &requestedLoads{w: newWindow(), unwanted: make(map[string]bool)})
	})
}

// TestWindowInAnOutage: while no loader answers, a worker requests five loads a
// second, however many it wants. When a loader answers, it requests all of
// them, as fast as they are answered.
func TestWindowInAnOutage(t *testing.T) {
	testWindow(t, func(t *testing.T, r *requestedLoads) {
		const tags = 10_000
		want := func() {
			for n := range tags {
				r.add(fmt.Sprint(n), 1, time.Now(), false)
			}
		}
		r.answers = 5 * time.Millisecond
		for n := range mostOpen {
			r.add(fmt.Sprint("warm", n), 1, time.Now(), false)
		}
		r.passTime(time.Second)
		r.answers = 0
		before := len(r.requested)
		want()
		if n := len(r.requested) - before; n != mostOpen {
			t.Errorf("%d loads were requested at once after answers had come, want %d", n, mostOpen)
		}
		r.passTime(2 * time.Second)
		before = len(r.requested)
		for range 6 {
			want() // the allocator wants them again
			r.passTime(10 * time.Second)
		}
		if n := len(r.requested) - before; n > 6*60 || n < 4*60 {
			t.Errorf("%d loads were requested in a minute, want about %d a second", n, leastOpen)
		}
		want()
		r.answers = 5 * time.Millisecond
		r.passTime(2 * time.Second)
		if n := len(r.unwanted); n < tags {
			t.Errorf("%d loads answered within two seconds, want all", n)
		}
	})
}

// TestWindowOrdersByNeed: loads are requested in order of need. A load that is
// no longer wanted is not requested. A load that is added again is requested
// once more, but not while it is open.
func TestWindowOrdersByNeed(t *testing.T) {
	testWindow(t, func(t *testing.T, r *requestedLoads) {
		for n := range leastOpen {
			r.add(fmt.Sprint("open", n), 1, time.Now(), false)
		}
		now := time.Now()
		r.add("idle", 1, now.Add(1000*time.Hour), false)
		r.add("minute", 1, now.Add(time.Minute), false)
		r.add("hour", 1, now.Add(time.Hour), false)
		r.add("gone", 1, now, false)
		r.unwanted["gone"] = true
		r.add("parked", 1, now, false)
		r.add("hour", 1, now.Add(time.Second), false)
		r.add("open0", 1, now.Add(time.Hour), false)
		r.passTime(1100 * time.Millisecond)
		want := "[open0 open1 open2 open3 open4 parked hour minute open0 idle]"
		if got := fmt.Sprint(r.requested); got != want {
			t.Errorf("requested %s, want %s", got, want)
		}
		// A later load of an open tag: the first has ended.
		r.add("parked", 2, now, false)
		r.answer("parked", 1)
		r.passTime(1100 * time.Millisecond)
		if got := fmt.Sprint(r.requested); got != want[:len(want)-1]+" parked]" {
			t.Errorf("requested %s, want another load of the parked tag", got)
		}
	})
}

// TestWindowIgnoresOvertakenLoads: an earlier load of a tag does not replace a
// later one, whether it waits or is open.
func TestWindowIgnoresOvertakenLoads(t *testing.T) {
	for _, limit := range []int{0, leastOpen} {
		w := newWindow()
		w.limit = limit
		var requested []uint64
		advance := func() {
			for l := w.next(); l != nil; l = w.next() {
				requested = append(requested, l.seq)
			}
		}
		for _, seq := range []uint64{6, 5} {
			w.add("order", seq, time.Now(), false)
			advance()
		}
		w.limit = leastOpen
		advance()
		if len(requested) != 1 || requested[0] != 6 {
			t.Errorf("limit %d: requested %v, want 6 alone", limit, requested)
		}
	}
}

// TestWindowWithUnknownTags: tags that the worker was never granted, whose
// names may be made up, take an eighth of the window, whatever waits.
func TestWindowWithUnknownTags(t *testing.T) {
	testWindow(t, func(t *testing.T, r *requestedLoads) {
		r.w.limit = mostOpen
		for n := range 10_000 {
			r.add(fmt.Sprint("evil", n), 1, time.Now(), true)
		}
		before := len(r.requested)
		if before != mostOpen/unknownShare {
			t.Errorf("%d unknown tags are open, of %d loads that may be", before, mostOpen)
		}
		r.add("cold", 1, time.Now(), false)
		r.answer("evil0", 1)
		if got, want := fmt.Sprint(r.requested[before:]), fmt.Sprintf("[cold evil%d]", before); got != want {
			t.Errorf("requested %s, want %s", got, want)
		}
	})
}

// TestWindowRepeatsWhileThereIsRoom: an open load may be requested once more,
// but not when another waits.
func TestWindowRepeatsWhileThereIsRoom(t *testing.T) {
	w := newWindow()
	may := func(want bool) {
		t.Helper()
		if got := w.mayRepeat("order", 7); got != want {
			t.Errorf("may be repeated: %t, want %t", got, want)
		}
	}
	w.add("order", 7, time.Now(), false)
	may(false)
	w.next()
	may(true)
	w.add("other", 1, time.Now(), false)
	may(false)
	for n := range leastOpen - 1 {
		w.add(fmt.Sprint(n), 1, time.Now(), false)
		w.next()
	}
	w.end(w.loads["3"], false) // it waits; no other load does now
	may(false)
}
