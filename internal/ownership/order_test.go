package ownership

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/testing/tier"
)

// The slots of the trial, and how long it goes on.
const (
	trialSlots   = 3
	trialLasts   = 20 * term
	trialMembers = 3
)

// trial has processes answer requests while everything goes wrong that can, and checks each reply:
// an ID is above all those of its slot that were received before its request was sent.
type trial struct {
	t     *testing.T
	rnd   *rand.Rand
	store *fakeStore

	mu       sync.Mutex
	members  []*server
	killed   []*server
	next     [trialSlots]int64 // of the store of IDs
	top      [trialSlots]int64
	answered int
	wrong    []string
	all      sync.WaitGroup
}

// server is a member with buffers. It forgets them as it has to.
type server struct {
	*member
	book    ruleBook
	mu      sync.Mutex
	buffers [trialSlots]struct {
		epoch     uint64
		next, end int64
	}
}

// drop drops the buffer of a slot when a term begins or ends.
func (s *server) drop(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buffers[slot].next = s.buffers[slot].end
}

func (tr *trial) start(name string) *server {
	s := &server{}
	rate := 0.92 + 0.16*tr.rnd.Float64() // within what the margin is for
	seed := tr.rnd.Uint64()
	s.book.strict.Store(tr.rnd.IntN(4) > 0)
	s.member = join(tr.t, tr.store, name, rate, s.book.read, func(cfg *Config, l *link) {
		l.rnd = rand.New(rand.NewPCG(seed, 2))
		began, ended := cfg.Began, cfg.Ended
		cfg.Began = func(slot int, epoch uint64) { began(slot, epoch); s.drop(slot) }
		cfg.Ended = func(slot int, epoch uint64) { ended(slot, epoch); s.drop(slot) }
	})
	return s
}

// request asks a process for an ID, as if it had been sent just now.
func (tr *trial) request(s *server, slot int, pauses ...time.Duration) {
	tr.mu.Lock()
	floor := tr.top[slot]
	tr.mu.Unlock()
	epoch, ok := s.Term(slot)
	if !ok {
		s.Want(slot)
		return
	}
	time.Sleep(pauses[0])
	id, ok := tr.takeID(s, slot, epoch, pauses[1])
	if !ok {
		return
	}
	time.Sleep(pauses[2])
	if !s.Valid(slot, epoch) {
		return // burnt
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.answered++
	if id <= floor {
		tr.wrong = append(tr.wrong, fmt.Sprintf("%s answered %d for slot %d in epoch %d after %d was received", s.cfg.Instance, id, slot, epoch, floor))
	}
	tr.top[slot] = max(tr.top[slot], id)
}

// takeID takes an ID from the buffer, or from a range that is asked for now and comes later.
func (tr *trial) takeID(s *server, slot int, epoch uint64, comes time.Duration) (int64, bool) {
	s.mu.Lock()
	b := &s.buffers[slot]
	if b.next < b.end && b.epoch == epoch {
		defer s.mu.Unlock()
		b.next++
		return b.next - 1, true
	}
	s.mu.Unlock()
	tr.mu.Lock()
	first := tr.next[slot] + 1
	tr.next[slot] += 20 // 0 is nothing
	tr.mu.Unlock()
	time.Sleep(comes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.Term(slot); !ok || now != epoch || first < b.end {
		return 0, false // asked for in an earlier term, or below what is known
	}
	b.epoch, b.next, b.end = epoch, first+1, first+20
	return first, true
}

// pauses are how long a request takes between its steps: mostly not long.
func (tr *trial) pause() time.Duration {
	if tr.rnd.IntN(20) == 0 {
		return time.Duration(tr.rnd.Int64N(int64(2 * term)))
	}
	return time.Duration(tr.rnd.Int64N(int64(2 * time.Millisecond)))
}

// disturb does something to one of the members.
func (tr *trial) disturb(n int) {
	i := tr.rnd.IntN(len(tr.members))
	m := tr.members[i]
	m.link.setFaults(faults{
		delay:      time.Duration(tr.rnd.Int64N(int64(40 * time.Millisecond))),
		loseAnswer: tr.rnd.Float64() / 8,
		late:       tr.rnd.Float64() / 16,
		lateBy:     2 * term,
		oldRead:    tr.rnd.Float64() / 2,
	})
	if tr.rnd.IntN(3) == 0 { // it learns that there are strict tags, or are none any more; requests come all the same
		m.book.set(tr.rnd.IntN(4) > 0, m.member)
	}
	switch tr.rnd.IntN(6) {
	case 0:
		m.link.cut()
	case 1, 2, 3:
		for _, m := range tr.members {
			m.link.restore()
		}
	case 4:
		m.HandOver(tr.rnd.IntN(trialSlots))
	case 5:
		if tr.rnd.IntN(3) == 0 {
			m.kill() // requests that it has already go on for as long as they take
			tr.killed = append(tr.killed, m)
			tr.members[i] = tr.start(fmt.Sprintf("m%d", n))
		}
	}
}

func (tr *trial) run() {
	for n := range trialMembers {
		tr.members = append(tr.members, tr.start(fmt.Sprintf("first%d", n)))
	}
	stop := time.Now().Add(trialLasts)
	for n := 0; time.Now().Before(stop); n++ {
		if n%100 == 0 {
			tr.disturb(n)
		}
		all := append(tr.members[:trialMembers:trialMembers], tr.killed...)
		s, slot := all[tr.rnd.IntN(len(all))], tr.rnd.IntN(trialSlots)
		a, b, c := tr.pause(), tr.pause(), tr.pause()
		tr.all.Go(func() { tr.request(s, slot, a, b, c) })
		time.Sleep(time.Duration(tr.rnd.Int64N(int64(6 * time.Millisecond))))
	}
	tr.all.Wait()
	for _, m := range append(tr.members, tr.killed...) {
		m.link.restore()
		m.quit(tr.t)
	}
	for _, w := range tr.wrong {
		tr.t.Error(w)
	}
}

// TestOrder: no reply is too low, whatever happens to the processes and their links, with clocks
// that differ by as much as the margin is for.
func TestOrder(t *testing.T) {
	answered := 0
	for seed := range tier.Pick(4, 2000) {
		synctest.Test(t, func(t *testing.T) {
			tr := &trial{t: t, rnd: rand.New(rand.NewPCG(uint64(seed), 0)), store: newFakeStore()}
			tr.run()
			answered += tr.answered
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
	t.Logf("%d requests were answered", answered)
}
