package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// createAs adds a tag with a step of 10 and an order, or ends the test.
func createAs(t *testing.T, s Store, name string, next int64, order store.Order) {
	t.Helper()
	if err := s.CreateTag(patient(t), store.Tag{Name: name, Step: 10, Next: next, Order: order}); err != nil {
		t.Fatalf("CreateTag(%s) from %d on, %s: %v", name, next, order, err)
	}
}

// grantAs reserves an ID of a tag, whose grant must have the order.
func grantAs(t *testing.T, s Store, name string, order store.Order) Part {
	t.Helper()
	granted, err := Reserve(patient(t), s, name, 1)
	if err != nil || granted.Order != order {
		t.Errorf("Reserve(%s): %+v, %v, want the order %s", name, granted, err, order)
	}
	return granted
}

// refuseOrder checks that neither call creates a tag with the other order than
// it had.
func refuseOrder(t *testing.T, s Store, name string, was store.Order) {
	t.Helper()
	want := store.Strict
	if was == store.Strict {
		want = store.Trend
	}
	tag := store.Tag{Name: name, Step: 10, Next: 1 << 40, Order: want}
	_, first := ReserveFirst(patient(t), s, tag, 1)
	for call, err := range map[string]error{"CreateTag": s.CreateTag(patient(t), tag), "ReserveFirst": first} {
		var refused *store.OrderError
		if !errors.As(err, &refused) || *refused != (store.OrderError{Tag: name, Was: was, Want: want}) || !errors.Is(err, store.ErrBadTag) {
			t.Errorf("%s of %s, which was %s, as %s: %v, want ErrOrder", call, name, was, want, err)
		}
	}
}

// The order of a tag is in all grants and listings, whatever is done to the
// tag.
func testOrder(t *testing.T, open func() Store) {
	s, other := open(), open()
	createAs(t, s, "strict", 1, store.Strict)
	createAs(t, s, "trend", 1, store.Trend)
	create(t, s, "default", 10, 1)
	for name, order := range map[string]store.Order{"strict": store.Strict, "trend": store.Trend, "default": store.Trend} {
		look := func(why string) {
			t.Helper()
			for _, handle := range []Store{s, other, open()} {
				grantAs(t, handle, name, order)
				if tag, err := handle.Lookup(patient(t), name); err != nil || tag.Order != order {
					t.Errorf("Lookup of %s %s: %+v, %v, want the order %s", name, why, tag, err, order)
				}
			}
			if tag := tags(t, other)[name]; tag.Order != order {
				t.Errorf("%s is listed %s as %+v, want the order %s", name, why, tag, order)
			}
		}
		look("when created")
		if err := other.SetStep(patient(t), name, 20); err != nil {
			t.Errorf("SetStep: %v", err)
		}
		look("after SetStep")
		raise(t, other, name, 1000)
		look("after Raise")
		if err := other.CreateTag(patient(t), store.Tag{Name: name, Step: 1, Next: 1 << 40, Order: store.Strict}); !errors.Is(err, store.ErrTagExists) {
			t.Errorf("CreateTag of a tag that exists: %v, want ErrTagExists", err)
		}
		if _, err := ReserveFirst(patient(t), other, store.Tag{Name: name, Step: 1, Next: 1, Order: order}, 1); !errors.Is(err, store.ErrTagExists) {
			t.Errorf("ReserveFirst of a tag that exists: %v, want ErrTagExists", err)
		}
		look("after a second creator")
	}
}

func testOrderOfFirst(t *testing.T, open func() Store) {
	s := open()
	for _, order := range []store.Order{store.Strict, store.Trend} {
		name := "chat." + string(order)
		granted, err := ReserveFirst(patient(t), s, store.Tag{Name: name, Step: 10, Next: 1, Order: order}, 5)
		if err != nil || granted != (Part{store.Segment{First: 1, End: 6}, order}) {
			t.Errorf("ReserveFirst as %s: %+v, %v", order, granted, err)
		}
		grantAs(t, s, name, order)
		grantAs(t, open(), name, order)
	}
	if granted, err := ReserveFirst(patient(t), s, store.Tag{Name: "bad", Step: 1, Next: 1, Order: "none"}, 1); !errors.Is(err, store.ErrBadTag) {
		t.Errorf("ReserveFirst with an unknown order: %+v, %v, want ErrBadTag", granted, err)
	}
}

// A name keeps its order after the tag was removed.
func testOrderOfRemoved(t *testing.T, open func() Store) {
	s, other := open(), open()
	createAs(t, s, "strict", 1, store.Strict)
	createAs(t, s, "trend", 1, store.Trend)
	for name, order := range map[string]store.Order{"strict": store.Strict, "trend": store.Trend} {
		for round := range 2 {
			end := grantAs(t, s, name, order).End
			remove(t, other, name)
			_, removed, _, err := s.AllTags(patient(t))
			if want := (store.Tag{Name: name, Next: end, Order: order}); err != nil || len(removed) != 1 || removed[0] != want {
				t.Errorf("removed are %+v, %v, want %+v", removed, err, want)
			}
			refuseOrder(t, s, name, order)
			refuseOrder(t, open(), name, order)
			gone(t, s, name)
			if round == 0 {
				createAs(t, s, name, end, order)
			} else if granted, err := ReserveFirst(patient(t), s, store.Tag{Name: name, Step: 10, Next: 1, Order: order}, 1); err != nil || granted.Order != order || granted.First < end {
				t.Errorf("ReserveFirst of a removed tag: %+v, %v, want IDs from %d on, %s", granted, err, end, order)
			}
			grantAs(t, other, name, order)
		}
	}
}

// Several callers create a tag with different orders: a single order wins, and
// all grants have it.
func testOrderRace(t *testing.T, open func() Store) {
	const racers, rounds = 4, 10
	orders := []store.Order{store.Trend, store.Strict}
	all := handles(open, racers)
	for round := range rounds {
		name := fmt.Sprint("chat.", round)
		grants := make([]Part, racers)
		errs := race(all, func(i int, s Store) (err error) {
			tag := store.Tag{Name: name, Step: 10, Next: 1, Order: orders[i%2]}
			if i < racers/2 {
				return s.CreateTag(patient(t), tag)
			}
			grants[i], err = ReserveFirst(patient(t), s, tag, 10)
			return err
		})
		listed := tags(t, all[0])[name]
		for i, err := range errs {
			switch {
			case err == nil && orders[i%2] != listed.Order:
				t.Errorf("%s is listed as %s, and was created as %s", name, listed.Order, orders[i%2])
			case err != nil && !errors.Is(err, store.ErrTagExists) && !errors.Is(err, store.ErrOrder):
				t.Errorf("%s is created by %d: %v", name, i, err)
			}
			if grants[i].Valid() && err == nil && grants[i].Order != listed.Order {
				t.Errorf("%s is listed as %s, and %+v was granted", name, listed.Order, grants[i])
			}
			grantAs(t, all[i], name, listed.Order)
		}
	}
}

// A strict tag spends no number on what only a trend tag may have, and is not
// created for it.
func testTrendOnly(t *testing.T, open func() Store) {
	s, other := open(), open()
	only := store.Want{Step: 0, Waiting: 3, TrendOnly: 3, Most: 10}
	some := store.Want{Step: 0, Waiting: 3, TrendOnly: 2, Most: 10}
	createAs(t, other, "strict", 1, store.Strict)
	createAs(t, other, "trend", 1, store.Trend)
	for range 2 { // at first the entry is unknown to this handle
		if granted, err := s.Reserve(patient(t), "strict", []store.Want{some, only}); !errors.Is(err, store.ErrStrict) {
			t.Errorf("Reserve of a strict tag: %+v, %v, want ErrStrict", granted, err)
		}
	}
	if granted, err := s.ReserveFirst(patient(t), store.Tag{Name: "new", Step: 10, Next: 1, Order: store.Strict}, []store.Want{only}); !errors.Is(err, store.ErrStrict) {
		t.Errorf("ReserveFirst of a strict tag: %+v, %v, want ErrStrict", granted, err)
	}
	if _, exists := tags(t, other)["new"]; exists {
		t.Error("a refused reservation created the tag")
	}
	for tag, want := range map[string]store.Segment{"strict": {First: 1, End: 2}, "trend": {First: 1, End: 11}} {
		granted, err := s.Reserve(patient(t), tag, []store.Want{some})
		if err != nil || granted.Parts[0] != want {
			t.Errorf("Reserve(%s): %+v, %v, want %v", tag, granted, err, want)
		}
	}
}

func testLookup(t *testing.T, open func() Store) {
	s := open()
	for _, name := range []string{"missing", "order"} {
		if tag, err := s.Lookup(patient(t), name); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("Lookup of a missing tag: %+v, %v, want ErrNoTag", tag, err)
		}
	}
	for _, name := range []string{"", "*", "a b", "order."} {
		if tag, err := s.Lookup(patient(t), name); !errors.Is(err, store.ErrBadTag) || !errors.Is(err, messages.ErrTag) {
			t.Errorf("Lookup of %q: %+v, %v, want ErrBadTag", name, tag, err)
		}
	}
	found := func(s Store, step int64, order store.Order) {
		t.Helper()
		if tag, err := s.Lookup(patient(t), "order"); err != nil || tag != (store.Tag{Name: "order", Step: step, Order: order}) {
			t.Errorf("Lookup: %+v, %v, want a step of %d, %s", tag, err, step, order)
		}
	}
	createAs(t, open(), "order", 5, store.Strict)
	found(s, 10, store.Strict)
	grantAs(t, s, "order", store.Strict)
	found(s, 10, store.Strict)
	if err := s.SetStep(patient(t), "order", 20); err != nil {
		t.Errorf("SetStep: %v", err)
	}
	found(s, 20, store.Strict)
	remove(t, s, "order")
	gone(t, s, "order")
}
