package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// These tests follow docs/proofs/lease.md step by step. The model test tries
// everything at once, and meets some of this only in its long form.

// fault is a way in which writes fail.
type fault int

const (
	noFault fault = iota
	notMade
	answerLost
	arrivesLate // when the test calls arrive
	refused     // as if another process were always faster
)

// faulty is a bucket whose writes and reads fail as the test sets.
type faulty struct {
	bucket
	writes fault
	blind  bool // reads fail

	ifAbsent fault // happens to writes that are to make an entry
	arrive   func()
}

func (f *faulty) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	happens := f.writes
	if revision == 0 && f.ifAbsent != noFault {
		happens = f.ifAbsent
	}
	switch happens {
	case noFault:
		return f.bucket.update(ctx, key, value, revision)
	case answerLost:
		_, _ = f.bucket.update(ctx, key, value, revision)
	case arrivesLate:
		f.arrive = func() { _, _ = f.bucket.update(context.Background(), key, value, revision) }
	case refused:
		return 0, errConflict
	}
	return 0, errTimeout
}

func (f *faulty) get(ctx context.Context, key string) (bucketEntry, error) {
	if f.blind {
		return bucketEntry{}, errTimeout
	}
	return f.bucket.get(ctx, key)
}

// faultyHold is a hold of p whose later writes fail as the test sets.
func faultyHold(t *testing.T, p *process) (h *holder, leases, clocks *faulty) {
	t.Helper()
	m := p.manager()
	leases, clocks = &faulty{bucket: m.workers}, &faulty{bucket: m.clocks}
	m.workers, m.clocks = leases, clocks
	return mustSeek(t, m), leases, clocks
}

func mustSeek(t *testing.T, m *Manager) *holder {
	t.Helper()
	if on, ok := m.others.(*connected); ok && on.back == nil { // as Run does
		stop, err := m.others.serve(&m.uses)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	h, err := m.seek(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestTimeIsUsedOnceItIsKnownToBeReserved: a heartbeat raises the fence only if
// the answer, or the hold's own number in the entry, confirms that the time is
// reserved.
func TestTimeIsUsedOnceItIsKnownToBeReserved(t *testing.T) {
	mark := encode(clockValue{Hi: 1 << 50, Hold: "another", Write: "another's"})
	for _, tc := range []struct {
		name           string
		writes         fault
		blind          bool
		before         func(s *fakeStore, key string)
		raised, failed bool
		lost           bool
	}{
		{name: "answer", raised: true},
		{name: "answer lost, number read", writes: answerLost, raised: true},
		{name: "answer lost, nothing read", writes: answerLost, blind: true, failed: true},
		{name: "not made, older number read", writes: notMade, failed: true},
		{name: "not made, nothing read", writes: notMade, blind: true, failed: true},
		{name: "late, nothing read", writes: arrivesLate, blind: true, failed: true},
		{name: "another's number", failed: true, lost: true, before: func(s *fakeStore, key string) {
			_, _ = s.write(bucketEntry{key: key, value: mark}, s.latest(key).revision)
		}},
		{name: "gone", failed: true, lost: true, before: func(s *fakeStore, key string) { s.expire(key) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				p := w.process("p", 1)
				h, _, clocks := faultyHold(t, p)
				hi := h.hi.Load()
				time.Sleep(modelTTL / 3)
				if tc.before != nil {
					tc.before(w.clocks, h.fence.key)
				}
				clocks.writes, clocks.blind = tc.writes, tc.blind
				err := h.renew(t.Context(), time.Now().Add(modelTTL))
				if (err != nil) != tc.failed || errors.Is(err, ErrLost) != tc.lost {
					t.Error(err)
				}
				if raised := h.hi.Load() > hi; raised != tc.raised {
					t.Errorf("hi was %d, is %d", hi, h.hi.Load())
				}
				p.setClock(time.Until(w.layout.TimeAt(hi)))
				if _, err := h.gen.Next(); tc.raised != (err == nil) || !tc.raised && !errors.Is(err, snowflake.ErrFenced) {
					t.Errorf("at the old hi: %v", err)
				}
				if tc.lost {
					return
				}
				clocks.writes, clocks.blind = noFault, false
				if clocks.arrive != nil {
					clocks.arrive()
				}
				p.setClock(0)
				for range 2 { // the first may only reread
					time.Sleep(time.Second)
					err = h.renew(t.Context(), time.Now().Add(modelTTL))
				}
				if err != nil || h.hi.Load() <= hi {
					t.Errorf("did not go on: %v", err)
				}
			})
		})
	}
}

// TestReleaseAfterALateWrite: a write of ours that arrives after its heartbeat
// failed moves the entry on. Still the unused time is given back, and the
// lease.
func TestReleaseAfterALateWrite(t *testing.T) {
	for _, late := range []string{"lease", "fence"} {
		t.Run(late, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				h, leases, clocks := faultyHold(t, w.process("p", 1))
				mustNext(t, h.gen)
				time.Sleep(modelTTL / 3)
				b := map[string]*faulty{"lease": leases, "fence": clocks}[late]
				b.writes, b.blind = arrivesLate, true
				if err := h.renew(t.Context(), time.Now().Add(modelTTL)); err == nil {
					t.Fatal("nothing failed")
				}
				b.writes, b.blind = noFault, false
				b.arrive()
				if err := h.release(); err != nil {
					t.Error(err)
				}
				if _, err := h.gen.Next(); !errors.Is(err, snowflake.ErrRevoked) {
					t.Errorf("after the release: %v", err)
				}
				found := w.clocks.latest(h.fence.key)
				if v, err := decodeClock(found); err != nil || v.Hi != h.gen.Last()+1 {
					t.Errorf("hi is %s, want %d; %v", found.value, h.gen.Last()+1, err)
				}
				if !w.workers.latest(h.lease.key).deleted {
					t.Error("the lease is still there")
				}
			})
		})
	}
}

// steppingServer sets a process's clock right after it was compared.
type steppingServer struct {
	server
	p *process
}

func (s steppingServer) state(ctx context.Context) (serverState, error) {
	a, err := s.server.state(ctx)
	s.p.setClock(24 * time.Hour)
	return a, err
}

// TestClockSetDuringAHeartbeat: the day by which the clock is off is not given
// away.
func TestClockSetDuringAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.process("p", 1)
		h, _, _ := faultyHold(t, p)
		h.clock.server = steppingServer{h.clock.server, p}
		hi := h.hi.Load()
		if latest := w.layout.TimestampAt(time.Now().Add(modelTTL)); hi > latest {
			t.Errorf("claimed up to %d, want %d at most", hi, latest)
		}
		time.Sleep(modelTTL / 3)
		if err := h.renew(t.Context(), time.Now().Add(modelTTL)); err != nil {
			t.Fatal(err)
		}
		if latest := w.layout.TimestampAt(time.Now().Add(modelTTL)); h.hi.Load() <= hi || h.hi.Load() > latest {
			t.Errorf("reserved up to %d, want %d at most", h.hi.Load(), latest)
		}
	})
}

// TestClockBucketReplacedMeanwhile: no claim succeeds in a bucket that replaced
// the admitted bucket, even if its entries look right; nor does a heartbeat.
func TestClockBucketReplacedMeanwhile(t *testing.T) {
	for _, identity := range []string{"", "another"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			m := w.process("p", 1).manager()
			mustSeek(t, m)
			m.clocks = &replacing{bucket: m.clocks, identity: identity}
			if _, err := m.seek(t.Context()); !errors.Is(err, ErrClockLost) {
				t.Errorf("claim: %v", err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.config.put(bucketEntry{key: ClockIDKey})
		if _, err := w.process("p", 1).manager().seek(t.Context()); !errors.Is(err, ErrClockLost) {
			t.Errorf("an installation whose identity is unknown: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h, _, _ := faultyHold(t, w.process("q", 2))
		hi := h.hi.Load()
		time.Sleep(modelTTL / 3)
		w.clocks.empty()
		if err := h.renew(t.Context(), time.Now().Add(modelTTL)); !errors.Is(err, ErrClockLost) || h.hi.Load() != hi {
			t.Errorf("heartbeat: %v; hi was %d, is %d", err, hi, h.hi.Load())
		}
	})
}

// TestLostBucketIsForgotten: how far a lost clock bucket had come says nothing
// about the bucket on which an operator has decided. A process that waited has a
// worker ID at once.
func TestLostBucketIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.workers.setLifetime(modelTTL)
		h, _, _ := faultyHold(t, w.process("gone", 1))
		for range 5 {
			time.Sleep(modelTTL / 3)
			if err := h.renew(t.Context(), time.Now().Add(modelTTL)); err != nil {
				t.Fatal(err)
			}
		}
		w.clocks.empty()
		m := w.process("waits", 2).manager()
		lost := new(ClockLostError)
		if _, err := m.seek(t.Context()); !errors.As(err, &lost) {
			t.Fatal(err)
		}
		time.Sleep(lost.Wait)
		w.config.expire(ClockIDKey)
		mustSeek(t, m)
	})
}

// replacing is a bucket that is replaced by another before the first write.
type replacing struct {
	bucket
	identity string
	replaced bool
}

func (b *replacing) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	b.replaced = true
	return b.bucket.update(ctx, key, value, revision)
}

func (b *replacing) get(ctx context.Context, key string) (bucketEntry, error) {
	if key != identityKey || !b.replaced {
		return b.bucket.get(ctx, key)
	}
	if b.identity == "" {
		return bucketEntry{}, errAbsent
	}
	return bucketEntry{key: key, value: []byte(b.identity)}, nil
}

// TestFiguresOfAHold: the reserved time is the hold's, and 0 without a hold.
func TestFiguresOfAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newWorld().process("p", 1).manager()
		ctx, stop := context.WithCancel(t.Context())
		if err := m.Run(ctx, func(State) {
			if got := m.Figures().Reserved; got < modelTTL-queryTime-time.Second || got > modelTTL {
				t.Errorf("reserved %v", got)
			}
			stop()
		}); err != nil {
			t.Error(err)
		}
		if got := m.Figures().Reserved; got != 0 {
			t.Errorf("reserved %v without a hold", got)
		}
	})
}

// TestNothingIsIssuedWhileTimeIsGivenBack: the generator is revoked first.
// Otherwise it could issue an ID between reading the last timestamp and the
// write.
func TestNothingIsIssuedWhileTimeIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWorld().process("p", 1)
		h := mustSeek(t, p.manager())
		mustNext(t, h.gen)
		probed := 0
		p.net.point = func() {
			probed++
			if id, err := h.gen.Next(); !errors.Is(err, snowflake.ErrRevoked) {
				t.Errorf("while the time is given back: %v, %v, want ErrRevoked", id, err)
			}
		}
		if err := h.release(); err != nil || probed == 0 {
			t.Fatal(err, probed)
		}
	})
}

// TestProcessRemembersTheClockBucket: a process without a worker ID remembers how
// far the clock bucket had come, although leases regressed with it.
func TestProcessRemembersTheClockBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.process("p", 1)
		r := runManager(t, p.manager())
		r.waitHeld(t)
		clocks, leases := w.clocks.rewind(), w.workers.rewind()
		time.Sleep(time.Minute)
		p.net.set(func() { p.net.dead = true })
		time.Sleep(2 * modelTTL)
		if r.held() {
			t.Fatal("it holds a worker ID for longer than its fence")
		}
		clocks()
		leases()
		p.net.set(func() { p.net.dead = false })
		r.waitFor(t, ErrClockLost)
	})
}
