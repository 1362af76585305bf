package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

func testCreateAndList(t *testing.T, open func() Store) {
	s, other := open(), open()
	if n := len(tags(t, s)); n != 0 {
		t.Fatalf("new store lists %d tags", n)
	}
	const n = 20
	for i := range int64(n) {
		create(t, s, fmt.Sprintf("tag%d", i), i+1, 100*i+1)
	}
	listed := tags(t, other)
	if len(listed) != n {
		t.Errorf("listed %d tags, want %d", len(listed), n)
	}
	for i := range int64(n) {
		want := store.Tag{Name: fmt.Sprintf("tag%d", i), Step: i + 1, Next: 100*i + 1, Order: store.Trend}
		if listed[want.Name] != want {
			t.Errorf("listed %+v, want %+v", listed[want.Name], want)
		}
	}
}

func testCreateExisting(t *testing.T, open func() Store) {
	s, other := open(), open()
	create(t, s, "order", 10, 1)
	reserve(t, s, "order", 10)
	for _, again := range []store.Tag{{Name: "order", Step: 10, Next: 1}, {Name: "order", Step: 99, Next: 5000}} {
		if err := other.CreateTag(patient(t), again); !errors.Is(err, store.ErrTagExists) {
			t.Errorf("CreateTag(%+v): %v, want ErrTagExists", again, err)
		}
	}
	expect(t, s, "order", 10, 11)
}

func testCreateBad(t *testing.T, open func() Store) {
	s := open()
	for _, tag := range []store.Tag{
		{Name: "order", Step: 0, Next: 1},
		{Name: "order", Step: -1, Next: 1},
		{Name: "order", Step: 1, Next: 0},
		{Name: "order", Step: 1, Next: -1},
		{Name: "order", Step: 1, Next: 1, Order: "Strict"},
	} {
		if err := s.CreateTag(patient(t), tag); !errors.Is(err, store.ErrBadTag) {
			t.Errorf("CreateTag(%+v): %v, want ErrBadTag", tag, err)
		}
	}
	if n := len(tags(t, s)); n != 0 {
		t.Errorf("%d tags were created", n)
	}
}

// A tag that two administrators create at once must not be set back by the
// second.
func testCreateRace(t *testing.T, open func() Store) {
	all := handles(open, 4)
	for round := range 10 {
		name := fmt.Sprintf("race%d", round)
		won := winner(t, race(all, func(i int, s Store) error {
			return s.CreateTag(patient(t), store.Tag{Name: name, Step: 1, Next: int64(i + 1)})
		}))
		expect(t, all[0], name, 1, int64(won+1))
	}
}

func testSetStep(t *testing.T, open func() Store) {
	s, other := open(), open()
	create(t, s, "order", 10, 1)
	reserve(t, s, "order", 10)
	if err := other.SetStep(patient(t), "order", 2000); err != nil {
		t.Fatalf("SetStep: %v", err)
	}
	expect(t, s, "order", 2000, 11)
	if seg := reserve(t, s, "order", 5); seg != (store.Segment{First: 11, End: 16}) {
		t.Errorf("after SetStep got %v, want [11, 16)", seg)
	}
	if err := other.SetStep(patient(t), "order", 2000); err != nil {
		t.Errorf("SetStep to the same step: %v", err)
	}
	expect(t, s, "order", 2000, 16)
}

func testSetStepErrors(t *testing.T, open func() Store) {
	s := open()
	create(t, s, "order", 10, 1)
	for _, step := range []int64{0, -1} {
		if err := s.SetStep(patient(t), "order", step); !errors.Is(err, store.ErrBadTag) {
			t.Errorf("SetStep to %d: %v, want ErrBadTag", step, err)
		}
	}
	if err := s.SetStep(patient(t), "missing", 10); !errors.Is(err, store.ErrNoTag) {
		t.Errorf("SetStep of a missing tag: %v, want ErrNoTag", err)
	}
	expect(t, s, "order", 10, 1)
	if n := len(tags(t, s)); n != 1 {
		t.Errorf("SetStep left %d tags, want 1", n)
	}
}

// Every name that the wire contract allows is a tag of its own.
func testTagNames(t *testing.T, open func() Store) {
	s := open()
	names := []string{
		"order", "Order", "ORDER", "order.eu", "order.eu.de", "order-eu", "order_eu", "order1", "_", "-", "1", "0.0",
		strings.Repeat("x", messages.MaxTagLen),
		strings.Repeat("x", messages.MaxTagLen-1) + "y",
		strings.Repeat("a.", messages.MaxTagLen/2-1) + "ab",
	}
	for i, name := range names {
		create(t, s, name, 1, int64(1000*i+1))
	}
	for i, name := range names {
		first := int64(1000*i + 1)
		if seg := reserve(t, s, name, 7); seg != (store.Segment{First: first, End: first + 7}) {
			t.Errorf("%s: got %v, want 7 IDs from %d", name, seg, first)
		}
	}
	listed := tags(t, s)
	for i, name := range names {
		want := store.Tag{Name: name, Step: 1, Next: int64(1000*i + 8), Order: store.Trend}
		if listed[name] != want {
			t.Errorf("listed %+v, want %+v", listed[name], want)
		}
	}
	if len(listed) != len(names) {
		t.Errorf("listed %d tags, want %d", len(listed), len(names))
	}
}
