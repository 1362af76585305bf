// Package storetest is the contract that every store backend keeps. A backend
// runs it against the real thing, with a dozen lines in a test of its own:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) func() storetest.Store {
//			table := newTable(t) // empty, and gone when t ends
//			return func() storetest.Store { return open(t, table) }
//		})
//	}
//
// Each file is named after the property it checks. Every range that a test gets
// is recorded in a ledger and compared with all others of its tag.
package storetest

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/order"
)

// Store is what the contract is about: the methods of register.Register, whose
// comments state it. The tests of the register wrap some of them.
type Store interface {
	store.Reserver
	Lookup(ctx context.Context, tag string) (store.Tag, error)
	AllTags(ctx context.Context) (tags, removed, others []store.Tag, err error)
	CreateTag(ctx context.Context, tag store.Tag) error
	SetStep(ctx context.Context, tag string, step int64) error
	Raise(ctx context.Context, tag string, next int64) error
	RemoveTag(ctx context.Context, tag string) error
}

// Opener makes room for a test: empty data, which it removes when t ends, and
// a function that opens another handle onto that data, like another process.
// The test may close a handle that is an io.Closer before t ends. Open is
// called from the test's own goroutine only, so it may fail the test.
type Opener func(t *testing.T) (open func() Store)

// Run checks everything that a Store promises. Stores that remember removed
// tags run [RunRemembers] too.
func Run(t *testing.T, backend Opener) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, open func() Store)
	}{
		{"CreateAndList", testCreateAndList},
		{"CreateRefusesAnExistingTag", testCreateExisting},
		{"CreateRefusesABadTag", testCreateBad},
		{"CreateRaceHasOneWinner", testCreateRace},
		{"SetStep", testSetStep},
		{"SetStepErrors", testSetStepErrors},
		{"TagNames", testTagNames},

		{"ReserveInSequence", testReserveSequence},
		{"ReserveErrors", testReserveErrors},
		{"ReserveAtRandomSteps", testReserveRandom},
		{"ReserveConcurrently", testReserveConcurrent},
		{"BeginConcurrently", testBeginConcurrent},
		{"ReserveAgainstSetStep", testReserveAgainstSetStep},

		{"Wants", testWants},
		{"LastWants", testLastWants},

		{"ReserveFirst", testReserveFirst},
		{"ReserveFirstRaceHasOneWinner", testReserveFirstRace},

		{"Order", testOrder},
		{"OrderOfFirst", testOrderOfFirst},
		{"OrderOfRemovedTag", testOrderOfRemoved},
		{"OrderRaceHasOneWinner", testOrderRace},
		{"TrendOnly", testTrendOnly},
		{"Lookup", testLookup},

		{"Raise", testRaise},
		{"RaiseErrors", testRaiseErrors},
		{"RaiseToTheEnd", testRaiseToTheEnd},
		{"RaiseAgainstReserve", testRaiseAgainstReserve},
		{"Remove", testRemove},
		{"RemoveAgainstReserve", testRemoveAgainstReserve},

		{"Exhaustion", testExhaustion},
		{"ExhaustionConcurrently", testExhaustionConcurrent},
		{"CancelledContext", testCancelled},
		{"CancelledInFlightIsBurnt", testCancelledInFlight},
		{"Reopen", testReopen},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, backend(t)) })
	}
}

// patient returns a context with a deadline that only a hang reaches. Without a
// deadline, clients apply timeouts of their own, which a slow machine exceeds.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// create adds a tag or ends the test.
func create(t *testing.T, s Store, name string, step, next int64) {
	t.Helper()
	if err := s.CreateTag(patient(t), store.Tag{Name: name, Step: step, Next: next}); err != nil {
		t.Fatalf("CreateTag(%s): %v", name, err)
	}
}

// Part is the part of a reservation for a single want, with the order of its
// tag.
type Part struct {
	store.Segment
	Order store.Order
}

// Reserve reserves n IDs of a tag, whatever its order and step.
func Reserve(ctx context.Context, s store.Reserver, tag string, n int64) (Part, error) {
	return part(s.Reserve(ctx, tag, []store.Want{{Step: n, Waiting: n, Most: n}}))
}

// ReserveFirst makes a tag with its first n IDs.
func ReserveFirst(ctx context.Context, s store.Reserver, tag store.Tag, n int64) (Part, error) {
	return part(s.ReserveFirst(ctx, tag, []store.Want{{Step: n, Waiting: n, Most: n}}))
}

func part(granted store.Reservation, err error) (Part, error) {
	if err != nil {
		return Part{}, err
	}
	return Part{granted.Parts[0], granted.Order}, nil
}

// reserve takes a segment or ends the test.
func reserve(t *testing.T, s Store, name string, step int64) store.Segment {
	t.Helper()
	seg, err := Reserve(patient(t), s, name, step)
	if err != nil {
		t.Fatalf("Reserve(%s, %d): %v", name, step, err)
	}
	return seg.Segment
}

// tags lists the tags by name; a name that is listed twice ends the test.
func tags(t *testing.T, s Store) map[string]store.Tag {
	t.Helper()
	list, _, _, err := s.AllTags(patient(t))
	if err != nil {
		t.Fatalf("AllTags: %v", err)
	}
	byName := make(map[string]store.Tag, len(list))
	for _, tag := range list {
		if _, twice := byName[tag.Name]; twice {
			t.Fatalf("AllTags lists %s twice", tag.Name)
		}
		byName[tag.Name] = tag
	}
	return byName
}

// expect checks a tag's stored row.
func expect(t *testing.T, s Store, name string, step, next int64) {
	t.Helper()
	want := store.Tag{Name: name, Step: step, Next: next, Order: store.Trend}
	if got := tags(t, s)[name]; got != want {
		t.Errorf("stored is %+v, want %+v", got, want)
	}
}

// shut closes a handle, if the backend's handles can be closed.
func shut(t *testing.T, s Store) {
	t.Helper()
	if c, ok := s.(io.Closer); ok {
		if err := c.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
}

// handles opens handles, like processes.
func handles(open func() Store, n int) (all []Store) {
	for range n {
		all = append(all, open())
	}
	return all
}

// race has each handle make a call at the same time, and returns their errors.
func race(handles []Store, call func(i int, s Store) error) []error {
	errs := make([]error, len(handles))
	var wg sync.WaitGroup
	for i, s := range handles {
		wg.Go(func() { errs[i] = call(i, s) })
	}
	wg.Wait()
	return errs
}

// winner is the only call that created a tag.
func winner(t *testing.T, errs []error) int {
	t.Helper()
	won := slices.Index(errs, nil)
	for i, err := range errs {
		if i != won && !errors.Is(err, store.ErrTagExists) {
			t.Errorf("CreateTag by %d: %v, want ErrTagExists", i, err)
		}
	}
	if won < 0 {
		t.Fatalf("nobody created it: %v", errs)
	}
	return won
}

// take reserves n IDs and records them, and reports whether that succeeded.
func take(t *testing.T, s Store, ledger *order.Ledger, name string, n int64) (store.Segment, bool) {
	seg, err := Reserve(patient(t), s, name, n)
	if err != nil {
		t.Errorf("Reserve(%s, %d): %v", name, n, err)
		return store.Segment{}, false
	}
	ledger.AddSegment(name, n, seg.Segment)
	return seg.Segment, true
}
