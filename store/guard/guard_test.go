package guard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/guard"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

// counter is a store with one tag, which can be set to anything.
type counter struct {
	store.Store
	next   int64
	raised []int64
	after  func() // after a reservation
	fixed  bool   // cannot be raised
}

func (c *counter) Reserve(_ context.Context, _ string, step int64) (store.Segment, error) {
	seg := store.Segment{First: c.next, End: c.next + step}
	c.next += step
	if c.after != nil {
		c.after()
	}
	return seg, nil
}

func (c *counter) Raise(_ context.Context, _ string, next int64) error {
	c.raised = append(c.raised, next)
	if !c.fixed {
		c.next = max(c.next, next)
	}
	return nil
}

func observed(inner store.Store) (*guard.Guard, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	return guard.New(inner, "test", zap.New(core)), logs
}

func expect(t *testing.T, s store.Store, first int64) {
	t.Helper()
	seg, err := s.Reserve(t.Context(), "order", 10)
	if err != nil || seg != (store.Segment{First: first, End: first + 10}) {
		t.Fatalf("Reserve: %v, %v, want ten from %d on", seg, err, first)
	}
}

// What this loader reserved, and what workers say, is not granted again by a store that goes
// back. It is raised each time, and one line says so.
func TestStoreThatWentBack(t *testing.T) {
	inner := &counter{next: 1}
	g, logs := observed(inner)
	expect(t, g, 1)
	inner.next = 1
	expect(t, g, 11)
	g.Learn("order", 1000)
	g.Learn("order", 500)
	expect(t, g, 1000)
	inner.next = 1
	expect(t, g, 1010)
	if n := logs.FilterMessageSnippet("the store went back").Len(); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
	if f := g.Figures(); f.Store != 3 {
		t.Errorf("it went back %d times, want 3", f.Store)
	}
	if want := []int64{11, 1000, 1010}; len(inner.raised) != 3 || inner.raised[0] != want[0] || inner.raised[1] != want[1] || inner.raised[2] != want[2] {
		t.Errorf("raised to %v, want %v", inner.raised, want)
	}
}

// A range below what was learned only while the store was asked proves nothing. It is burnt.
func TestLearnedMeanwhile(t *testing.T) {
	inner := &counter{next: 1}
	g, logs := observed(inner)
	inner.after = func() {
		inner.after = nil
		g.Learn("order", 8)
	}
	expect(t, g, 11)
	if f := g.Figures(); f.Store != 0 || len(inner.raised) != 0 || logs.Len() != 0 {
		t.Errorf("figures %+v, raised %v, log %v, want nothing", f, inner.raised, logs.All())
	}
}

// A store that cannot be raised grants nothing.
func TestStoreThatCannotBeRaised(t *testing.T) {
	inner := &counter{next: 1, fixed: true}
	g, _ := observed(inner)
	g.Learn("order", 1_000_000)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if seg, err := g.Reserve(ctx, "order", 10); err == nil {
		t.Errorf("%v was granted", seg)
	}
}

// missing is a store without tags.
type missing struct{ counter }

func (m *missing) Raise(context.Context, string, int64) error { return store.ErrNoTag }

func (m *missing) CreateTag(context.Context, store.Tag) error { return nil }

// A tag is not created below what it is known to have handed out.
func TestCreateTagBelow(t *testing.T) {
	g, _ := observed(new(missing))
	g.Learn("order", 100)
	var below *store.BelowError
	if err := g.CreateTag(t.Context(), store.Tag{Name: "order", Step: 1, Next: 99}); !errors.As(err, &below) || below.Floor != 100 {
		t.Errorf("CreateTag: %v, want that it must begin at 100", err)
	}
	if err := g.CreateTag(t.Context(), store.Tag{Name: "order", Step: 1, Next: 100}); err != nil {
		t.Error(err)
	}
}
