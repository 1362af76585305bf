package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// shortTTL ends before JetStream has elected another leader.
const shortTTL = 6 * time.Second

// TestElectionLongerThanTheTTL: while a bucket or both have no leader, for
// longer than the TTL, holders issue IDs without a break. Then each keeps its
// worker ID.
func TestElectionLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	for name, pick := range map[string]func(*world) []*fakeStore{
		"leases": func(w *world) []*fakeStore { return []*fakeStore{w.workers} },
		"clocks": func(w *world) []*fakeStore { return []*fakeStore{w.clocks} },
		"both":   func(w *world) []*fakeStore { return []*fakeStore{w.workers, w.clocks} },
	} {
		for seed := range uint64(10) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.workers.setLifetime(shortTTL)
				p, q := w.process("p", seed), w.process("q", seed+100)
				defer p.start(t.Context())()
				defer q.start(t.Context())()
				time.Sleep(time.Second)
				defer w.process("waits for a worker ID", seed+200).start(t.Context())()
				time.Sleep(time.Minute + p.net.some(shortTTL))
				before := []any{p.holding(), q.holding()}
				for _, s := range pick(w) {
					s.setLeaderless(true)
				}
				for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(100 * time.Millisecond) {
					if p.holding() == nil || q.holding() == nil {
						t.Fatalf("%s: no worker ID after %v", name, time.Since(began))
					}
					mustNext(t, p.holding())
					mustNext(t, q.holding())
				}
				for _, s := range pick(w) {
					s.setLeaderless(false)
				}
				time.Sleep(shortTTL)
				if p.holding() != before[0] || q.holding() != before[1] {
					t.Errorf("%s: a worker ID was lost", name)
				}
				for _, key := range []string{"0", "1"} {
					if _, err := w.workers.read(key, 0); err != nil {
						t.Errorf("%s: worker ID %s is held and not leased", name, key)
					}
				}
			})
		}
	}
}

// TestLeaseIsMadeAgain: an expired lease is recreated if no other process held
// the worker ID since. Otherwise the worker ID is lost, and no lease is left to
// block the other holder.
func TestLeaseIsMadeAgain(t *testing.T) {
	others := encode(clockValue{Hi: 1 << 50, Hold: "another", Write: "another's"})
	lease := func(w *world, key string) bucketEntry { return w.workers.latest(key) }
	claim := func(w *world, key string) {
		_, _ = w.workers.write(bucketEntry{key: key, value: encode(leaseValue{Hold: "another"})}, lease(w, key).revision)
	}
	fence := func(w *world, key string) {
		_, _ = w.clocks.write(bucketEntry{key: key, value: others}, w.clocks.latest(key).revision)
	}
	for _, tc := range []struct {
		name      string
		away      time.Duration
		back      time.Duration // by which the clock is set during that time
		meanwhile func(w *world, key string)
		kept      bool
	}{
		{name: "nobody", away: shortTTL, kept: true},
		{name: "nobody, clock set back", away: shortTTL, back: 8 * time.Second, kept: true},
		{name: "nobody, in a bucket that was made again", away: shortTTL, kept: true, meanwhile: func(w *world, _ string) { w.workers.empty() }},
		{name: "somebody leases it", away: shortTTL, meanwhile: claim},
		{name: "somebody has it", away: shortTTL, meanwhile: func(w *world, key string) { claim(w, key); fence(w, key) }},
		{name: "somebody had it", away: shortTTL, meanwhile: fence},
		{name: "somebody had it, clock set back", away: shortTTL, back: 8 * time.Second, meanwhile: fence},
		{name: "somebody claimed it, and deleted the lease", away: shortTTL, meanwhile: func(w *world, key string) {
			claim(w, key)
			_, _ = w.workers.write(bucketEntry{key: key, deleted: true}, lease(w, key).revision)
		}},
		{name: "gone before its time", away: shortTTL / 3, meanwhile: func(w *world, key string) { w.workers.expire(key) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.workers.setLifetime(shortTTL)
				p := w.process("p", 1)
				p.setClock(tc.back / 2)
				h, _, _ := faultyHold(t, p)
				time.Sleep(tc.away)
				p.setClock(-tc.back / 2)
				if tc.meanwhile != nil {
					tc.meanwhile(w, h.lease.key)
				}
				before := lease(w, h.lease.key)
				err := h.renew(t.Context(), time.Now().Add(time.Minute))
				if tc.kept != (err == nil) || !tc.kept && !errors.Is(err, ErrLost) {
					t.Fatal(err)
				}
				after := lease(w, h.lease.key)
				if !tc.kept {
					if after.revision != before.revision {
						t.Errorf("a lease was left behind: %s", after.value)
					}
					return
				}
				if v, err := decodeLease(after); err != nil || v.Hold != h.id {
					t.Errorf("it is not leased: %s", after.value)
				}
				time.Sleep(shortTTL / 3)
				if err := h.renew(t.Context(), time.Now().Add(time.Minute)); err != nil {
					t.Errorf("the next heartbeat: %v", err)
				}
			})
		})
	}
}

// TestLeaseThatMayHaveBeenMadeAgain, by a heartbeat that got no answer, is no
// shortcut: the next heartbeat checks the fence first, too.
func TestLeaseThatMayHaveBeenMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.workers.setLifetime(shortTTL)
		h, leases, _ := faultyHold(t, w.process("p", 1))
		time.Sleep(shortTTL)
		_, err := w.workers.read(h.lease.key, 0)
		if !errors.Is(err, errAbsent) {
			t.Fatal(err)
		}
		leases.ifAbsent = notMade
		if err := h.renew(t.Context(), time.Now().Add(time.Minute)); err == nil || isFinal(err) {
			t.Fatal(err)
		}
		leases.ifAbsent = noFault
		_, _ = w.clocks.write(bucketEntry{key: h.fence.key, value: encode(clockValue{Hi: 1, Hold: "another"})}, h.fence.revision)
		if err := h.renew(t.Context(), time.Now().Add(time.Minute)); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
		if r := w.workers.latest(h.lease.key); r.revision != 0 {
			t.Errorf("a lease was left behind: %s", r.value)
		}
	})
}

// forgetful finds nothing when read, and answers no write if it is mute.
type forgetful struct {
	bucket
	mute bool
}

func (f *forgetful) get(context.Context, string) (bucketEntry, error) {
	return bucketEntry{}, errAbsent
}

func (f *forgetful) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if f.mute {
		return 0, errTimeout
	}
	return f.bucket.update(ctx, key, value, revision)
}

// TestOnlyTheLeaderSaysThatALeaseIsGone: a replica that was paused expires
// leases whose renewal it has not seen yet. So an empty read, after a write
// without an answer, costs no worker ID; neither if the lease exists, nor if it
// is being recreated.
func TestOnlyTheLeaderSaysThatALeaseIsGone(t *testing.T) {
	for _, away := range []time.Duration{shortTTL / 3, shortTTL} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.workers.setLifetime(shortTTL)
			m := w.process("p", 1).manager()
			f := &forgetful{bucket: m.workers}
			m.workers = f
			h := mustSeek(t, m)
			time.Sleep(away)
			f.mute = true
			for range 2 {
				if err := h.renew(t.Context(), time.Now().Add(time.Minute)); err == nil || isFinal(err) {
					t.Errorf("after %v: %v", away, err)
				}
			}
			f.mute = false
			if err := h.renew(t.Context(), time.Now().Add(time.Minute)); err != nil {
				t.Errorf("after %v, when all is well again: %v", away, err)
			}
		})
	}
}

// TestNobodyBeginsInAForgottenFence: p's clock is as far ahead as allowed, q's
// as far behind, and the TTL is short. After the clock bucket lost p's fence, q
// waits until that has ended, although it is longer than the TTL.
func TestNobodyBeginsInAForgottenFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.workers.setLifetime(shortTTL)
		p, q := w.process("p", 1), w.process("q", 2)
		defer w.process("has the other worker ID", 3).start(t.Context())()
		time.Sleep(time.Second)
		p.skew, q.skew = 5*time.Second, 5*time.Second
		p.setClock(4900 * time.Millisecond)
		q.setClock(-4900 * time.Millisecond)
		restore := w.clocks.rewind()
		stop := p.start(t.Context())
		time.Sleep(10 * time.Second)
		old := p.holding()
		mustNext(t, old)
		worker := w.layout.WorkerID(mustNext(t, old))
		entry, err := w.clocks.read(key(w.layout, 0, worker), 0)
		if err != nil {
			t.Fatal(err)
		}
		fence, err := decodeClock(entry)
		if err != nil {
			t.Fatal(err)
		}
		// It will be gone without a farewell.
		p.net.set(func() { p.net.dead = true })
		restore()
		m := q.manager()
		m.cfg.TTL = shortTTL
		m.longestFence, _ = remembered(w.workers.list())
		m.pauseClaims(&ClockBackError{})
		for m.claimsPaused() != nil {
			time.Sleep(100 * time.Millisecond)
		}
		if now := w.layout.TimestampAt(time.Unix(0, q.now())); now < fence.Hi {
			t.Errorf("q would begin at %v, p may issue until %v", w.layout.TimeAt(now), w.layout.TimeAt(fence.Hi))
		}
		stop()
	})
}

// TestLeaseNamesItsFence under the JSON name of the TTL, for which older
// versions wait.
func TestLeaseNamesItsFence(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{shortTTL: minFence, modelTTL: modelTTL} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.workers.setLifetime(ttl)
			h := mustSeek(t, w.process("p", 1).manager())
			if v, err := decodeLease(w.workers.latest(h.lease.key)); err != nil || time.Duration(v.Fence)*time.Millisecond != want {
				t.Errorf("TTL %v: the lease names %d ms, want %v", ttl, v.Fence, want)
			}
			if got := w.layout.TimeAt(h.hi.Load()).Sub(h.since).Round(time.Second); got != want {
				t.Errorf("TTL %v: the fence reaches %v, want %v", ttl, got, want)
			}
		})
	}
}
