package ownership

import (
	"testing"
	"testing/synctest"
	"time"
)

// everything is all slots.
func everything() (slots []int) {
	for slot := range Slots {
		slots = append(slots, slot)
	}
	return slots
}

// answering counts the slots that a member may answer for.
func (m *member) answering() (n int) {
	for slot := range Slots {
		if m.answers(slot) {
			n++
		}
	}
	return n
}

// balanced reports whether the members have all slots, evenly.
func balanced(members ...*member) bool {
	all := 0
	for _, m := range members {
		n := m.answering()
		if all += n; n < Slots/len(members)-2 || n > Slots/len(members)+2 {
			return false
		}
	}
	return all == Slots
}

// TestBalance: the slots are shared out evenly after a join, a stop and a death.
func TestBalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		members := []*member{join(t, s, "a", 1)}
		members[0].takes(t, everything()...)
		for _, name := range []string{"b", "c", "d"} {
			members = append(members, join(t, s, name, 1, func(_ *Config, l *link) { l.faults.delay = 4 * time.Millisecond }))
			until(t, 10*term, "balance after a join", func() bool { return balanced(members...) })
		}
		go members[0].quit(t)
		until(t, 10*term, "balance after a stop", func() bool { return balanced(members[1:]...) })
		members[1].kill()
		until(t, 10*term, "balance after a death", func() bool { return balanced(members[2:]...) })
	})
}

// TestSlotNobodyTakes: whoever is to take a slot does not, because it is cut off. Somebody else does.
func TestSlotNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		a, b, c := join(t, s, "a", 1), join(t, s, "b", 1), join(t, s, "c", 1)
		a.takes(t, everything()[:30]...)
		until(t, term, "everybody has a share", func() bool { return b.answering() == 10 && c.answering() == 10 })
		b.link.cut()
		a.quit(t)
		took := until(t, term/2, "c has those of a", func() bool { return c.answering() == 20 })
		t.Log("after", took)
		b.link.restore()
		b.quit(t)
	})
}

// TestOutage: while the bucket is away nobody answers once the time is up, nothing is burnt more than
// once, and when it is back the terms go on as they were.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		changed := make(chan int, 1000)
		a := join(t, s, "a", 1, func(cfg *Config, _ *link) { cfg.Changed = func(slot int) { changed <- slot } })
		b := join(t, s, "b", 1)
		a.takes(t, 1)
		until(t, time.Second, "it answers", func() bool { return a.answers(1) })
		epoch, _ := a.Term(1)
		a.link.cut()
		b.link.cut()
		time.Sleep(5 * term)
		if a.Valid(1, epoch) {
			t.Error("it answers, though its time is up")
		}
		if _, ok := a.Term(1); ok {
			t.Error("Term has whoever looks at it alone burn IDs")
		}
		for len(changed) > 0 {
			<-changed
		}
		b.link.restore()
		time.Sleep(term / 2) // b is back first, and leaves a its time
		a.link.restore()
		until(t, term/2, "it answers again", func() bool { return a.Valid(1, epoch) })
		until(t, time.Second, "that is said", func() bool { return len(changed) > 0 })
		if now, ok := a.Term(1); !ok || now != epoch {
			t.Errorf("epoch %d is epoch %d now", epoch, now)
		}
	})
}

// TestEndedMeanwhile: a process sees in the feed that its lease is over, and does not wait for its
// next renewal to learn it.
func TestEndedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		m := join(t, s, "m", 1)
		m.takes(t, 1)
		before := m.lease()
		time.Sleep(10 * time.Millisecond)
		have := s.get(leaseKey(before.Place))
		v, err := decodeLease(have.value)
		if err != nil {
			t.Fatal(err)
		}
		v.Ended, v.Write = lost, "another's"
		if _, err := s.write(have.key, encode(v), have.revision); err != nil {
			t.Fatal(err)
		}
		until(t, 100*time.Millisecond, "another life", func() bool { return m.lease() != before && m.answers(1) })
	})
}

// TestRulesRevision: a lease says how far its process has acted upon the rules, at once.
func TestRulesRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		rules := make(chan uint64, 1)
		rules <- 5
		a := join(t, s, "a", 1, func(cfg *Config, _ *link) {
			cfg.Rules = func() uint64 { r := <-rules; rules <- r; return r }
		})
		b := join(t, s, "b", 1)
		says := func(revision uint64) bool {
			for _, l := range b.Leases() {
				if l.Instance == "a" {
					return l.Rules == revision
				}
			}
			return false
		}
		until(t, time.Second, "5", func() bool { return says(5) })
		<-rules
		rules <- 6
		a.RulesChanged()
		until(t, 50*time.Millisecond, "6", func() bool { return says(6) })
	})
}

// TestMadeAgain: in a bucket that was made again, slots without an entry may have an owner from
// before. They are taken only after T, and the leases of before are over.
func TestMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newFakeStore()
		a, b := join(t, old, "a", 1), join(t, old, "b", 1)
		a.takes(t, 1)
		until(t, time.Second, "a answers", func() bool { return a.answers(1) })
		b.Want(1)
		remade := newFakeStore()
		remade.agreed = old.agreed
		b.link.move(remade)
		a.link.cut() // and only then meets the other bucket
		neverBoth(t, a, b, 1)
		a.link.move(remade)
		a.link.restore()
		until(t, 3*term, "both have leases in it", func() bool {
			return a.knows("a", "b") && b.knows("a", "b")
		})
	})
}

// TestDeletedByHand: keys that somebody deletes are made good for, and no epoch is used twice.
func TestDeletedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		a := join(t, s, "a", 1)
		a.takes(t, 1)
		until(t, time.Second, "a answers", func() bool { return a.answers(1) })
		remove := func(key string) {
			if _, err := s.write(key, nil, s.get(key).revision); err != nil {
				t.Fatal(err)
			}
		}
		b := join(t, s, "b", 1)
		remove(slotKey(1))
		remove(leaseKey(a.lease().Place))
		a.link.cut()
		c := join(t, s, "c", 1) // it never sees what was there
		until(t, 3*term, "another one answers", func() bool {
			if n := a.answering() + b.answering() + c.answering(); n > 1 {
				t.Fatalf("%d answer", n)
			}
			return b.answers(1) || c.answers(1)
		})
	})
}

// TestUnreadableEntries: entries that somebody overwrites with what nobody can read count as deleted ones.
// The slot has an owner again, and never two.
func TestUnreadableEntries(t *testing.T) {
	for _, key := range []func(*member) string{
		func(*member) string { return slotKey(1) },
		func(a *member) string { return leaseKey(a.lease().Place) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeStore()
			a := join(t, s, "a", 1)
			a.takes(t, 1)
			until(t, time.Second, "a answers", func() bool { return a.answers(1) })
			b := join(t, s, "b", 1)
			key := key(a)
			if _, err := s.write(key, []byte("garbage"), s.get(key).revision); err != nil {
				t.Fatal(err)
			}
			a.link.cut()
			c := join(t, s, "c", 1) // it never sees what was there
			until(t, 3*term, "another one answers", func() bool {
				if n := a.answering() + b.answering() + c.answering(); n > 1 {
					t.Fatalf("%s: %d answer", key, n)
				}
				return b.answers(1) || c.answers(1)
			})
		})
	}
}

// TestNoIdentityTwiceAfterADeletion: a process that never saw a lease which somebody deleted ends it as a
// life that is not earlier than any it had. So a slot that is found to name one of them is free, and no
// later lease is taken for it. Neither is one at a place of which nothing is left at all.
func TestNoIdentityTwiceAfterADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		const place = 9
		write := func(value []byte) {
			if _, err := s.write(leaseKey(place), value, s.get(leaseKey(place)).revision); err != nil {
				t.Fatal(err)
			}
		}
		for life := range uint64(7) {
			write(encode(leaseValue{Life: life + 1, Instance: "a", Term: term.Milliseconds(), Write: "w"}))
		}
		write(nil)
		b := join(t, s, "b", 1)
		if life := b.lease().Life; life <= 7 {
			t.Errorf("life %d at a place of which there might have been 7", life)
		}
		until(t, 3*term, "the deleted one is ended", func() bool { return len(s.get(leaseKey(place)).value) > 0 })
		ended, err := decodeLease(s.get(leaseKey(place)).value)
		if err != nil || ended.Ended != lost || ended.Life < 7 {
			t.Errorf("%+v, %v; want one that has ended, in life 7 or later", ended, err)
		}
	})
}
