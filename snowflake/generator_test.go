package snowflake

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// handClock is a clock that is moved by hand.
type handClock struct{ nanos atomic.Int64 }

func clockAt(t time.Time) *handClock {
	c := &handClock{}
	c.nanos.Store(t.UnixNano())
	return c
}

func (c *handClock) now() int64           { return c.nanos.Load() }
func (c *handClock) move(d time.Duration) { c.nanos.Add(int64(d)) }

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func newGenerator(t testing.TB, s Settings) *Generator {
	t.Helper()
	g, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestNewRefuses(t *testing.T) {
	for name, s := range map[string]Settings{
		"no layout":           {},
		"worker too high":     {Layout: Default(), Worker: 1024},
		"worker negative":     {Layout: Default(), Worker: -1},
		"datacenter too high": {Layout: Default(), Datacenter: 1},
		"datacenter negative": {Layout: Twitter(), Datacenter: -1},
		"negative ahead":      {Layout: Default(), MaxAhead: -1},
	} {
		if g, err := New(s); !errors.Is(err, ErrSettings) || g != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(Settings{Layout: Default(), Fence: Fence{Lo: 1 << 41}}); !errors.Is(err, ErrExhausted) {
		t.Errorf("fence past the end: %v", err)
	}
}

func TestTheFenceHoldsForEachID(t *testing.T) {
	l, clock := Default(), clockAt(noon)
	lo := l.TimestampAt(noon)
	g := newGenerator(t, Settings{Layout: l, Worker: 3, Fence: Fence{Lo: lo}, Clock: clock.now})
	if _, err := g.Next(); !errors.Is(err, ErrFenced) {
		t.Fatalf("with an empty fence: %v", err)
	}
	if g.Last() != lo-1 {
		t.Fatalf("nothing issued, last is %d, want %d", g.Last(), lo-1)
	}
	g.Extend(lo + 2)
	g.Extend(lo + 1) // lower: changes nothing
	// Two units. The first sequence number is 0, because lo was not reached by
	// the clock, so there are exactly that many.
	for i := range 2 * 4096 {
		id, err := g.Next()
		if err != nil || l.Timestamp(id) != lo+int64(i/4096) || l.WorkerID(id) != 3 {
			t.Fatalf("ID %d: %d, %v", i, id, err)
		}
	}
	if _, err := g.Next(); !errors.Is(err, ErrFenced) || g.Last() != lo+1 {
		t.Fatalf("past the fence: %v, last %d", err, g.Last())
	}
	g.Extend(lo + 3)
	// A batch is all or nothing, at the fence too.
	if ranges, err := g.NextN(nil, 4097); !errors.Is(err, ErrFenced) || ranges != nil {
		t.Fatalf("a batch across the fence: %v, %v", ranges, err)
	}
	if ranges, err := g.NextN(nil, 4096); err != nil || len(ranges) != 1 || ranges[0].Len() != 4096 {
		t.Fatalf("a batch up to the fence: %v, %v", ranges, err)
	}
	// The clock passes the fence: a process that was stopped for an hour.
	g.Extend(lo + 1000)
	clock.move(time.Hour)
	if _, err := g.Next(); !errors.Is(err, ErrFenced) {
		t.Fatalf("an hour later: %v", err)
	}
	g.Extend(Forever)
	if id, err := g.Next(); err != nil || !l.Time(id).Equal(noon.Add(time.Hour)) {
		t.Fatalf("extended: %d, %v", id, err)
	}
}

func TestRevokedIsForGood(t *testing.T) {
	clock := clockAt(noon)
	g := newGenerator(t, Settings{Layout: Default(), Fence: Fence{Hi: Forever}, Clock: clock.now})
	id, err := g.Next()
	if err != nil {
		t.Fatal(err)
	}
	if last := g.Revoke(); last != Default().Timestamp(id) {
		t.Fatalf("last is %d, issued was %d", last, Default().Timestamp(id))
	}
	g.Extend(Forever)
	clock.move(time.Minute)
	if _, err := g.Next(); !errors.Is(err, ErrRevoked) {
		t.Fatal(err)
	}
	if ranges, err := g.NextN(nil, 5); !errors.Is(err, ErrRevoked) || ranges != nil {
		t.Fatal(ranges, err)
	}
	if last := g.Revoke(); last != Default().Timestamp(id) {
		t.Fatalf("revoked twice: last is %d", last)
	}
}

func TestBorrowsUpToMaxAhead(t *testing.T) {
	for _, ahead := range []time.Duration{time.Nanosecond, 10 * time.Millisecond, time.Second} {
		l, clock := Sonyflake(), clockAt(noon)
		now := l.TimestampAt(noon)
		g := newGenerator(t, Settings{Layout: l, Fence: Fence{Lo: now, Hi: Forever}, MaxAhead: ahead, Clock: clock.now})
		units := int64(ahead/(10*time.Millisecond)) + 1
		for i := range units * 256 {
			if id, err := g.Next(); err != nil || l.Timestamp(id) != now+i/256 {
				t.Fatalf("ahead %v, ID %d: %d, %v", ahead, i, id, err)
			}
		}
		for range 3 {
			if _, err := g.Next(); !errors.Is(err, ErrAhead) {
				t.Fatalf("ahead %v: %v", ahead, err)
			}
		}
		clock.move(10 * time.Millisecond)
		if _, err := g.Next(); err != nil {
			t.Fatalf("ahead %v, one unit later: %v", ahead, err)
		}
	}
}

// A request that MaxAhead never has room for gets ErrAhead, however near the end
// of the fence is.
func TestTooManyAtOnceIsAhead(t *testing.T) {
	l, clock := Default(), clockAt(noon)
	now := l.TimestampAt(noon)
	room := int64(1001) * 4096 // the present unit, and a second ahead
	g := newGenerator(t, Settings{Layout: l, Fence: Fence{Lo: now, Hi: now + 10}, Clock: clock.now})
	if ranges, err := g.NextN(nil, room+1); !errors.Is(err, ErrAhead) || ranges != nil {
		t.Error(err)
	}
	g.Extend(Forever)
	if _, err := g.NextN(nil, room); err != nil {
		t.Error(err)
	}
}

// A goroutine that is paused between reading the clock and taking its ID must
// not get ErrAhead only because others continued during that time.
func TestAPauseIsNotAhead(t *testing.T) {
	clock := clockAt(noon)
	var g *Generator
	pause := true
	g = newGenerator(t, Settings{Layout: Default(), Fence: Fence{Hi: Forever}, Clock: func() int64 {
		now := clock.now()
		if pause {
			pause = false
			clock.move(time.Hour)
			if _, err := g.Next(); err != nil {
				t.Error(err)
			}
		}
		return now
	}})
	if _, err := g.Next(); err != nil {
		t.Error(err)
	}
}

func TestNeverBeforeTheEpochNorPastTheEnd(t *testing.T) {
	for _, l := range allNamed() {
		for _, moment := range []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, l.epoch*nanosInMilli - 1} {
			g := newGenerator(t, Settings{Layout: l, Fence: Fence{Hi: Forever}, Clock: func() int64 { return moment }})
			if id, err := g.Next(); !errors.Is(err, ErrEpoch) {
				t.Errorf("%v, clock at %d: %d, %v", l, moment, id, err)
			}
		}
		// There is no ID 0, not even at the epoch itself.
		g := newGenerator(t, Settings{Layout: l, Fence: Fence{Lo: -5, Hi: Forever}, Clock: func() int64 { return l.epoch * nanosInMilli }})
		if id, err := g.Next(); err != nil || l.Timestamp(id) != 1 {
			t.Errorf("%v at the epoch: %d, %v", l, id, err)
		}

		clock := clockAt(l.End().Add(-time.Duration(l.unit)))
		g = newGenerator(t, Settings{
			Layout: l, Worker: l.MaxWorkerID(), Datacenter: l.MaxDatacenter(),
			Fence: Fence{Lo: l.MaxTimestamp(), Hi: Forever}, Clock: clock.now,
		})
		n := l.MaxSequence() + 1
		for i := range n {
			if id, err := g.Next(); err != nil || id < 1 || l.Timestamp(id) != l.MaxTimestamp() {
				t.Fatalf("%v, ID %d of the last unit: %d, %v", l, i, id, err)
			}
		}
		for _, moment := range []int64{clock.now(), l.End().UnixNano(), math.MaxInt64} {
			clock.nanos.Store(moment)
			if id, err := g.Next(); !errors.Is(err, ErrExhausted) {
				t.Errorf("%v is over: %d, %v", l, id, err)
			}
			if ranges, err := g.NextN(nil, math.MaxInt64); !errors.Is(err, ErrExhausted) || ranges != nil {
				t.Errorf("%v is over: %v, %v", l, ranges, err)
			}
		}
	}
}

func TestNextNIsRangesOfConsecutiveIDs(t *testing.T) {
	for _, l := range allNamed() {
		g := newGenerator(t, Settings{Layout: l, Worker: 5, Fence: Fence{Hi: Forever}, Clock: clockAt(noon).now})
		var last ID
		for _, n := range []int64{1, 2, 100, 255, 1000, 4096, 5000} {
			ranges, err := g.NextN(nil, n)
			if err != nil {
				t.Fatal(err)
			}
			var total int64
			for _, r := range ranges {
				if r.First <= last || r.Last < r.First {
					t.Fatalf("%v: %v after %d", l, r, last)
				}
				last, total = r.Last, total+r.Len()
				for id := r.First; id <= r.Last; id++ {
					if l.WorkerID(id) != 5 || l.Timestamp(id) != l.Timestamp(r.First) {
						t.Fatalf("%v: %d in %v", l, id, r)
					}
				}
			}
			if few := n/(l.MaxSequence()+1) + 2; total != n || !l.sequenceFirst && int64(len(ranges)) > few {
				t.Fatalf("%v: %d IDs in %d ranges, asked for %d", l, total, len(ranges), n)
			}
		}
		for _, n := range []int64{0, -1, math.MinInt64} {
			if _, err := g.NextN(nil, n); !errors.Is(err, ErrCount) {
				t.Fatalf("%d IDs: %v", n, err)
			}
		}
		if _, err := g.NextN(nil, math.MaxInt64); !errors.Is(err, ErrExhausted) {
			t.Fatalf("2^63-1 IDs: %v", err)
		}
	}
}

// Partitions are often chosen by id % 16. At up to one ID per millisecond, and
// at a few per millisecond, all of them must get their share.
func TestIDsModulo16AreEvenAtLowRates(t *testing.T) {
	const n = 32_000
	for _, every := range []time.Duration{300 * time.Microsecond, time.Millisecond, 17 * time.Millisecond, time.Second} {
		clock := clockAt(noon)
		g := newGenerator(t, Settings{Layout: Default(), Worker: 9, Fence: Fence{Hi: Forever}, Clock: clock.now})
		var count [16]float64
		for range n {
			id, err := g.Next()
			if err != nil {
				t.Fatal(err)
			}
			count[id%16]++
			clock.move(every)
		}
		var chi2 float64
		for _, c := range count {
			chi2 += (c - n/16) * (c - n/16) / (n / 16)
		}
		// 15 degrees of freedom: 73 is passed once in a thousand million runs.
		if chi2 > 73 {
			t.Errorf("one ID every %v: chi-square %.0f, counts %v", every, chi2, count)
		}
	}
}

// The random start must not cost capacity: under full load every number of
// every unit is used, and a load of exactly the ceiling is never refused.
func TestTheCeilingIsReached(t *testing.T) {
	clock := clockAt(noon)
	g := newGenerator(t, Settings{Layout: Default(), Fence: Fence{Hi: Forever}, MaxAhead: 10 * time.Millisecond, Clock: clock.now})
	const units = 200
	var issued int
	for range units {
		for range 4096 {
			if _, err := g.Next(); err != nil {
				t.Fatalf("refused after %d IDs at the rate of the ceiling: %v", issued, err)
			}
			issued++
		}
		clock.move(time.Millisecond)
	}

	for range 12 * 4096 { // borrow all there is
		_, _ = g.Next()
	}
	issued = 0
	for range units {
		clock.move(time.Millisecond)
		for range 2 * 4096 {
			if _, err := g.Next(); err == nil {
				issued++
			}
		}
	}
	if issued != units*4096 {
		t.Errorf("%d IDs in %d ms, the ceiling is %d", issued, units, units*4096)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	g := newGenerator(t, Settings{Layout: Default(), Fence: Fence{Hi: Forever}})
	ranges := make([]IDRange, 0, 4)
	for name, f := range map[string]func(){
		"Next":    func() { _, _ = g.Next() },
		"NextN":   func() { ranges, _ = g.NextN(ranges[:0], 100) },
		"refusal": func() { _, _ = g.NextN(nil, 1<<40) },
		"Extend":  func() { g.Extend(5) },
		"Last":    func() { g.Last() },
	} {
		if allocs := testing.AllocsPerRun(1000, f); allocs != 0 {
			t.Errorf("%s allocates %v times", name, allocs)
		}
	}
}

// Parts go into an ID and come out again, also at their limits: a shift in a
// type that is too narrow would lose the high bits of a part.
func TestPartsDoNotTouchEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLayout(t)
		part := func(name string, highest int64) int64 {
			return rapid.OneOf(rapid.Just(int64(0)), rapid.Just(highest), rapid.Int64Range(0, highest)).Draw(t, name)
		}
		datacenter, worker := part("dc", l.MaxDatacenter()), part("worker ID", l.MaxWorkerID())
		at := max(1, part("t", l.MaxTimestamp()))
		sequence := part("seq", l.MaxSequence())
		g, err := New(Settings{Layout: l, Datacenter: datacenter, Worker: worker, Clock: func() int64 { return 0 }})
		if err != nil {
			t.Fatal(err)
		}
		id := g.id(at<<l.sequence | sequence)
		if id < 1 || l.Timestamp(id) != at || l.Datacenter(id) != datacenter || l.WorkerID(id) != worker || l.Sequence(id) != sequence {
			t.Fatalf("%v: %d is %d, %d, %d, %d", l, id, l.Timestamp(id), l.Datacenter(id), l.WorkerID(id), l.Sequence(id))
		}
	})
}

// Successive holders of a worker ID, some of which have not noticed the end of
// their time, on clocks that step and disagree, against a model that has every
// ID.
func TestHoldersOfOneWorkerIDNeverMeet(t *testing.T) {
	for range 10 { // of 100 sequences each
		rapid.Check(t, holdersOfOneWorkerID)
	}
}

func holdersOfOneWorkerID(t *rapid.T) {
	steps := []time.Duration{time.Microsecond, time.Millisecond, 20 * time.Millisecond, time.Second, time.Hour, 24 * time.Hour}
	// The last layout has 16 IDs per millisecond, so that they run out and
	// borrow.
	narrow := Layout{epoch: Default().epoch, unit: Default().unit, time: 41, worker: 18, sequence: 4}
	l := rapid.SampledFrom(append(allNamed(), narrow)).Draw(t, "layout")
	// From nothing to a day.
	reserve := rapid.SampledFrom([]int64{0, 1, 10, 3000, 1e8})
	ahead := rapid.SampledFrom([]time.Duration{time.Nanosecond, 5 * time.Millisecond, time.Second}).Draw(t, "ahead")

	type holder struct {
		*Generator
		clock   *handClock
		lo, hi  int64 // its fence, after all Extends
		highest ID
		last    int64 // the highest timestamp issued, or lo−1
		revoked bool
	}
	var (
		holders []*holder // the last is the present holder
		stored  int64     // the exclusive bound on time, that all of them share
		seen    = map[ID]int{}
	)
	join := func(t *rapid.T) {
		clock := clockAt(noon.Add(time.Duration(rapid.Int64Range(-int64(2*time.Second), int64(2*time.Second)).Draw(t, "offset"))))
		lo := max(stored, l.TimestampAt(time.Unix(0, clock.now())))
		stored = lo + reserve.Draw(t, "reserve")
		g, err := New(Settings{Layout: l, Worker: 7, Fence: Fence{lo, stored}, MaxAhead: ahead, Clock: clock.now})
		if err != nil {
			t.Fatal(err)
		}
		holders = append(holders, &holder{Generator: g, clock: clock, lo: lo, hi: stored, last: lo - 1})
	}
	pick := func(t *rapid.T) (int, *holder) {
		// Mostly the present holder, often a holder whose time is over.
		i := max(0, len(holders)-1-rapid.IntRange(0, 3).Draw(t, "holders back"))
		return i, holders[i]
	}
	issued := func(t *rapid.T, i int, h *holder, r IDRange) {
		now := floorDiv(h.clock.now()-l.epoch*nanosInMilli, l.unit)
		for id := r.First; id <= r.Last; id++ {
			if by, ok := seen[id]; ok {
				t.Fatalf("DUPLICATE: %d, issued by holder %d and by %d", id, by, i)
			}
			seen[id] = i
			at := l.Timestamp(id)
			switch {
			case h.revoked:
				t.Fatalf("%d issued after revocation", id)
			case id <= h.highest:
				t.Fatalf("%d issued after %d", id, h.highest)
			case at < h.lo || at >= h.hi:
				t.Fatalf("%d has time %d, the fence is [%d, %d)", id, at, h.lo, h.hi)
			case at < now:
				t.Fatalf("%d has time %d, behind the clock, %d", id, at, now)
			case (at-now)*l.unit > int64(ahead):
				t.Fatalf("%d has time %d, too far ahead of the clock, %d", id, at, now)
			case l.WorkerID(id) != 7:
				t.Fatalf("%d has worker ID %d", id, l.WorkerID(id))
			}
			h.highest, h.last = id, at
		}
	}
	// refused checks that there was a reason. room is whether all limits would
	// have allowed another ID, in the unit after the last.
	refused := func(t *rapid.T, h *holder, n int64, err error) {
		now := floorDiv(h.clock.now()-l.epoch*nanosInMilli, l.unit)
		// The batch surely fits below the end of it.
		next := max(h.last+1, now) + n>>l.sequence + 1
		room := next < h.hi && (next-now)*l.unit <= int64(ahead)
		switch {
		case h.revoked:
			if !errors.Is(err, ErrRevoked) {
				t.Fatalf("revoked, but the error is %v", err)
			}
		case !errors.Is(err, ErrFenced) && !errors.Is(err, ErrAhead) && (now >= 0 || !errors.Is(err, ErrEpoch)):
			t.Fatal(err)
		case room:
			t.Fatalf("refused for nothing: last %d, now %d, hi %d: %v", h.last, now, h.hi, err)
		}
	}

	join(t)
	next := func(t *rapid.T) {
		i, h := pick(t)
		id, err := h.Next()
		if err != nil {
			refused(t, h, 1, err)
			return
		}
		issued(t, i, h, IDRange{id, id})
	}
	t.Repeat(map[string]func(*rapid.T){
		"next":       next,
		"next again": next,
		"next n": func(t *rapid.T) {
			i, h := pick(t)
			n := rapid.SampledFrom([]int64{1, 2, 17, 100, 300}).Draw(t, "n")
			ranges, err := h.NextN(nil, n)
			if err != nil {
				refused(t, h, n, err)
				return
			}
			for _, r := range ranges {
				issued(t, i, h, r)
			}
		},
		"clock": func(t *rapid.T) {
			_, h := pick(t)
			d := rapid.SampledFrom(steps).Draw(t, "step")
			if rapid.Bool().Draw(t, "back") {
				d = -d
			}
			h.clock.move(d)
		},
		"heartbeat": func(t *rapid.T) {
			h := holders[len(holders)-1]
			if h.revoked {
				return
			}
			now := l.TimestampAt(time.Unix(0, h.clock.now()))
			stored = max(stored, now+reserve.Draw(t, "reserve"))
			h.Extend(stored)
			h.hi = stored
		},
		"stale extend": func(t *rapid.T) {
			_, h := pick(t)
			h.Extend(h.hi - rapid.Int64Range(0, 5000).Draw(t, "lower"))
		},
		"clean stop": func(t *rapid.T) {
			h := holders[len(holders)-1]
			last := h.Revoke()
			h.revoked = true
			if last != h.last {
				t.Fatalf("stopped with last %d, issued %d", last, h.last)
			}
			stored = last + 1
			join(t)
		},
		"takeover": join,
		"": func(t *rapid.T) {
			for _, h := range holders {
				if h.Last() != h.last {
					t.Fatalf("last is %d, issued %d", h.Last(), h.last)
				}
			}
		},
	})
}

// floorDiv rounds down, for times before the epoch too.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Many goroutines on a generator, while its fence is raised and in the end it
// is revoked: no ID twice, each goroutine's IDs ascend, and none is later than
// the result of Revoke.
func TestManyGoroutines(t *testing.T) {
	for _, l := range []Layout{Default(), Sonyflake()} {
		t.Run(l.String(), func(t *testing.T) {
			clock := SystemClock()
			lo := l.TimestampAt(time.Unix(0, clock()))
			g := newGenerator(t, Settings{Layout: l, Worker: 1, Fence: Fence{Lo: lo, Hi: lo + 1}, Clock: clock})

			const goroutines = 8
			var (
				wg   sync.WaitGroup
				got  [goroutines][]ID
				errs [goroutines]error
			)
			for i := range goroutines {
				wg.Go(func() {
					var ranges []IDRange
					for n := int64(1); ; n = n%7 + 1 {
						var err error
						ranges, err = g.NextN(ranges[:0], n)
						switch {
						case err == nil:
						case errors.Is(err, ErrAhead), errors.Is(err, ErrFenced):
							runtime.Gosched()
						case errors.Is(err, ErrRevoked):
							return
						default:
							errs[i] = err
							return
						}
						for _, r := range ranges {
							for id := r.First; id <= r.Last; id++ {
								if have := got[i]; len(have) > 0 && id <= have[len(have)-1] {
									errs[i] = fmt.Errorf("%d after %d", id, have[len(have)-1])
									return
								}
								got[i] = append(got[i], id)
							}
						}
					}
				})
			}
			hi := lo + 1
			for i := 0; i < 100 || g.Last() < lo && i < 100_000; i++ {
				time.Sleep(200 * time.Microsecond)
				hi++
				if i >= 100 { // no ID yet: time has overtaken the fence
					hi = max(hi, l.TimestampAt(time.Unix(0, clock()))+10)
				}
				g.Extend(hi)
			}
			last := g.Revoke()
			wg.Wait()

			seen := map[ID]bool{}
			for i := range goroutines {
				if errs[i] != nil {
					t.Error(errs[i])
				}
				for _, id := range got[i] {
					if seen[id] {
						t.Fatalf("DUPLICATE: %d", id)
					}
					seen[id] = true
					if at := l.Timestamp(id); at < lo || at >= hi || at > last {
						t.Fatalf("%d has time %d; the fence is [%d, %d), last was %d", id, at, lo, hi, last)
					}
				}
			}
			if len(seen) == 0 {
				t.Error("no IDs")
			}
		})
	}
}

// Revoke against a Next that is under way, many times over: the result of
// Revoke is final. (A flag beside the word, instead of a bit in it, fails here
// immediately.)
func TestNothingIsIssuedAfterRevokeReturned(t *testing.T) {
	for range 150 {
		l, clock := Default(), clockAt(noon)
		var g *Generator
		var revoked int64
		// The clock is read in the middle of Next. Here it is also where the
		// generator is revoked, after time has moved on.
		g = newGenerator(t, Settings{Layout: l, Fence: Fence{Hi: Forever}, Clock: func() int64 {
			if g != nil {
				revoked = g.Revoke()
			}
			return clock.now()
		}})
		if id, err := g.Next(); !errors.Is(err, ErrRevoked) {
			t.Fatalf("%d issued after Revoke returned %d", id, revoked)
		}

		g = newGenerator(t, Settings{Layout: l, Fence: Fence{Hi: Forever}, Clock: clock.now})
		var wg sync.WaitGroup
		var issued [2]int64
		for i := range issued {
			wg.Go(func() {
				for {
					id, err := g.Next()
					if err != nil {
						return
					}
					issued[i] = l.Timestamp(id)
					clock.move(time.Millisecond)
				}
			})
		}
		for g.Last() < l.TimestampAt(noon)+10 { // until they are at it
			runtime.Gosched()
		}
		last := g.Revoke()
		wg.Wait()
		for _, at := range issued {
			if at > last {
				t.Fatalf("%d was issued, Revoke had returned %d", at, last)
			}
		}
	}
}
