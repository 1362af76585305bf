package ownership

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ruleBook is what the processes of a test know of the rules.
type ruleBook struct {
	strict   atomic.Bool
	revision atomic.Uint64
}

func (b *ruleBook) read(cfg *Config, _ *link) { cfg.Strict, cfg.Rules = b.strict.Load, b.revision.Load }

// set says whether there is a strict tag, to all of them.
func (b *ruleBook) set(strict bool, members ...*member) {
	b.strict.Store(strict)
	b.revision.Add(1)
	for _, m := range members {
		m.RulesChanged()
	}
}

// entry is the lease of a member, as it is stored.
func (m *member) entry(t *testing.T) leaseValue {
	t.Helper()
	v, err := decodeLease(m.link.target().get(leaseKey(m.lease().Place)).value)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// lost counts the leases that others have ended, as a member knows them.
func (m *member) lost() (n int) {
	for _, l := range m.Leases() {
		if l.Lost {
			n++
		}
	}
	return n
}

// named are the slots in which the store names an owner.
func (s *fakeStore) named() (n int) {
	for slot := range Slots {
		if v, err := decodeSlot(s.get(slotKey(slot)).value); err == nil && v.Lease != none {
			n++
		}
	}
	return n
}

// TestRest: while no tag is strict, a process writes about four times in five minutes, and nobody takes it for dead. When one is,
// all say at once that they have acted upon it, and that they renew often, and slots are taken. The owner dies as fast
// as ever. When none is any more, all slots are let go, and they rest again.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, book := newFakeStore(), new(ruleBook)
		a, b, c := join(t, s, "a", 1, book.read), join(t, s, "b", 1, book.read), join(t, s, "c", 1, book.read)
		rest := func(of int) {
			t.Helper()
			before := s.written()
			time.Sleep(30 * time.Minute)
			least, most := of*int(30*time.Minute/(restTime/3)), of*int(30*time.Minute/(restTime/6))
			if n := s.written() - before; n < least || n > most {
				t.Errorf("%d processes at rest write %d times in half an hour, want %d to %d", of, n, least, most)
			}
		}
		rest(3)
		if n := a.lost(); n > 0 || s.named() > 0 {
			t.Errorf("at rest %d leases were ended, and %d slots have owners", n, s.named())
		}
		a.Want(1) // asked for by somebody who knows more
		time.Sleep(10 * time.Second)
		if s.named() > 0 {
			t.Error("a slot was taken at rest")
		}
		book.set(true, a, b, c)
		until(t, 50*time.Millisecond, "all have woken up", func() bool {
			for _, m := range []*member{a, b, c} {
				if v := m.entry(t); v.rests() || v.Rules != 1 {
					return false
				}
			}
			return true
		})
		b.takes(t, everything()[:30]...)
		until(t, 2*term, "everybody has a share", func() bool {
			return a.answering() == 10 && b.answering() == 10 && c.answering() == 10
		})
		a.kill()
		until(t, term+time.Second, "the others answer", func() bool { return b.answering()+c.answering() == 30 })
		book.set(false, b, c)
		until(t, time.Second, "all slots are let go", func() bool { return s.named() == 0 && b.answering()+c.answering() == 0 })
		until(t, term, "they rest", func() bool { return b.entry(t).rests() && c.entry(t).rests() })
		rest(2)
		book.set(true, b, c)
		time.Sleep(10 * term)
		if s.named() > 0 {
			t.Error("slots that were let go have owners, and nobody has asked for them")
		}
		c.takes(t, 1, 2)
		until(t, time.Second, "both have one", func() bool { return b.answering() == 1 && c.answering() == 1 })
	})
}

// TestWantAtRest: a process that rests renews its lease first, and then takes a slot that is asked for.
func TestWantAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, book := newFakeStore(), new(ruleBook)
		a := join(t, s, "a", 1, book.read, func(_ *Config, l *link) {
			l.sent = func(key string) {
				if strings.HasPrefix(key, leasePrefix) {
					time.Sleep(100 * time.Millisecond)
				}
			}
		})
		for _, since := range []time.Duration{time.Second, 50 * time.Second} { // the lease is valid, or not any more
			book.set(false, a)
			until(t, 3*term, "it rests", func() bool { return a.entry(t).rests() })
			time.Sleep(since)
			s.mu.Lock()
			s.stored = func(r record) {
				if v, err := decodeSlot(r.value); err == nil && strings.HasPrefix(r.key, slotPrefix) && v.Lease != none {
					if held, err := decodeLease(s.latest(leaseKey(a.lease().Place)).value); err != nil || held.rests() {
						t.Error("a slot was taken at rest")
					}
				}
			}
			s.mu.Unlock()
			book.strict.Store(true) // and nobody says so
			a.Want(1)
			until(t, time.Second, "it answers", func() bool { return a.answers(1) })
		}
	})
}

// TestValidAtRest: however long the lease of a process that rests goes on, it answers no longer than another one.
func TestValidAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, book := newFakeStore(), new(ruleBook)
		var mu sync.Mutex
		var renewed time.Time
		a := join(t, s, "a", 1, book.read, func(_ *Config, l *link) {
			l.sent = func(string) {
				mu.Lock()
				defer mu.Unlock()
				renewed = time.Now()
			}
		})
		time.Sleep(restTime)
		a.Ownership.terms.begin(a.lease(), 7, 1) // as by an answer that was late
		a.RulesChanged()
		until(t, time.Second, "it answers", func() bool { return a.Valid(7, 1) })
		if !a.entry(t).rests() {
			t.Fatal("it does not rest")
		}
		until(t, 3*term, "it answers no more", func() bool { return !a.Valid(7, 1) })
		mu.Lock()
		last := renewed // it may have come by itself meanwhile
		mu.Unlock()
		if lasted := time.Since(last); lasted > validity(term)+2*time.Millisecond {
			t.Errorf("it answered for %v after its last renewal began, want %v", lasted, validity(term))
		}
	})
}

// TestSleepsOn: a process that learns late of a strict tag loses its lease meanwhile, and has another one.
func TestSleepsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, book, behind := newFakeStore(), new(ruleBook), new(ruleBook)
		a, b := join(t, s, "a", 1, book.read), join(t, s, "b", 1, behind.read)
		time.Sleep(restTime / 2)
		before := b.lease()
		book.set(true, a)
		a.takes(t, 1)
		until(t, (wakings+2)*term, "it has another lease", func() bool { return b.lease() != before })
		behind.set(true, b)
		before = b.lease()
		time.Sleep(10 * term)
		if b.lease() != before || !a.knows("a", "b") {
			t.Error("it is awake, and its lease was ended")
		}
	})
}

// TestOutageAtRest: no lease is ended for an outage of JetStream, however long, nor does whoever begins
// again take the others' silence for more than its own.
func TestOutageAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, book := newFakeStore(), new(ruleBook)
		all := []*member{join(t, s, "a", 1, book.read), join(t, s, "b", 1, book.read)}
		for _, strict := range []bool{false, true} {
			time.Sleep(restTime / 2)
			leases := []leaseID{all[0].lease(), all[1].lease()}
			for _, m := range all {
				m.link.cut()
			}
			time.Sleep(3 * restTime)
			book.set(strict, all...)
			for _, m := range all {
				m.link.restore()
				time.Sleep(term / 2)
			}
			time.Sleep(10 * term)
			for i, m := range all {
				if m.lease() != leases[i] || !m.knows("a", "b") {
					t.Errorf("%s has another lease after an outage; strict tags: %v", m.cfg.Instance, strict)
				}
			}
		}
	})
}

// TestActedAndRests: no entry says that its process has acted upon the rule that made a tag strict, and
// rests.
func TestActedAndRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, book := newFakeStore(), new(ruleBook)
		a := join(t, s, "a", 1, func(cfg *Config, _ *link) {
			cfg.Strict = book.strict.Load
			cfg.Rules = func() uint64 {
				if book.revision.Load() > 0 {
					book.strict.Store(true) // just before
				}
				return book.revision.Load()
			}
		})
		s.mu.Lock()
		s.stored = func(r record) {
			if v, err := decodeLease(r.value); err == nil && v.Rules > 0 && v.rests() {
				t.Errorf("%+v", v)
			}
		}
		s.mu.Unlock()
		book.revision.Store(1)
		a.RulesChanged()
		until(t, time.Second, "it has acted", func() bool { return a.entry(t).Rules == 1 })
	})
}

// TestRestsOnceLetGo: as long as the bucket names a process as an owner, because it cannot let its slots go,
// it does not rest: if it died then, that would be noticed late.
func TestRestsOnceLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, book := newFakeStore(), new(ruleBook)
		book.strict.Store(true)
		var stuck atomic.Bool
		a := join(t, s, "a", 1, book.read, func(_ *Config, l *link) {
			l.sent = func(key string) {
				if stuck.Load() && strings.HasPrefix(key, slotPrefix) {
					time.Sleep(term / 2)
				}
			}
		})
		a.takes(t, 1, 2, 3)
		until(t, time.Second, "it answers", func() bool { return a.answering() == 3 })
		stuck.Store(true)
		book.set(false, a)
		for range 10 * int(term/time.Millisecond) {
			if a.entry(t).rests() {
				t.Fatal("it rests, and owns slots")
			}
			time.Sleep(time.Millisecond)
		}
		stuck.Store(false)
		until(t, 2*term, "it rests", func() bool { return s.named() == 0 && a.entry(t).rests() })
	})
}
