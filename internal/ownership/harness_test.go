package ownership

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

// member is a process that takes part, in a bubble.
type member struct {
	*Ownership
	link *link

	mu    sync.Mutex
	terms map[int]uint64 // by what Began and Ended said
	wrong []string
}

// join starts a member with a clock of that rate. It stops with the test, if not before.
func join(t *testing.T, s *fakeStore, name string, rate float64, opts ...func(*Config, *link)) *member {
	t.Helper()
	m := &member{link: newLink(s, uint64(len(name))), terms: make(map[int]uint64)}
	cfg := Config{Instance: name, Began: m.began, Ended: m.ended, Log: zap.NewNop()}
	if testing.Verbose() {
		cfg.Log = zaptest.NewLogger(t).Named(name)
	}
	for _, opt := range opts {
		opt(&cfg, m.link)
	}
	start := time.Now()
	m.Ownership = newOwnership(cfg, m.link, func() int64 { return int64(rate * float64(time.Since(start))) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	t.Cleanup(func() {
		m.link.restore()
		m.quit(t)
	})
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *member) began(slot int, epoch uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.terms[slot]; have != 0 || m.Valid(slot, epoch) {
		m.wrong = append(m.wrong, fmt.Sprintf("slot %d began epoch %d in epoch %d", slot, epoch, have))
	}
	m.terms[slot] = epoch
}

func (m *member) ended(slot int, epoch uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.terms[slot] != epoch || m.Valid(slot, epoch) {
		m.wrong = append(m.wrong, fmt.Sprintf("slot %d ended epoch %d in epoch %d", slot, epoch, m.terms[slot]))
	}
	delete(m.terms, slot)
}

// leave stops a member, and checks that all its terms have ended.
func (m *member) quit(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := m.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.terms) > 0 {
		t.Errorf("%s: after Stop, terms of %d slots go on", m.cfg.Instance, len(m.terms))
	}
	for _, w := range m.wrong {
		t.Errorf("%s: %s", m.cfg.Instance, w)
	}
}

// kill ends a member without a last write. Valid goes on as it was, as in a process that is paused.
func (m *member) kill() {
	m.link.cut()
	m.cancel()
	m.all.Wait()
}

// answers reports whether a member may answer for a slot.
func (m *member) answers(slot int) bool {
	epoch, ok := m.Term(slot)
	return ok && m.Valid(slot, epoch)
}

// until waits in steps of a millisecond, and fails the test after limit.
func until(t *testing.T, limit time.Duration, what string, cond func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !cond() {
		if time.Since(began) > limit {
			t.Fatalf("after %v still waiting for: %s", limit, what)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

// take has a member own slots.
func (m *member) takes(t *testing.T, slots ...int) {
	t.Helper()
	for _, slot := range slots {
		m.Want(slot)
	}
	until(t, 10*time.Second, "slots are taken", func() bool {
		for _, slot := range slots {
			if _, known := m.Owner(slot); !known {
				return false
			}
		}
		return true
	})
}

// lease is the one that a member has, or had last.
func (m *member) lease() leaseID {
	m.Ownership.mu.Lock()
	defer m.Ownership.mu.Unlock()
	return m.former
}

// knows reports whether these are the living, according to a member.
func (m *member) knows(instances ...string) bool {
	alive := 0
	for _, l := range m.Leases() {
		if !l.Lost {
			if alive++; !slices.Contains(instances, l.Instance) {
				return false
			}
		}
	}
	return alive == len(instances)
}
