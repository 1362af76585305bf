package lease

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestFailedClaimIsNoLostRace: when a bucket accepts no writes, the worker ID
// stays free, whether it was ever used or not. No process was faster, and seek
// returns the cause instead of trying the next worker ID.
func TestFailedClaimIsNoLostRace(t *testing.T) {
	for _, tc := range []struct{ clocks, used bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", tc), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				mustSeek(t, w.process("has the other worker ID", 1).manager())
				if tc.used {
					if err := mustSeek(t, w.process("had it before", 2).manager()).release(); err != nil {
						t.Fatal(err)
					}
				}
				m := w.process("p", 3).manager()
				full := &faulty{bucket: m.workers, writes: notMade}
				if m.workers = full; tc.clocks {
					m.workers, full.bucket, m.clocks = full.bucket, m.clocks, full
				}
				if _, err := m.seek(t.Context()); !errors.Is(err, errTimeout) || errors.Is(err, ErrLost) || errors.Is(err, ErrNoWorkerID) {
					t.Error(err)
				}
				leased := 0
				for _, r := range w.workers.list() {
					if !r.deleted {
						leased++
					}
				}
				if leased != 1 {
					t.Errorf("%d worker IDs are leased, want that of the other", leased)
				}
				full.writes = noFault
				mustNext(t, mustSeek(t, m).gen)
			})
		})
	}
}

// TestOthersAreAlwaysFaster: seek reports after some rounds that no claim
// succeeds.
func TestOthersAreAlwaysFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = wide
		m := w.process("p", 1).manager()
		m.workers = &faulty{bucket: m.workers, writes: refused}
		if _, err := m.seek(t.Context()); !errors.Is(err, ErrNoWorkerID) || errors.Is(err, ErrLost) {
			t.Error(err)
		}
	})
}

// TestRequestsEndInTimeForTheTTLOfTheBucket: the bucket's TTL is shorter than
// the configured one. A heartbeat that a frozen server does not answer fails
// early enough for another.
func TestRequestsEndInTimeForTheTTLOfTheBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.workers.setLifetime(shortTTL)
		p := w.process("p", 1)
		h := mustSeek(t, p.manager())
		p.net.set(func() { p.net.dead = true })
		began := time.Now()
		err := h.renew(t.Context(), began.Add(time.Minute))
		// A write and a read.
		if took, most := time.Since(began), 2*callTimeoutFor(shortTTL); err == nil || took > most {
			t.Errorf("after %v, want %v at most: %v", took, most, err)
		}
	})
}
