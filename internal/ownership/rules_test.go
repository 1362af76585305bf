package ownership

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnswersUntil: an owner that is cut off answers until T less the margin after the start of its
// last renewal, on its own clock, however long the answer took.
func TestAnswersUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, slow = 0.95, 300 * time.Millisecond
		var mu sync.Mutex
		var renewed time.Time
		m := join(t, newFakeStore(), "m", rate, func(_ *Config, l *link) {
			l.sent = func(key string) {
				if strings.HasPrefix(key, leasePrefix) {
					mu.Lock()
					renewed = time.Now()
					mu.Unlock()
				}
			}
		})
		m.takes(t, 1)
		m.link.setFaults(faults{slow: slow})
		time.Sleep(10 * term)
		until(t, term, "no write is under way", func() bool {
			mu.Lock()
			defer mu.Unlock()
			since := time.Since(renewed)
			return since > 2*slow && since < 3*slow
		})
		m.link.cut()
		mu.Lock()
		last := renewed
		mu.Unlock()
		until(t, 2*term, "it stops answering", func() bool { return !m.answers(1) })
		lasted, want := time.Since(last), time.Duration(float64(validity(term))/rate)
		if lasted < want || lasted > want+2*time.Millisecond {
			t.Errorf("it answered for %v after its last renewal began, want %v", lasted, want)
		}
	})
}

// neverBoth runs until a slot of one member, which is cut off, is answered for by another one, and
// fails the test if both answer at a time.
func neverBoth(t *testing.T, a, b *member, slot int) {
	t.Helper()
	until(t, 3*term, "the other one answers", func() bool {
		if a.answers(slot) && b.answers(slot) {
			t.Fatal("both answer")
		}
		return b.answers(slot)
	})
}

// TestClockRates: an owner whose clock loses 9 % and a contender whose clock gains 9 % never answer at
// the same time. This is what the margin is for.
func TestClockRates(t *testing.T) {
	for _, loss := range []float64{0, 0.01, 0.05, 0.09} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeStore()
			a, b := join(t, s, "a", 1-loss), join(t, s, "b", 1+loss)
			a.takes(t, 1)
			time.Sleep(5 * term)
			a.link.cut()
			neverBoth(t, a, b, 1)
		})
	}
}

// TestOwnName: whoever finds its own name in the bucket, because the answer to its write was lost,
// is not the owner. It takes the slot again, under the next epoch.
func TestOwnName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		m := join(t, s, "m", 1)
		m.link.setFaults(faults{loseAnswer: 1})
		m.Want(1)
		until(t, term, "the bucket names it", func() bool { _, known := m.Owner(1); return known })
		for range 500 {
			if _, ok := m.Term(1); ok {
				t.Fatal("it is the owner, though it does not know that a write was made")
			}
			time.Sleep(time.Millisecond)
		}
		before, _ := decodeSlot(s.get(slotKey(1)).value)
		m.link.setFaults(faults{})
		until(t, 2*term, "it answers", func() bool { return m.answers(1) })
		if epoch, _ := m.Term(1); epoch <= before.Epoch {
			t.Errorf("epoch %d after %d, which was never known to be taken", epoch, before.Epoch)
		}
	})
}

// TestEpochRises with every taking, by the same process too.
func TestEpochRises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		var mu sync.Mutex
		var highest uint64
		began := func(cfg *Config, _ *link) {
			inner := cfg.Began
			cfg.Began = func(slot int, epoch uint64) {
				mu.Lock()
				defer mu.Unlock()
				if epoch <= highest {
					t.Errorf("epoch %d began after %d", epoch, highest)
				}
				highest = epoch
				inner(slot, epoch)
			}
		}
		a, b := join(t, s, "a", 1, began), join(t, s, "b", 1, began)
		a.takes(t, 1)
		for range 10 {
			from, to := a, b
			if b.answers(1) {
				from, to = b, a
			}
			if !from.HandOver(1) {
				t.Fatal("cannot be handed over")
			}
			until(t, time.Second, "the other one answers", func() bool { return to.answers(1) })
		}
		if highest < 11 {
			t.Errorf("epoch %d after 11 takings", highest)
		}
	})
}

// TestStopsAnsweringFirst: a process has stopped answering for a slot when the write arrives that
// hands it over, be it of the slot or, at a stop, of the lease.
func TestStopsAnsweringFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		a := join(t, s, "a", 1)
		a.takes(t, 1, 2, 3)
		handed, ended := 0, 0
		s.mu.Lock()
		s.stored = func(r record) {
			slot, isSlot := number(r.key, slotPrefix)
			v, _ := decodeSlot(r.value)
			if lease, err := decodeLease(r.value); isSlot && v.Lease == none {
				handed++
				if a.Valid(slot, v.Epoch) {
					t.Errorf("slot %d is handed over, and its owner answers", slot)
				}
			} else if err == nil && lease.Ended == stopped && lease.Instance == "a" {
				ended++
				for slot := range Slots {
					if a.answers(slot) {
						t.Errorf("a process has stopped, and answers for slot %d", slot)
					}
				}
			}
		}
		s.mu.Unlock()
		a.link.setFaults(faults{slow: 10 * time.Millisecond})
		b := join(t, s, "b", 1)
		until(t, time.Second, "b has its share", func() bool { return b.answers(1) || b.answers(2) || b.answers(3) })
		a.quit(t)
		until(t, 250*time.Millisecond, "b answers for all", func() bool { return b.answers(1) && b.answers(2) && b.answers(3) })
		b.quit(t)
		if handed != 1 || ended != 1 {
			t.Errorf("%d slots were handed over, %d leases were ended", handed, ended)
		}
	})
}

// TestEnded: a process whose lease was ended by others learns it, and lives on with another
// lease. Nothing of its terms is left, and others know that it lives.
func TestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		a, b := join(t, s, "a", 1), join(t, s, "b", 1)
		a.takes(t, 1, 2)
		before := a.lease()
		epoch, _ := a.Term(1)
		a.link.cut()
		until(t, 2*term, "b answers for all", func() bool { return b.answers(1) && b.answers(2) })
		if all := b.Leases(); len(all) != 2 || !all[0].Lost && !all[1].Lost {
			t.Errorf("the leases are %+v", all)
		}
		a.link.restore()
		until(t, term, "a has another lease", func() bool {
			all := b.Leases()
			return len(all) == 2 && !all[0].Lost && !all[1].Lost
		})
		if a.lease() != (leaseID{before.Place, before.Life + 1}) {
			t.Errorf("its lease was %+v and is %+v", before, a.lease())
		}
		if a.Valid(1, epoch) {
			t.Error("the term of a lease that was ended goes on")
		}
		until(t, term, "it takes its share again", func() bool { return a.answers(1) != a.answers(2) })
	})
}

// TestLateAnswer: a slot was taken under a lease that was over by the time the answer came. It is
// not a term of the lease that came after.
func TestLateAnswer(t *testing.T) {
	var terms terms
	terms.now = func() int64 { return 0 }
	terms.began = func(int, uint64) { t.Error("a term of another lease began") }
	terms.open(leaseID{0, 2}, 1)
	if terms.begin(leaseID{0, 1}, 7, 1) || terms.valid(7, 1) {
		t.Error("a term of another lease is valid")
	}
}

// TestLeaseChangesWhileLooking: the time of one lease never makes a term of another one valid.
func TestLeaseChangesWhileLooking(t *testing.T) {
	var terms terms
	change := func() {}
	terms.now = func() int64 { change(); return 5 }
	terms.began, terms.ended = func(int, uint64) {}, func(int, uint64) {}
	terms.open(leaseID{0, 1}, 10)
	terms.begin(leaseID{0, 1}, 7, 1)
	if !terms.valid(7, 1) {
		t.Fatal("a term is not valid")
	}
	change = func() { terms.close(); terms.open(leaseID{0, 2}, 20) }
	if terms.valid(7, 1) {
		t.Error("a term is valid in the time of a lease that was made after it had ended")
	}
}

// TestOver: only what was read proves that a lease is over, and an old entry of its key does not.
func TestOver(t *testing.T) {
	v := newView()
	l := leaseID{3, 5}
	for i, step := range []struct {
		life  uint64
		ended string
		over  bool
	}{{0, "", false}, {4, "", false}, {4, lost, false}, {5, "", false}, {5, lost, true}, {6, "", true}} {
		if step.life > 0 {
			r := record{leaseKey(3), encode(leaseValue{Life: step.life, Ended: step.ended, Term: 1}), uint64(i)}
			if _, _, err := v.apply(r, 0); err != nil {
				t.Fatal(err)
			}
		}
		if v.over(l) != step.over || v.alive(l) != (step.life == 5 && !step.over) {
			t.Errorf("life %d, ended %q: over is %v", step.life, step.ended, v.over(l))
		}
	}
}

// TestCopy: an entry that says what this process says, but under a number that it has never
// sent, is a copy's: the lease is over.
func TestCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		m := join(t, s, "m", 1)
		m.takes(t, 1)
		epoch, _ := m.Term(1)
		have := s.get(leaseKey(m.lease().Place))
		v, err := decodeLease(have.value)
		if err != nil {
			t.Fatal(err)
		}
		v.Write = "drawn by the copy"
		if _, err := s.write(have.key, encode(v), have.revision); err != nil {
			t.Fatal(err)
		}
		until(t, term, "its term has ended", func() bool { now, ok := m.Term(1); return !ok || now != epoch })
		if m.Valid(1, epoch) {
			t.Error("it answers")
		}
		until(t, 2*term, "another lease", func() bool { return m.answers(1) })
	})
}

// TestLostAnswerOfRenewal: a renewal whose answer was lost counts once it is read, from its start.
func TestLostAnswerOfRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		a := join(t, s, "a", 1)
		join(t, s, "b", 1)
		a.takes(t, 1)
		a.link.setFaults(faults{loseAnswer: 1})
		for range 5000 {
			if !a.answers(1) {
				t.Fatal("it does not answer, though its renewals are made and can be read")
			}
			time.Sleep(4 * time.Millisecond)
		}
		a.link.setFaults(faults{})
	})
}
