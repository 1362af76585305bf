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
		unmade    bool          // a heartbeat got no answer when it made the lease again
		meanwhile func(w *world, key string)
		kept      bool
	}{
		{name: "nobody", away: shortTTL, kept: true},
		{name: "nobody, clock set back", away: shortTTL, back: 8 * time.Second, kept: true},
		{name: "nobody, in a bucket that was made again", away: shortTTL, kept: true, meanwhile: func(w *world, _ string) { w.workers.empty() }},
		{name: "somebody leases it", away: shortTTL, meanwhile: claim},
		{name: "somebody has it", away: shortTTL, meanwhile: func(w *world, key string) { claim(w, key); fence(w, key) }},
		{name: "somebody had it", away: shortTTL, meanwhile: fence},
		{name: "somebody had it, after a heartbeat without an answer", away: shortTTL, unmade: true, meanwhile: fence},
		{name: "somebody had it, clock set back", away: shortTTL, back: 8 * time.Second, meanwhile: fence},
		{name: "somebody claimed it, and deleted the lease", away: shortTTL, meanwhile: func(w *world, key string) {
			claim(w, key)
			_, _ = w.workers.write(bucketEntry{key: key, deleted: true}, lease(w, key).revision)
		}, kept: true},
		{name: "somebody wrote it", away: shortTTL / 3, meanwhile: claim},
		{name: "it is not even JSON", away: shortTTL / 3, meanwhile: func(w *world, key string) { w.workers.put(bucketEntry{key: key}) }},
		{name: "gone before its time", away: shortTTL / 3, kept: true, meanwhile: func(w *world, key string) { w.workers.expire(key) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.workers.setLifetime(shortTTL)
				p := w.process("p", 1)
				p.setClock(tc.back / 2)
				h, leases, _ := faultyHold(t, p)
				time.Sleep(tc.away)
				p.setClock(-tc.back / 2)
				if tc.unmade {
					lease(w, h.lease.key) // it has expired
					leases.ifAbsent = notMade
					if err := h.renew(t.Context(), time.Now().Add(time.Minute)); err == nil || isFinal(err) {
						t.Fatal(err)
					}
					leases.ifAbsent = noFault
				}
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

// lagging is a bucket with a server that has not seen the latest writes, and has
// expired all leases. It refuses a number of writes, or answers none.
type lagging struct {
	bucket
	refuses int
	mute    bool
	lags    bool // the latest write was not made
}

func (l *lagging) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	l.lags = l.mute || l.refuses > 0
	switch {
	case l.mute:
		return 0, errTimeout
	case l.lags:
		l.refuses--
		return 0, errConflict
	}
	return l.bucket.update(ctx, key, value, revision)
}

func (l *lagging) get(ctx context.Context, key string) (bucketEntry, error) {
	if l.lags {
		return bucketEntry{}, errAbsent
	}
	return l.bucket.get(ctx, key)
}

// TestOnlyTheLeaderSaysThatALeaseIsGone: an empty read, after a write without an
// answer, costs no worker ID; neither if the lease exists, nor if it is being
// recreated. Nor does a leader that was frozen, and refuses writes until it
// notices its successor. If it still reports the lease as gone later, the lease
// is made again.
func TestOnlyTheLeaderSaysThatALeaseIsGone(t *testing.T) {
	for _, tc := range []struct {
		away time.Duration
		lagging
		want error
	}{
		{shortTTL / 3, lagging{mute: true}, errUnsure},
		{shortTTL, lagging{mute: true}, errUnsure},
		{shortTTL / 3, lagging{refuses: 1}, nil},
		{shortTTL / 3, lagging{refuses: maxAbsent - 1}, nil},
		{shortTTL / 3, lagging{refuses: 1 << 30}, errGone},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.workers.setLifetime(shortTTL)
			m := w.process("p", 1).manager()
			l := &lagging{bucket: m.workers}
			m.workers = l
			h := mustSeek(t, m)
			time.Sleep(tc.away)
			l.refuses, l.mute = tc.refuses, tc.mute
			if err := h.renew(t.Context(), time.Now().Add(time.Minute)); !errors.Is(err, tc.want) || isFinal(err) {
				t.Errorf("after %v, with %+v: %v", tc.away, tc.lagging, err)
			}
			l.refuses, l.mute = 0, false
			if err := h.renew(t.Context(), time.Now().Add(time.Minute)); err != nil {
				t.Errorf("when all is well again: %v", err)
			}
		})
	}
}

// TestNobodyBeginsInAForgottenFence: p's clock is as far ahead as allowed, q's
// as far behind, and p's TTL was longer. After the clock bucket lost p's fence,
// q begins above it.
func TestNobodyBeginsInAForgottenFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.workers.setLifetime(2 * modelTTL)
		p, q := w.process("p", 1), w.process("q", 2)
		p.setClock(4900 * time.Millisecond)
		q.setClock(-4900 * time.Millisecond)
		first := p.manager()
		if _, err := first.admit(t.Context(), first.newClock()); err != nil { // makes the identity
			t.Fatal(err)
		}
		restore := w.clocks.rewind()
		h := mustSeek(t, first)
		if err := heartbeat(t, h); err != nil {
			t.Fatal(err)
		}
		w.workers.setLifetime(modelTTL) // which p has no reason to notice
		restore()
		m := q.manager()
		m.cfg.Worker = &h.worker
		_, err := m.admit(t.Context(), m.newClock())
		for err != nil {
			time.Sleep(100 * time.Millisecond)
			var got *holder
			if got, err = m.seek(t.Context()); err == nil && w.layout.Timestamp(mustNext(t, got.gen)) < h.hi.Load() {
				t.Errorf("q begins at %v, p may issue until %v", w.layout.TimeAt(w.layout.Timestamp(mustNext(t, got.gen))), w.layout.TimeAt(h.hi.Load()))
			}
		}
	})
}
