package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// declare sets the outage of a world's installation.
func (w *world) declare(outage string) {
	w.config.put(bucketEntry{key: OutageKey, value: []byte(outage)})
}

func (w *world) leaderless(yes bool) {
	w.workers.setLeaderless(yes)
	w.clocks.setLeaderless(yes)
}

// heldWithin returns the state in which a process has a worker ID, in a bubble.
func (r *runner) heldWithin(t *testing.T, most time.Duration) State {
	t.Helper()
	for began := time.Now(); !r.held(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > most {
			t.Fatalf("no worker ID after %v: %v", most, r.state().Err)
		}
	}
	return r.state()
}

// TestOutlivesJetStream: with an outage of an hour, workers issue IDs while
// JetStream has no leaders, or answers nothing, for 59 minutes, and keep their
// worker IDs. Meanwhile they try each third of a TTL. After an hour their time is
// over, and they have worker IDs again once JetStream is back.
func TestOutlivesJetStream(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(w *world, all []*process, yes bool)
		away time.Duration
	}{
		{"no leaders", func(w *world, _ []*process, yes bool) { w.leaderless(yes) }, 59 * time.Minute},
		{"no answers", func(_ *world, all []*process, yes bool) {
			for _, p := range all {
				p.net.set(func() { p.net.dead = yes })
			}
		}, 59 * time.Minute},
		{"longer than declared", func(w *world, _ []*process, yes bool) { w.leaderless(yes) }, 61 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.layout = layoutOf(6)
				w.declare("1h0m0s")
				var all []*process
				var runners []*runner
				var managers []*Manager
				var gens []*snowflake.Generator
				for i := range uint64(3) {
					p := w.process(fmt.Sprint(i), i)
					m := p.manager()
					all, managers, runners = append(all, p), append(managers, m), append(runners, runManager(t, m))
					gens = append(gens, runners[i].waitHeld(t).Generator)
				}
				time.Sleep(5 * time.Minute)
				c.cut(w, all, true)
				calls := 0
				all[0].net.set(func() { calls = all[0].net.calls })
				served := time.Duration(0)
				for began := time.Now(); time.Since(began) < c.away; time.Sleep(time.Second) {
					for i, g := range gens {
						_, err := g.Next()
						if err != nil && time.Since(began) < time.Hour-modelTTL/beatsPerTTL {
							t.Fatalf("worker %d after %v: %v", i, time.Since(began), err)
						}
						if err == nil {
							served = time.Since(began)
						}
						away := time.Since(began)
						f := managers[i].Figures()
						if away < modelTTL/2 && f.Unconfirmed != 0 || away > modelTTL && away < 59*time.Minute && (f.Unconfirmed < away || f.Unconfirmed > away+modelTTL/2) {
							t.Fatalf("unconfirmed for %v after %v", f.Unconfirmed, away)
						}
						if rest := time.Hour - f.Unconfirmed; away > modelTTL && away < 59*time.Minute && (f.Reserved-rest).Abs() > time.Second {
							t.Fatalf("reserved for %v, want %v", f.Reserved, rest)
						}
					}
					if served > time.Hour {
						t.Fatalf("serves %v after the last heartbeat", served)
					}
				}
				tried := 0
				all[0].net.set(func() { tried = all[0].net.calls - calls })
				if most := 5 * int(c.away/(modelTTL/beatsPerTTL)); tried > most {
					t.Errorf("%d calls in the outage, want %d at most", tried, most)
				}
				c.cut(w, all, false)
				time.Sleep(2 * modelTTL)
				for i, r := range runners {
					if g := r.heldWithin(t, time.Minute).Generator; c.away < time.Hour && g != gens[i] {
						t.Errorf("worker %d lost its worker ID: %v", i, r.all())
					}
					if f := managers[i].Figures(); f.Unconfirmed != 0 || f.Reserved < time.Hour-modelTTL {
						t.Errorf("worker %d: %+v", i, f)
					}
				}
			})
		})
	}
}

// TestLeaseThatOneReplicaExpired: JetStream is back, and says once that the lease
// is gone, and then that it exists, as two replicas that disagree do. The worker
// ID is kept.
func TestLeaseThatOneReplicaExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.declare("1h0m0s")
		m := w.process("p", 1).manager()
		l := &expired{bucket: m.workers}
		m.workers = l
		r := runManager(t, m)
		s := r.waitHeld(t)
		w.leaderless(true)
		time.Sleep(10 * time.Minute)
		// It does not expire on the leader.
		w.workers.setLifetime(time.Hour)
		l.answers.Store(4) // two writes, and the reads after them
		w.leaderless(false)
		time.Sleep(2 * modelTTL)
		if r.state().Generator != s.Generator || m.Figures().Unconfirmed > 0 {
			t.Errorf("%v, %+v", r.state().Err, m.Figures())
		}
	})
}

// expired is a bucket with a server that has expired all entries, and answers some
// requests.
type expired struct {
	bucket
	answers atomic.Int64
}

func (e *expired) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if e.answers.Add(-1) >= 0 {
		return 0, errConflict
	}
	return e.bucket.update(ctx, key, value, revision)
}

func (e *expired) get(ctx context.Context, key string) (bucketEntry, error) {
	if e.answers.Add(-1) >= 0 {
		return bucketEntry{}, errAbsent
	}
	return e.bucket.get(ctx, key)
}

// TestHalfOfTheFencesAreLong: of eight worker IDs four may have long fences, and
// are taken first. A configured worker ID never has one; nor has any without a
// declared outage.
func TestHalfOfTheFencesAreLong(t *testing.T) {
	for _, outage := range []time.Duration{0, time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.layout = layoutOf(3)
			if outage > 0 {
				w.declare(outage.String())
			}
			for i := range uint64(8) {
				m := w.process(fmt.Sprint(i), i).manager()
				h := mustSeek(t, m)
				want := fenceLength(modelTTL)
				if outage > 0 && i < 4 {
					want = outage
				}
				v, err := decodeLease(w.workers.latest(h.lease.key))
				if err != nil || h.length != want || v.Fence != want.Milliseconds() || outage > 0 && (h.worker >= 4) != (i < 4) {
					t.Errorf("outage %v, worker ID %d: %v, lease %s, want %v; %v", outage, h.worker, h.length, w.workers.latest(h.lease.key).value, want, err)
				}
				if left := w.layout.TimeAt(h.hi.Load()).Sub(h.since); (left - want).Abs() > 2*w.layout.Spec().Unit {
					t.Errorf("outage %v, worker ID %d: reserved for %v, want %v", outage, h.worker, left, want)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.declare("1h0m0s")
		p := w.process("configured", 1)
		p.given = new(int64(1))
		if h := mustSeek(t, p.manager()); h.length != fenceLength(modelTTL) {
			t.Errorf("a configured worker ID: %v", h.length)
		}
	})
}

// TestCrashLoop: processes that crash right after they claimed a worker ID occupy
// it for the declared outage, and the next ones find another as fast as without
// one. Of eight worker IDs, the four with short fences remain.
func TestCrashLoop(t *testing.T) {
	for _, c := range []struct {
		bits, crashes int
		most          time.Duration // that a claim may take
	}{
		{10, 200, queryTime + time.Second},
		{3, 4, queryTime + time.Second},
		{3, 40, fenceLength(modelTTL) + modelTTL/laterSeeksPerTTL + time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.layout = layoutOf(c.bits)
			w.declare("1h0m0s")
			for i := range c.crashes {
				p := w.process(fmt.Sprint(i), uint64(i))
				runManager(t, p.manager()).heldWithin(t, c.most)
				p.net.set(func() { p.net.dead = true })
			}
		})
	}
}

// TestClockBucketLost: a holder of a long fence dies with the clock bucket, and an
// operator decides after the short wait. Then the lower half is claimed at once,
// and the upper half once the longest fence is past, by whatever process. The
// reasons say until when.
func TestClockBucketLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		w.declare("10m0s, longest 1h0m0s")
		gone := w.process("gone", 1)
		runManager(t, gone.manager()).waitHeld(t)
		gone.net.set(func() { gone.net.dead = true })
		lost := time.Now()
		w.clocks.empty()

		m := w.process("first", 2).manager()
		stop := new(ClockLostError)
		if _, err := m.seek(t.Context()); !errors.As(err, &stop) || stop.Wait != modelTTL+11*time.Second {
			t.Fatal(err)
		}
		time.Sleep(stop.Wait)
		w.config.expire(ClockIDKey)
		decided := time.Now()
		for i := range 4 {
			if i > 0 {
				m = w.process(fmt.Sprint(i), uint64(2+i)).manager()
			}
			if h := mustSeek(t, m); h.worker >= 4 {
				t.Errorf("worker ID %d %v after the loss", h.worker, time.Since(lost))
			}
		}
		until := decided.Add(time.Hour + 11*time.Second)
		configured := w.process("configured", 7)
		configured.given = new(int64(6))
		for _, p := range []*process{configured, w.process("fifth", 8)} {
			_, err := p.manager().seek(t.Context())
			if !errors.Is(err, ErrNoWorkerID) || !strings.Contains(err.Error(), "until "+until.UTC().Format("2006-01-02T15:04:")) {
				t.Errorf("%s: %v, want until %v", p.name, err, until)
			}
		}
		time.Sleep(time.Until(until) - configured.ahead - 20*time.Second)
		if h, err := configured.manager().seek(t.Context()); err == nil {
			t.Errorf("worker ID %d %v before its time is past", h.worker, time.Until(until))
		}
		time.Sleep(21 * time.Second)
		if h := mustSeek(t, configured.manager()); w.layout.Timestamp(mustNext(t, h.gen)) < w.layout.TimestampAt(until.Add(-configured.ahead)) {
			t.Error("begins too early")
		}
	})
}

// TestWhoDecidesForALostBucket: processes that start together after the operator's
// decision record the wait once. The first ones of a new installation record
// none.
func TestWhoDecidesForALostBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		w.declare("1h0m0s")
		for i := range uint64(4) {
			defer runManager(t, w.process(fmt.Sprint("first ", i), i).manager()).end()
		}
		time.Sleep(time.Minute)
		if lost, _, err := lostOf(w.clocks.list()); err != nil || lost != (Lost{}) {
			t.Fatalf("a new installation has lost entries: %+v, %v", lost, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		w.declare("1h0m0s")
		mustSeek(t, w.process("first", 1).manager())
		w.clocks.empty()
		w.config.expire(ClockIDKey)
		w.workers.empty()
		began := time.Now()
		var all []*runner
		for i := range uint64(4) {
			all = append(all, runManager(t, w.process(fmt.Sprint(i), 2+i).manager()))
		}
		for _, r := range all {
			if s := r.waitHeld(t); s.Worker >= 4 {
				t.Errorf("worker ID %d", s.Worker)
			}
		}
		lost, _, err := lostOf(w.clocks.list())
		if wait := lost.Upper.Sub(began); err != nil || wait < time.Hour || wait > time.Hour+11*time.Second+time.Minute {
			t.Errorf("%+v, %v", lost, err)
		}
	})
}

// TestClockBucketWentBackUnderALongFence: the holder of a long fence issues IDs
// until its time ends. Meanwhile others have worker IDs of the lower half after
// the short wait, although the holder's lease names a sequence that the bucket no
// longer reaches; in the upper half nobody begins before the long wait ends.
func TestClockBucketWentBackUnderALongFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		w.declare("1h0m0s")
		m := w.process("holder", 1).manager()
		holder := runManager(t, m)
		s := holder.waitHeld(t)
		restore := w.clocks.rewind()
		time.Sleep(time.Minute)
		restore()
		back := time.Now()
		for i := range uint64(2) { // the second begins after the wait
			wait := modelTTL + 11*time.Second
			got := runManager(t, w.process(fmt.Sprint(i), 2+i).manager()).heldWithin(t, wait+modelTTL/beatsPerTTL+modelTTL/laterSeeksPerTTL+3*queryTime)
			if took := time.Since(back); got.Worker >= 4 || took < wait-time.Second {
				t.Errorf("process %d has worker ID %d after %v, want %v", i, got.Worker, took, wait)
			}
		}
		configured := w.process("configured", 5)
		configured.given = new(4 + (s.Worker-4+1)%4) // of the upper half, and free
		late := runManager(t, configured.manager())
		for time.Since(back) < time.Hour-modelTTL/2 {
			if _, err := s.Generator.Next(); err != nil || holder.state().Generator != s.Generator {
				t.Fatalf("after %v: %v, %v", time.Since(back), err, holder.state().Err)
			}
			if late.held() {
				t.Fatalf("a worker ID of the upper half after %v", time.Since(back))
			}
			time.Sleep(10 * time.Second)
		}
		time.Sleep(modelTTL)
		if holder.state().Generator == s.Generator {
			t.Error("the holder goes on although its time is over")
		}
		time.Sleep(3 * time.Minute)
		if g := holder.heldWithin(t, time.Minute).Generator; w.layout.Timestamp(mustNext(t, g)) <= s.Generator.Last() {
			t.Error("begins before the old one ended")
		}
		late.heldWithin(t, time.Minute)
	})
}

// TestStaleReadInAnOutage: no server accepts writes, or the one that refuses them
// or answers had not yet seen the claim, so that it shows the previous holder's
// entries. That is no evidence of another holder, unless the entry is younger than
// the claim, as after a restore.
func TestStaleReadInAnOutage(t *testing.T) {
	for _, c := range []struct {
		writes  fault
		younger bool
	}{{notMade, false}, {refused, false}, {notMade, true}, {refused, true}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.declare("1h0m0s")
			p, q := w.process("p", 1), w.process("q", 2)
			p.given, q.given = new(int64(1)), new(int64(1))
			before := mustSeek(t, p.manager())
			if err := before.release(); err != nil {
				t.Fatal(err)
			}
			h, leases, clocks := faultyHold(t, q)
			h.doubt = true // as after a reconnect
			found := bucketEntry{key: "1", revision: 1, value: encode(struct {
				leaseValue
				Hi int64 `json:"hi"`
			}{leaseValue{Hold: before.id, Write: "x"}, 1})}
			if c.younger {
				found.created = time.Now().Add(time.Second)
			}
			for _, b := range []*faulty{leases, clocks} {
				b.writes, b.bucket = c.writes, stale{b.bucket, found}
			}
			if err := heartbeat(t, h); err == nil || isFinal(err) != c.younger {
				t.Errorf("%+v: %v", c, err)
			}
		})
	}
}

// stale is a bucket whose reads return an old entry.
type stale struct {
	bucket
	old bucketEntry
}

func (s stale) get(context.Context, string) (bucketEntry, error) { return s.old, nil }

// slowOthers are other processes whose answers take long.
type slowOthers struct{ others }

func (s slowOthers) query(ctx context.Context, key, hold string) (int64, error) {
	end, err := s.others.query(ctx, key, hold)
	time.Sleep(10 * time.Second)
	return end, err
}

// TestClaimBeginsAfterTheAnswers: a hold begins after the answers of the other
// processes, even if the clock is set back then: another process may have used
// the time in between, and ended.
func TestClaimBeginsAfterTheAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.process("p", 1)
		m := p.manager()
		m.others = slowOthers{m.others}
		h := mustSeek(t, m)
		answered := w.layout.TimestampAt(time.Now())
		for p.setClock(-8 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			id, err := h.gen.Next()
			if err != nil {
				continue // the clock is behind
			}
			if first := w.layout.Timestamp(id); first <= answered {
				t.Errorf("begins %d units before the answers", answered-first)
			}
			return
		}
	})
}

// TestClockSetDuringAClaim: the day by which the clock is off after it was compared
// is not given away, neither by the claim nor by its release.
func TestClockSetDuringAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.process("p", 1)
		m := p.manager()
		m.server = steppingServer{m.server, p}
		began := time.Now()
		h := mustSeek(t, m)
		if err := h.release(); err != nil {
			t.Fatal(err)
		}
		v, err := decodeClock(w.clocks.latest(h.fence.key))
		if latest := w.layout.TimestampAt(began.Add(modelTTL + 5*time.Second)); err != nil || v.Hi > latest {
			t.Errorf("reserved up to %v, want %v at most; %v", w.layout.TimeAt(v.Hi), w.layout.TimeAt(latest), err)
		}
	})
}

// TestObjectionLeavesTheTimeReserved: a claimer that meets an objection leaves hi
// as it was written: a third process may not reach the one that objected.
func TestObjectionLeavesTheTimeReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		w.declare("1h0m0s")
		all := []*process{w.process("holder", 1), w.process("claimer", 2), w.process("third", 3)}
		all[1].given, all[2].given = new(int64(6)), new(int64(6))
		first := all[0].manager()
		if _, err := first.admit(t.Context(), first.newClock()); err != nil { // makes the identity
			t.Fatal(err)
		}
		leases, clocks := w.workers.rewind(), w.clocks.rewind()
		for worker := range int64(8) {
			if worker != 6 {
				w.workers.put(bucketEntry{key: fmt.Sprint(worker), value: encode(leaseValue{Hold: "x", Layout: w.layout.String(), Clock: time.Now().UnixMilli()})})
			}
		}
		runManager(t, first).waitHeld(t)
		leases()
		clocks()
		if _, err := all[1].manager().seekOnce(t.Context()); !errors.Is(err, errInUse) {
			t.Fatal(err)
		}
		all[0].net.set(func() { all[0].net.stopped = true }) // it does not answer
		if _, err := all[2].manager().seekOnce(t.Context()); !errors.Is(err, ErrNoWorkerID) {
			t.Errorf("the third: %v", err)
		}
	})
}

// TestOutageSetting: the values of the setting, as text.
func TestOutageSetting(t *testing.T) {
	for text, want := range map[string]OutageSetting{
		"0s":                     {},
		"1m0s":                   {time.Minute, time.Minute},
		"1h0m0s":                 {time.Hour, time.Hour},
		"10m0s, longest 1h0m0s":  {10 * time.Minute, time.Hour},
		"0s, longest 168h0m0s":   {0, 168 * time.Hour},
		"168h0m0s":               {168 * time.Hour, 168 * time.Hour},
		"1h0m0s, longest 1h0m0s": {time.Hour, time.Hour},
	} {
		got, err := ParseOutage(text)
		if again, err2 := ParseOutage(got.String()); err != nil || got != want || again != got || err2 != nil {
			t.Errorf("%q: %v, %v; again %v, %v", text, got, err, again, err2)
		}
	}
	for _, text := range []string{"", "1h ", "59s", "169h", "-1h", "1h, longest 10m", "1h, longest 169h", "10m, longest", "10m, longest 1h, longest 2h", "an hour", "9999999h"} {
		if got, err := ParseOutage(text); !errors.Is(err, ErrOutage) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// TestRaisedOutage: a hold keeps the length of its claim, the next one has the new
// one, and the longest counts for the wait after a loss.
func TestRaisedOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		w.declare("1h0m0s")
		p := w.process("p", 1)
		m := p.manager()
		h := mustSeek(t, m)
		w.declare("10m0s, longest 1h0m0s")
		if err := heartbeat(t, h); err != nil || h.length != time.Hour {
			t.Errorf("%v, %v", h.length, err)
		}
		if err := h.release(); err != nil {
			t.Fatal(err)
		}
		if h := mustSeek(t, m); h.length != 10*time.Minute {
			t.Errorf("the next hold has %v", h.length)
		}
		fresh := w.process("q", 2).manager()
		mustSeek(t, fresh)
		if lower, upper := fresh.lossWaits(); lower != modelTTL+11*time.Second || upper != time.Hour+11*time.Second {
			t.Errorf("waits %v and %v", lower, upper)
		}
	})
}
