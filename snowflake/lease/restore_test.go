package lease

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// rewind takes a backup of a bucket; the returned function restores it.
func (s *fakeStore) rewind() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, versions := s.last, make(map[string][]bucketEntry)
	for key, v := range s.versions {
		versions[key] = slices.Clone(v)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last, s.versions = last, make(map[string][]bucketEntry)
		for key, v := range versions {
			s.versions[key] = slices.Clone(v)
		}
	}
}

func heartbeat(t *testing.T, h *holder) error {
	t.Helper()
	time.Sleep(modelTTL / 3)
	return h.renew(t.Context(), time.Now().Add(modelTTL))
}

// TestClockBucketGoesBack: every process that can detect it does, and no worker
// ID is claimed before all lost time is past.
func TestClockBucketGoesBack(t *testing.T) {
	var back *ClockBackError
	holder := func(t *testing.T) (*world, *process, *holder, func()) {
		w := newWorld()
		p := w.process("p", 1)
		h, _, _ := faultyHold(t, p)
		restore := w.clocks.rewind()
		for range 2 {
			if err := heartbeat(t, h); err != nil {
				t.Fatal(err)
			}
		}
		return w, p, h, restore
	}
	t.Run("heartbeat", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, _, h, restore := holder(t)
			restore()
			hi := h.hi.Load()
			if err := heartbeat(t, h); !errors.As(err, &back) || h.hi.Load() != hi {
				t.Errorf("%v; hi was %d, is %d", err, hi, h.hi.Load())
			}
		})
	})
	t.Run("heartbeat, after others have written", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, _, h, restore := holder(t)
			restore()
			for i := range 10 {
				_, _ = w.clocks.write(bucketEntry{key: string(rune('a' + i)), value: []byte("x")}, 0)
			}
			hi, err := h.hi.Load(), error(nil)
			for range maxBehind {
				err = heartbeat(t, h)
			}
			if !errors.Is(err, ErrClockLost) || h.hi.Load() != hi {
				t.Errorf("%v; hi was %d, is %d", err, hi, h.hi.Load())
			}
		})
	})
	t.Run("right before the fence is written", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			h, _, _ := faultyHold(t, w.process("p", 1))
			restore := w.clocks.rewind() // the hold's entry is the last
			mustSeek(t, w.process("q", 2).manager())
			if err := h.checkForward(t.Context(), reading{last: of(w.clocks, &w.clocks.last)}); err != nil {
				t.Fatal(err)
			}
			restore()
			if err := h.writeHi(t.Context(), h.hi.Load()+1); !errors.As(err, &back) {
				t.Errorf("a write was accepted at a sequence that had been reached: %v", err)
			}
		})
	})
	t.Run("claim", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, _, h, restore := holder(t)
			restore()
			m := w.process("q", 2).manager()
			if _, err := m.seek(t.Context()); !errors.As(err, &back) || back.Known <= back.Last || back.Known > h.fence.known.Last {
				t.Errorf("%v", err)
			}
		})
	})
	for _, leasesToo := range []bool{false, true} {
		t.Run(fmt.Sprintf("service resumes, leases went back too: %v", leasesToo), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				p := w.process("p", 1)
				defer p.start(t.Context())()
				time.Sleep(time.Minute)
				restore, restoreLeases := w.clocks.rewind(), w.workers.rewind()
				time.Sleep(time.Minute)
				old := p.holding()
				mustNext(t, old)
				restore()
				if leasesToo {
					restoreLeases()
				}
				time.Sleep(modelTTL)
				if p.holding() != nil {
					t.Fatal("goes on, although the bucket went back")
				}
				began := time.Now()
				for p.holding() == nil {
					time.Sleep(time.Second)
				}
				first := mustNext(t, p.holding())
				if waited := time.Since(began); waited < p.ahead+2*p.skew-time.Second || waited > 2*modelTTL {
					t.Errorf("waited %v", waited)
				}
				if w.layout.Timestamp(first) <= old.Last() {
					t.Error("begins before the old one ended")
				}
			})
		})
	}
}
