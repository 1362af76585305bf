package allocator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// loadLog is a harness that notes when a load is requested again.
type loadLog struct {
	*harness
	at  []time.Duration // rounded
	seq uint64          // of the latest load
}

// until lets time pass.
func (a *loadLog) until(end time.Duration) {
	for ; a.now < end; a.now += 10 * time.Millisecond {
		a.Tick()
		for a.sendOne() {
		}
		for _, l := range a.asked {
			a.at, a.seq = append(a.at, a.now.Round(250*time.Millisecond)), l.Seq
		}
		a.asked = nil
	}
}

// want fails the test unless the load was requested again at these times.
func (a *loadLog) want(t *testing.T, at string) {
	t.Helper()
	if got := fmt.Sprint(a.at); got != at {
		t.Errorf("asked again at %s, want %s", got, at)
	}
	a.at = nil
}

// refill returns a tag with a refill under way, number seq.
func refill() (a *loadLog, seq uint64) {
	a = &loadLog{harness: order(10)}
	a.request("order", 1)
	a.grantAll()
	for len(a.asked) == 0 { // until the last buffered segment is past its mark
		a.request("order", 1)
	}
	seq, a.asked = a.latest().Seq, nil
	return a, seq
}

// TestReAsk: a load without an answer is requested again every second, and
// immediately when the first request waits for it. Loads of strict and unknown
// tags are sent twice each second.
func TestReAsk(t *testing.T) {
	h, _ := refill()
	h.until(5500 * time.Millisecond)
	h.want(t, "[1s 2s 3s 4s 5s]")
	for range 10 {
		h.request("order", 100)
	}
	if len(h.asked) != 1 || h.asked[0].Want != 100 {
		t.Errorf("with ten requests parked, asked for %+v; want the load once", h.asked)
	}

	h = &loadLog{harness: order(10)}
	h.request("order", 1)
	h.asked = nil
	h.until(1500 * time.Millisecond)
	h.want(t, "[250ms 1s 1.25s]") // 125 ms after each sending, rounded
}

// TestNotNow: a postponed load is requested again after 1, 2, 4, 8, and then
// every 16 seconds, no matter which requests wait. Without another answer the
// pause stays, and a grant or a refusal ends it.
func TestNotNow(t *testing.T) {
	h, seq := refill()
	h.NotNow("order", seq+1) // another load
	h.until(500 * time.Millisecond)
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 16} {
		began := h.now
		h.NotNow("order", seq)
		h.NotNow("order", seq) // the answer to an earlier try
		if r := h.request("order", 100); len(h.asked) > 0 || r.err != nil {
			t.Errorf("asked for %+v during the pause, for a request that got %v", h.asked, r.err)
		}
		h.until(began + pause*time.Second - 10*time.Millisecond)
		h.want(t, "[]")
		h.until(began + pause*time.Second + 10*time.Millisecond)
		h.want(t, fmt.Sprintf("[%v]", (began+pause*time.Second).Round(250*time.Millisecond)))
	}
	began := h.now
	h.until(began + 33*time.Second)
	if len(h.at) != 2 {
		t.Errorf("without an answer asked at %v, want every 16 s", h.at)
	}
	for _, answer := range []func(){
		func() { h.Grant("order", seq, h.reserve(10)) },
		func() { h.Refuse("order", seq, store.ErrExhausted); h.now += time.Hour },
	} {
		answer()
		h.request("order", 100)
		seq = h.latest().Seq
		h.asked, h.at, began = nil, nil, h.now
		h.NotNow("order", seq)
		h.until(began + 1100*time.Millisecond)
		h.want(t, fmt.Sprintf("[%v]", (began+time.Second).Round(250*time.Millisecond)))
	}
}

// TestSilenceAfterNotNow: a load that was postponed once, and then gets no
// answer, is requested again every second, and its requests end at their
// deadline.
func TestSilenceAfterNotNow(t *testing.T) {
	h := &loadLog{harness: strict(allocator.Config{Wait: 10 * time.Second})}
	r := h.request("order", 1)
	h.NotNow("order", h.send(t).Seq)
	h.asked = nil
	h.until(4500 * time.Millisecond)
	h.want(t, "[1s 2s 3s 4s]")
	h.until(10100 * time.Millisecond)
	r.wantErr(t, allocator.ErrNoSegment)
}

// TestLateNotNow: the pause grows although the loader answers long after each
// sending, as it does for a row that hangs.
func TestLateNotNow(t *testing.T) {
	const call = 3 * time.Second
	h := &loadLog{harness: strict(allocator.Config{Wait: time.Hour})}
	h.request("order", 1)
	seq := h.send(t).Seq
	h.asked = nil
	calls := 0
	for ; h.now < 5*time.Minute; calls++ {
		h.until(h.now + call) // sendings of that time join the call
		h.NotNow("order", seq)
		for h.at = nil; len(h.at) == 0 && h.now < 5*time.Minute; {
			h.until(h.now + 50*time.Millisecond)
		}
	}
	if h.Loading() != 1 || calls > 25 {
		t.Errorf("%d calls in 5 minutes, want one each 16 s in the end", calls)
	}
}

// TestNotNowOfAStrictTag: the pause outlives the load, whose requests go away
// before its end. The next load is requested then.
func TestNotNowOfAStrictTag(t *testing.T) {
	h := &loadLog{harness: strict(allocator.Config{})}
	ask := func() uint64 {
		h.request("order", 1)
		defer func() { h.asked = nil }()
		return h.send(t).Seq
	}
	h.NotNow("order", ask())
	h.until(1010 * time.Millisecond)
	h.want(t, "[1s]")
	h.NotNow("order", h.seq)
	// The load goes with its request.
	h.until(allocator.DefaultWait + 10*time.Millisecond)
	if h.Loading() != 0 {
		t.Fatal("the load is open")
	}
	behind := h.request("order", 1)
	if h.Loading() != 1 || h.sendOne() {
		t.Errorf("%d loads are open, asked for %+v; want one that waits", h.Loading(), h.asked)
	}
	h.until(3100 * time.Millisecond)
	h.want(t, "[3s]")
	behind.wantNone(t)
	h.Grant("order", h.seq, h.reserve(1))
	if behind.answered != 1 || behind.err != nil {
		t.Errorf("answered %d times, %v", behind.answered, behind.err)
	}
	h.NotNow("order", ask())
	h.until(h.now + 1010*time.Millisecond)
	if len(h.at) != 1 {
		t.Errorf("after a grant asked at %v, want a second later", h.at)
	}
}

// TestNotNowAndImpatientCallers: callers of a strict tag that give up before
// the loader answers do not end its pause, which counts from the sending.
func TestNotNowAndImpatientCallers(t *testing.T) {
	h := &loadLog{harness: strict(allocator.Config{})}
	r := h.request("order", 1)
	h.NotNow("order", h.send(t).Seq)
	h.asked = nil
	h.until(1010 * time.Millisecond)
	h.NotNow("order", h.seq)
	h.Withdraw("order", r)
	for h.now < 10*time.Second {
		r = h.request("order", 1)
		h.until(h.now + 200*time.Millisecond)
		h.Withdraw("order", r)
	}
	h.want(t, "[1s 3s 5s 7s 9s]")
}

// TestLoadSaysHowMuchItIsNeeded: a load shows the runway whenever it is sent.
func TestLoadSaysHowMuchItIsNeeded(t *testing.T) {
	h := order(1000)
	h.request("order", 1)
	h.grantAll()
	for len(h.asked) == 0 {
		h.now += 100 * time.Millisecond
		h.request("order", 1)
	}
	last := h.latest()
	if last.Runway < 40*time.Second || last.Runway > 50*time.Second {
		t.Fatalf("asked for %+v; want a runway of 49 s", last)
	}
	h.request("order", 450)
	if now := h.latest(); now.Seq != last.Seq || now.Want != 0 {
		t.Errorf("the refill is %+v, want it as it was", now)
	}
	h.now += allocator.DefaultReAsk
	h.Tick()
	if now := h.latest(); now.Seq != last.Seq || now.Runway > 10*time.Second {
		t.Errorf("then it is %+v, want a runway of seconds", now)
	}
}

// TestTicksCostWhatIsDue: with 10,000 loads that wait or were just sent, a tick
// visits none.
func TestTicksCostWhatIsDue(t *testing.T) {
	t.Parallel()
	const tags = 10_000
	h := newHarness(allocator.Config{MaxParked: tags})
	for i := range tags {
		tag := fmt.Sprint("t", i)
		h.request(tag, 1)
		h.grantAll()
	}
	for i := range tags {
		h.request(fmt.Sprint("t", i), 1000) // which is more than there is
	}
	h.asked = nil
	// Expires the requests, and repeats the loads first.
	h.now = 40 * time.Second
	h.Tick()
	if len(h.asked) == 0 || h.Parked() > 0 || h.Loading() != tags {
		t.Fatalf("%d loads were sent of %d, %d requests are parked", len(h.asked), h.Loading(), h.Parked())
	}
	h.asked = nil
	reads := h.reads
	for range 19 {
		h.now += 50 * time.Millisecond
		h.Tick()
	}
	if reads = h.reads - reads; reads > 100 || len(h.asked) > 0 {
		t.Errorf("in nearly a second of ticks the allocator read the clock %d times and asked for %d loads, want next to none", reads, len(h.asked))
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
