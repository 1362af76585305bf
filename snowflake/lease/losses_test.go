package lease

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// regressedWorld is an installation with an outage of an hour whose clock bucket
// has regressed once. The process p noticed, and has a worker ID again.
func regressedWorld(t *testing.T) (w *world, r *runner, restore func()) {
	w = newWorld()
	w.layout = layoutOf(3)
	w.declare("1h0m0s")
	m := w.process("p", 1).manager()
	if _, err := m.admit(t.Context(), m.newClock()); err != nil { // makes the identity
		t.Fatal(err)
	}
	restore = w.clocks.rewind()
	r = runManager(t, m)
	r.waitHeld(t)
	time.Sleep(3 * time.Hour) // so many writes that they are not soon reached again
	restore()
	time.Sleep(70 * time.Minute) // lives out its fence
	r.waitHeld(t)
	time.Sleep(5 * time.Minute)
	r.end() // and runs again, as after a moment in which it was not ready
	r = runManager(t, m)
	r.waitHeld(t)
	time.Sleep(5 * time.Minute)
	return w, r, restore
}

// TestSameBackupRestoredTwice: a backup of the clock bucket is restored twice, or
// the bucket is replaced after it was restored, and an operator decides. The
// process has a worker ID again at last.
func TestSameBackupRestoredTwice(t *testing.T) {
	for name, again := range map[string]func(w *world, restore func()){
		"restored": func(_ *world, restore func()) { restore() },
		"replaced": func(w *world, _ func()) {
			w.clocks.empty()
			time.Sleep(time.Minute)
			w.config.expire(ClockIDKey)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, r, restore := regressedWorld(t)
				again(w, restore)
				time.Sleep(24 * time.Hour)
				if !r.held() {
					t.Errorf("no worker ID a day later: %v", r.state().Err)
				}
			})
		})
	}
}

// TestSecondRegressionIsNoticed: the bucket regresses again, to a state that has the
// record of the first time. A lease shows it, and so does its holder; the holder of
// a long fence is cut off, and nobody gets its worker ID.
func TestSecondRegressionIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r, _ := regressedWorld(t)
		restore := w.clocks.rewind()
		p, q := w.process("cut off", 5), w.process("q", 6)
		long := runManager(t, p.manager()).waitHeld(t)
		time.Sleep(5 * time.Minute)
		p.net.set(func() { p.net.dead = true })
		restore()
		time.Sleep(2 * modelTTL) // its lease ends, its fence does not
		if !r.held() {
			t.Fatal(r.state().Err)
		}
		q.given = &long.Worker
		got := runManager(t, q.manager())
		time.Sleep(5 * time.Minute)
		if got.held() {
			t.Errorf("two processes issue IDs of worker ID %d at once: %d, %d",
				long.Worker, mustNext(t, long.Generator), mustNext(t, got.state().Generator))
		}
	})
}

// TestHolderNotesTheRaisedOutage: the outage was set after a holder's claim, and
// that holder notes the loss. The record knows the longer one.
func TestHolderNotesTheRaisedOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		old := w.process("old", 1)
		runManager(t, old.manager()).waitHeld(t)
		time.Sleep(time.Minute)
		w.declare("1h0m0s") // upgrades.md: after the last worker is new
		restore := w.clocks.rewind()
		cut := w.process("cut off", 2)
		c := runManager(t, cut.manager())
		worker := c.waitHeld(t).Worker
		time.Sleep(time.Minute)
		cut.net.set(func() { cut.net.dead = true })
		time.Sleep(2 * modelTTL) // its lease ends
		restore()
		time.Sleep(time.Minute)
		lost, _, err := lostOf(w.clocks.list())
		if wait := time.Until(lost.Upper); err != nil || wait < 50*time.Minute {
			t.Errorf("%+v, %v: the upper half waits %v", lost, err, wait)
		}
		q := w.process("q", 3)
		q.given = &worker
		got := runManager(t, q.manager())
		time.Sleep(2 * time.Minute)
		if got.held() {
			t.Errorf("two processes issue IDs of worker ID %d at once: %d, %d", worker, mustNext(t, c.state().Generator), mustNext(t, got.state().Generator))
		}
	})
}

// TestWrongClockDecides: the first process after the operator's decision has a clock
// that is off. It gets no worker ID, and does not say for how long others wait.
func TestWrongClockDecides(t *testing.T) {
	for _, off := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.layout = layoutOf(3)
				w.declare("1h0m0s")
				mustSeek(t, w.process("gone", 1).manager())
				w.clocks.empty()
				time.Sleep(time.Minute)
				w.config.expire(ClockIDKey)
				p := w.process("p", 2)
				p.setClock(off)
				if _, err := p.manager().seek(t.Context()); !errors.Is(err, ErrClockSkew) {
					t.Fatal(err)
				}
				now := time.Now()
				mustSeek(t, w.process("right", 3).manager())
				lost, _, err := lostOf(w.clocks.list())
				if wait := lost.Upper.Sub(now); err != nil || wait < time.Hour || wait > time.Hour+time.Minute {
					t.Errorf("off by %v: the upper half waits %v, want 1h; %v", off, wait, err)
				}
			})
		})
	}
}

// TestRegressionThatOthersOverwrite: a process that waits for its worker ID notices
// that the bucket regressed. When it looks again, other holders, whose entries
// were not lost, have written so much that the sequence is reached.
func TestRegressionThatOthersOverwrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(6)
		ahead, behind := w.process("ahead", 1), w.process("behind", 2)
		ahead.setClock(4900 * time.Millisecond)
		behind.setClock(-4900 * time.Millisecond)
		var others []*holder
		for i := range uint64(5) {
			others = append(others, mustSeek(t, w.process("other", 3+i).manager()))
		}
		restore := w.clocks.rewind()
		h := mustSeek(t, ahead.manager())
		behind.given = &h.worker
		m := behind.manager()
		if _, err := m.seek(t.Context()); !errors.Is(err, ErrHeld) {
			t.Fatal(err)
		}
		last := mustNext(t, h.gen)
		if err := h.release(); err != nil {
			t.Fatal(err)
		}
		restore() // it is as if h had never been
		if _, err := m.seek(t.Context()); !errors.Is(err, ErrClockLost) {
			t.Fatal(err)
		}
		for _, other := range others {
			if err := other.renew(t.Context(), time.Now().Add(modelTTL)); err != nil {
				t.Fatal(err)
			}
		}
		for range 30 { // half a minute
			if got, err := m.seek(t.Context()); err == nil {
				if id := mustNext(t, got.gen); id <= last {
					t.Errorf("worker ID %d: %d after %d", h.worker, id, last)
				}
				return
			}
			time.Sleep(time.Second)
		}
	})
}

// TestLongerTTLWhileHeld: the bucket of leases is made again with a longer TTL. The
// holder issues IDs all the time, but for the moment of another claim.
func TestLongerTTLWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		m := w.process("p", 1).manager()
		r := runManager(t, m)
		r.waitHeld(t)
		time.Sleep(time.Minute)
		w.workers.empty()
		w.workers.setLifetime(10 * time.Minute)
		latest := time.Now()
		for began := time.Now(); time.Since(began) < 15*time.Minute; time.Sleep(time.Second) {
			m.Figures() // from another goroutine
			if _, err := r.state().Generator.Next(); err == nil {
				latest = time.Now()
			} else if time.Since(latest) > modelTTL/3 {
				t.Fatalf("no ID for %v: %v; %v", time.Since(latest), err, r.state().Err)
			}
		}
	})
}

// TestStaleReadWhileTheLeaseIsMadeAgain: JetStream accepts no writes yet, and the
// server that answers shows the previous holder's lease. The worker ID is kept.
func TestStaleReadWhileTheLeaseIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h, leases, _ := faultyHold(t, w.process("p", 1))
		old := bucketEntry{key: h.lease.key, revision: 1, value: encode(leaseValue{Hold: "before", Write: "x"})}
		h.lease.revision, h.lease.highest = 5, 5
		leases.writes, leases.bucket = notMade, stale{leases.bucket, old}
		if err := h.recreateLease(t.Context()); err == nil || isFinal(err) {
			t.Errorf("%v", err)
		}
	})
}

// TestPreviousWorkerIDOfTheLowerHalf: a process whose worker ID was of the lower half
// gets one of the upper half next, once an outage is declared.
func TestPreviousWorkerIDOfTheLowerHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		m := w.process("p", 1).manager()
		for {
			h := mustSeek(t, m)
			if err := h.release(); err != nil {
				t.Fatal(err)
			}
			if h.worker < 4 {
				break
			}
			m.previous = -1
			w.clocks.expire(h.lease.key)
		}
		w.declare("1h0m0s")
		if h := mustSeek(t, m); h.length != time.Hour {
			t.Errorf("worker ID %d, its fence is %v", h.worker, h.length)
		}
	})
}

// TestUnreadableOutage: a setting that this version cannot read stops no claims. They
// have short fences; the wait after a loss is the longest possible.
func TestUnreadableOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		w.declare("1h0m0s from tomorrow on")
		m := w.process("p", 1).manager()
		h, err := m.seek(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, upper := m.lossWaits(); h.length != modelTTL || upper < maxOutage {
			t.Errorf("fence %v, wait %v", h.length, upper)
		}
	})
}

// TestFalseAlarm: a leader that was deposed a moment ago answers twice, and then the
// new one accepts writes above all that was known. Nothing was lost, and nobody
// waits.
func TestFalseAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		w.declare("1h0m0s")
		p := w.process("p", 1)
		m := p.manager()
		old := &deposed{server: m.server}
		m.server = old
		runManager(t, m).waitHeld(t)
		time.Sleep(time.Minute)
		old.answers.Store(4) // two looks, each twice
		time.Sleep(modelTTL)
		if lost, _, err := lostOf(w.clocks.list()); err != nil || lost != (Lost{}) {
			t.Errorf("nothing was lost, but %+v, %v", lost, err)
		}
	})
}

// deposed is a server that answers some times as it did long ago.
type deposed struct {
	server
	answers atomic.Int64
}

func (d *deposed) state(ctx context.Context) (serverState, error) {
	s, err := d.server.state(ctx)
	if d.answers.Add(-1) >= 0 {
		s.last = 1
	}
	return s, err
}

// lostRecord is the record of the clock bucket.
func (w *world) lostRecord(t *testing.T) Lost {
	t.Helper()
	lost, _, err := lostOf(w.clocks.list())
	if err != nil {
		t.Fatal(err)
	}
	return lost
}

// TestDeletedFence: an operator deletes the fence of one worker ID. That
// worker ID is unusable; the bucket lost nothing, and nobody else waits.
func TestDeletedFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		w.declare("1h0m0s")
		p := runManager(t, w.process("p", 1).manager())
		s := p.waitHeld(t)
		time.Sleep(time.Minute)
		w.clocks.put(bucketEntry{key: key(w.layout, 0, s.Worker), deleted: true})
		time.Sleep(time.Minute)
		if lost := w.lostRecord(t); lost != (Lost{}) {
			t.Errorf("the upper half waits %v, the lower %v", time.Until(lost.Upper), time.Until(lost.Lower))
		}
	})
}

// TestLaggingReplicaIsNoLoss: a write of the hold arrived late, and the replica
// that answers reads lags behind for some seconds. Nothing was lost.
func TestLaggingReplicaIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		w.declare("1h0m0s")
		h, _, clocks := faultyHold(t, w.process("p", 1))
		old := w.clocks.latest(h.fence.key)
		if err := heartbeat(t, h); err != nil {
			t.Fatal(err)
		}
		clocks.writes, clocks.blind = arrivesLate, true
		_ = heartbeat(t, h)
		clocks.arrive()
		clocks.writes, clocks.blind = noFault, false
		clocks.bucket = staleKey{clocks.bucket, old}
		for range maxBehind + 1 {
			_ = heartbeat(t, h)
			time.Sleep(time.Second)
		}
		if lost := w.lostRecord(t); lost != (Lost{}) {
			t.Errorf("nothing was lost, but the upper half waits %v", time.Until(lost.Upper))
		}
	})
}

// staleKey is a bucket whose reads of one key return an old entry.
type staleKey struct {
	bucket
	old bucketEntry
}

func (s staleKey) get(ctx context.Context, key string) (bucketEntry, error) {
	if key == s.old.key {
		return s.old, nil
	}
	return s.bucket.get(ctx, key)
}

// withoutLost is a bucket whose lists lack the record of losses: it is being
// written again, or the replica lags.
type withoutLost struct{ bucket }

func (b withoutLost) list(ctx context.Context) ([]bucketEntry, error) {
	all, err := b.bucket.list(ctx)
	return slices.DeleteFunc(all, func(r bucketEntry) bool { return r.key == lostKey }), err
}

// TestListWithoutTheRecord: a list misses an entry that is being written
// again, as type bucket documents. It is the record, and a process claims the
// time of a holder that is cut off.
func TestListWithoutTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		w.declare("1h0m0s")
		witness := runManager(t, w.process("witness", 1).manager())
		witness.waitHeld(t)
		restore := w.clocks.rewind()
		cut := w.process("cut off", 2)
		c := runManager(t, cut.manager())
		s := c.waitHeld(t)
		time.Sleep(time.Minute)
		cut.net.set(func() { cut.net.dead = true })
		time.Sleep(2 * modelTTL)
		restore()
		time.Sleep(time.Minute)
		witness.end() // its lease is deleted
		if lost := w.lostRecord(t); time.Until(lost.Upper) < 50*time.Minute {
			t.Fatal(lost)
		}
		q := w.process("q", 3)
		q.given = &s.Worker
		m := q.manager()
		m.clocks = withoutLost{m.clocks}
		if h, err := m.seek(t.Context()); err == nil {
			t.Errorf("two processes issue IDs of worker ID %d at once: %d, %d", s.Worker, mustNext(t, s.Generator), mustNext(t, h.gen))
		}
	})
}

// flapping is a bucket that answers nothing while it is down.
type flapping struct {
	bucket
	down atomic.Bool
}

func (f *flapping) get(ctx context.Context, key string) (bucketEntry, error) {
	if f.down.Load() {
		return bucketEntry{}, errTimeout
	}
	return f.bucket.get(ctx, key)
}

func (f *flapping) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if f.down.Load() {
		return 0, errTimeout
	}
	return f.bucket.update(ctx, key, value, revision)
}

// TestFlapIsNoLoss: a holder lives out its fence after a loss that is
// recorded. The network fails for one heartbeat. That is no other loss.
func TestFlapIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(3)
		w.declare("1h0m0s")
		m := w.process("p", 1).manager()
		clocks := &flapping{bucket: m.clocks}
		m.clocks = clocks
		other := w.process("other", 2)
		if _, err := m.admit(t.Context(), m.newClock()); err != nil {
			t.Fatal(err)
		}
		runManager(t, other.manager()).waitHeld(t)
		restore := w.clocks.rewind()
		r := runManager(t, m)
		s := r.waitHeld(t)
		restore()
		time.Sleep(10 * time.Minute)
		before := w.lostRecord(t)
		if before.Count == 0 {
			t.Fatal("not recorded")
		}
		for range 20 { // the stream grows as other processes write
			w.clocks.put(bucketEntry{key: "x"})
		}
		clocks.down.Store(true)
		time.Sleep(modelTTL)
		clocks.down.Store(false)
		time.Sleep(3 * time.Minute)
		if r.state().Generator != s.Generator {
			t.Fatal(r.state().Err)
		}
		if lost := w.lostRecord(t); lost != before {
			t.Errorf("the same loss is recorded again: %+v, was %+v", lost, before)
		}
	})
}

// TestManyHoldersNoteOneLoss: one loss is recorded once, or a few times.
func TestManyHoldersNoteOneLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(7)
		w.declare("1h0m0s")
		for i := range uint64(30) {
			runManager(t, w.process(string(rune('A'+i)), 1+i).manager()).waitHeld(t)
			time.Sleep(time.Second)
		}
		restore := w.clocks.rewind()
		time.Sleep(5 * time.Minute)
		restore()
		back := time.Now()
		time.Sleep(59 * time.Minute)
		lost := w.lostRecord(t)
		t.Logf("%d losses, lower %v, upper %v after", lost.Count, lost.Lower.Sub(back), lost.Upper.Sub(back))
		if lost.Count > 3 {
			t.Errorf("one loss counts as %d", lost.Count)
		}
	})
}

// TestClaimIsEvidence: a process has claimed, and ended the hold
// before the first heartbeat. The bucket goes back to before that. The process notices.
func TestClaimIsEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		m := w.process("p", 1).manager()
		if _, err := m.admit(t.Context(), m.newClock()); err != nil {
			t.Fatal(err)
		}
		restore := w.clocks.rewind()
		h := mustSeek(t, m)
		if err := h.release(); err != nil {
			t.Fatal(err)
		}
		restore()
		if _, err := m.admit(t.Context(), m.newClock()); err == nil {
			t.Error("nobody notices that the bucket went back")
		}
	})
}

// TestDeletedLease: an operator deletes a lease. Nobody notices.
func TestDeletedLease(t *testing.T) {
	for _, all := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.layout = layoutOf(3)
			w.declare("1h0m0s")
			r := runManager(t, w.process("p", 1).manager())
			s := r.waitHeld(t)
			time.Sleep(time.Minute)
			if all {
				w.workers.empty()
			} else {
				w.workers.put(bucketEntry{key: key(w.layout, 0, s.Worker), deleted: true})
			}
			q := w.process("q", 2)
			q.given = &s.Worker
			other := runManager(t, q.manager())
			time.Sleep(10 * time.Minute)
			if r.state().Generator != s.Generator || other.held() {
				t.Error(r.state().Err, other.held())
			}
			if _, err := w.workers.read(key(w.layout, 0, s.Worker), 0); err != nil {
				t.Error(err)
			}
		})
	}
}
