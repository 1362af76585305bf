package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register/internal/guard"
	"github.com/idworker/idworker/testing/storetest"
	"github.com/idworker/idworker/testing/tier"
)

// TestOrderIsForEver: processes create and remove a tag with either order, and
// messages are lost. All grants have one order, that of the successful
// creators.
func TestOrderIsForEver(t *testing.T) {
	t.Parallel()
	for seed := range tier.Seeds(30, 2000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed, int(seed%3))
				for _, table := range w.tables {
					clear(table.rows)
					table.loss = 0.1
				}
				if len(w.tables) > 1 { // two loaders, a common table
					w.tables = w.tables[:1]
				}
				w.server.loss = 0.05
				var mu sync.Mutex
				orders := make(map[string]store.Order)
				has := func(why, tag string, order store.Order) {
					mu.Lock()
					defer mu.Unlock()
					if was, ok := orders[tag]; ok && was != order {
						t.Errorf("seed %d: %s %s is %s, and was %s", seed, why, tag, order, was)
					}
					orders[tag] = order
				}
				names := func(random *rand.Rand) string { return fmt.Sprint("chat.", random.IntN(10)) }
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var group sync.WaitGroup
				for n := range 2 {
					s := w.loader(n)
					group.Go(func() { s.Run(ctx, nil) })
					for g := range 3 {
						random := rand.New(rand.NewPCG(seed, uint64(10*n+g)))
						group.Go(func() {
							for ctx.Err() == nil {
								act(ctx, w, s, names(random), random, has)
							}
						})
					}
				}
				group.Wait()
				w.granted.Check(t)
				if w.granted.Len() == 0 || len(orders) < 5 {
					t.Errorf("%d grants of %d tags show nothing", w.granted.Len(), len(orders))
				}
			})
		})
	}
}

// act changes a tag, within a time that may be too short.
func act(ctx context.Context, w *world, s *Register, name string, random *rand.Rand, has func(why, tag string, order store.Order)) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(random.Int64N(int64(500*time.Millisecond))))
	defer cancel()
	order := []store.Order{store.Trend, store.Strict}[random.IntN(2)]
	tag := store.Tag{Name: name, Step: 10, Next: 1, Order: order}
	switch random.IntN(10) {
	case 0:
		_ = s.RemoveTag(ctx, name)
	case 1:
		err := s.CreateTag(ctx, tag)
		if below := new(store.BelowError); errors.As(err, &below) {
			tag.Next = below.Floor
			err = s.CreateTag(ctx, tag)
		}
		if err == nil {
			has("created", name, order)
		}
	case 2, 3:
		if granted, err := storetest.ReserveFirst(ctx, s, tag, 10); err == nil {
			w.granted.AddSegment(name, 10, granted.Segment)
			has("first granted", name, granted.Order)
			has("created", name, order)
		}
	case 4:
		_ = s.Raise(ctx, name, 1+random.Int64N(1000))
	default:
		if granted, err := storetest.Reserve(ctx, s, name, 10); err == nil {
			w.granted.AddSegment(name, 10, granted.Segment)
			has("granted", name, granted.Order)
		}
	}
	<-time.After(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
}

// tabledWorld has a table whose rows do not regress, and loses nothing.
func tabledWorld(t *testing.T) (w *world, table *fakeTable) {
	w = newWorld(t, 1, 1)
	w.server.loss, w.tables[0].back = 0, 0
	return w, w.tables[0]
}

var strictTag = store.Tag{Name: "strict", Step: 10, Next: 1, Order: store.Strict}

// TestMissingRow: a tag whose row is missing, though it was not removed, is
// neither served nor recreated automatically. Inserting the row again helps,
// and so does removing the tag.
func TestMissingRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, table := tabledWorld(t)
		s := w.loader(0)
		if err := s.CreateTag(t.Context(), strictTag); err != nil {
			t.Fatal(err)
		}
		granted, err := storetest.Reserve(t.Context(), s, "strict", 10)
		if err != nil {
			t.Fatal(err)
		}
		lose := func() {
			t.Helper()
			delete(table.rows, "strict")
			for _, s := range []*Register{s, w.loader(0)} {
				_, reserved := storetest.Reserve(t.Context(), s, "strict", 10)
				_, first := storetest.ReserveFirst(t.Context(), s, strictTag, 10)
				_, found := s.Lookup(t.Context(), "strict")
				for call, err := range map[string]error{
					"Reserve": reserved, "ReserveFirst": first, "Lookup": found,
					"Raise": s.Raise(t.Context(), "strict", 1),
				} {
					if !errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNoTag) {
						t.Errorf("%s without the row: %v, want ErrCorrupt", call, err)
					}
				}
			}
		}
		again := func(why string) {
			t.Helper()
			had := granted
			granted, err = storetest.Reserve(t.Context(), w.loader(0), "strict", 10)
			if err != nil || granted.First < had.End || granted.Order != store.Strict {
				t.Errorf("%s: %+v, %v, want IDs from %d on", why, granted, err, had.End)
			}
		}

		lose()
		table.rows["strict"] = 1
		again("inserted")

		lose()
		tag := strictTag
		tag.Order = store.Trend
		if err := s.CreateTag(t.Context(), tag); !errors.Is(err, store.ErrOrder) {
			t.Errorf("created with the other order: %v", err)
		}
		var below *store.BelowError
		if err := s.CreateTag(t.Context(), strictTag); !errors.As(err, &below) || below.Floor != granted.End {
			t.Errorf("created at 1: %v", err)
		}
		tag = strictTag
		tag.Next = granted.End
		if err := s.CreateTag(t.Context(), tag); err != nil {
			t.Errorf("created again: %v", err)
		}
		again("created")

		lose()
		if err := s.RemoveTag(t.Context(), "strict"); err != nil {
			t.Errorf("removed: %v", err)
		}
		for call, err := range map[string]error{
			"RemoveTag": s.RemoveTag(t.Context(), "strict"),
			"Raise":     s.Raise(t.Context(), "strict", 1),
		} {
			if !errors.Is(err, store.ErrNoTag) {
				t.Errorf("%s of a removed tag: %v, want ErrNoTag", call, err)
			}
		}
		if granted, err := storetest.ReserveFirst(t.Context(), s, strictTag, 10); err != nil || granted.First < tag.Next || granted.Order != store.Strict {
			t.Errorf("made again: %+v, %v", granted, err)
		}
		lose()
	})
}

// TestCreatorStops: a creator that stops before it inserts the row leaves no
// tag, but the order of the name. A creator that stops after that leaves a tag
// with that order.
func TestCreatorStops(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(context.Context, *Register) error{
		"CreateTag": func(ctx context.Context, s *Register) error { return s.CreateTag(ctx, strictTag) },
		"ReserveFirst": func(ctx context.Context, s *Register) error {
			_, err := storetest.ReserveFirst(ctx, s, strictTag, 10)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, table := tabledWorld(t)
				s := w.loader(0)
				table.loss = 1
				if err := create(t.Context(), s); !errors.Is(err, errLost) {
					t.Fatalf("created: %v", err)
				}
				table.loss = 0
				for _, s := range []*Register{s, w.loader(0)} {
					_, reserved := storetest.Reserve(t.Context(), s, "strict", 10)
					_, found := s.Lookup(t.Context(), "strict")
					if !errors.Is(reserved, store.ErrNoTag) || !errors.Is(found, store.ErrNoTag) {
						t.Errorf("without the row: Reserve %v, Lookup %v, want ErrNoTag", reserved, found)
					}
				}
				if _, err := storetest.ReserveFirst(t.Context(), s, store.Tag{Name: "strict", Step: 10, Next: 1}, 10); !errors.Is(err, store.ErrOrder) {
					t.Errorf("made with the other order: %v, want ErrOrder", err)
				}
				table.rows["strict"] = 1
				for _, s := range []*Register{s, w.loader(0)} {
					if granted, err := storetest.Reserve(t.Context(), s, "strict", 10); err != nil || granted.Order != store.Strict {
						t.Errorf("with the row: %+v, %v, want it strict", granted, err)
					}
				}
				delete(table.rows, "strict")
				if granted, err := storetest.ReserveFirst(t.Context(), s, strictTag, 10); err != nil || granted.First < 21 || granted.Order != store.Strict {
					t.Errorf("made again: %+v, %v", granted, err)
				}
			})
		})
	}
}

// TestRowWithoutEntry: a row that was inserted by hand is trend, or has the
// order of its first creator.
func TestRowWithoutEntry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, table := tabledWorld(t)
		s := w.loader(0)
		table.rows["inserted"], table.rows["strict"] = 5, 5
		if tag, err := s.Lookup(t.Context(), "inserted"); err != nil || tag != (store.Tag{Name: "inserted", Step: 10, Order: store.Trend}) {
			t.Errorf("Lookup: %+v, %v", tag, err)
		}
		if granted, err := storetest.Reserve(t.Context(), s, "inserted", 10); err != nil || granted.First != 5 || granted.Order != store.Trend {
			t.Errorf("Reserve: %+v, %v", granted, err)
		}
		if _, err := storetest.ReserveFirst(t.Context(), s, strictTag, 10); !errors.Is(err, store.ErrTagExists) {
			t.Errorf("ReserveFirst: %v, want ErrTagExists", err)
		}
		if granted, err := storetest.Reserve(t.Context(), s, "strict", 10); err != nil || granted.First != 5 || granted.Order != store.Strict {
			t.Errorf("Reserve after it: %+v, %v", granted, err)
		}
	})
}

// TestStepOfRow: a step changed by another process takes effect within a
// minute.
func TestStepOfRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, table := tabledWorld(t)
		s := w.loader(0)
		for _, c := range []struct{ sets, want int64 }{{10, 10}, {20, 10}} {
			table.step = c.sets
			if tag, err := s.Lookup(t.Context(), "a"); err != nil || tag.Step != c.want {
				t.Errorf("Lookup: %+v, %v, want a step of %d", tag, err, c.want)
			}
			if granted, err := s.Reserve(t.Context(), "a", []store.Want{{Most: 100}}); err != nil || granted.Step != c.want || granted.Parts[0].Len() != c.want {
				t.Errorf("Reserve: %+v, %v, want the step, %d", granted, err, c.want)
			}
		}
		time.Sleep(stepAge)
		if tag, err := s.Lookup(t.Context(), "a"); err != nil || tag.Step != 20 {
			t.Errorf("Lookup a minute later: %+v, %v", tag, err)
		}
		table.step = 0
		time.Sleep(stepAge)
		if tag, err := s.Lookup(t.Context(), "a"); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Lookup of a row with step 0: %+v, %v", tag, err)
		}
		if granted, err := s.Reserve(t.Context(), "a", []store.Want{{Most: 100}}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Reserve of a row with step 0: %+v, %v", granted, err)
		}
		for n := range 5000 {
			s.steps.put(fmt.Sprint(n), 1)
			time.Sleep(stepAge / 1000)
		}
		if n := len(s.steps.tags); n > 2*1024 {
			t.Errorf("%d steps are cached", n)
		}
	})
}

// TestLostTagKeepsItsOrder: a strict tag that the register lost, and that a
// decision brings back, is strict.
func TestLostTagKeepsItsOrder(t *testing.T) {
	t.Parallel()
	for tables := range 2 {
		t.Run(fmt.Sprint(tables), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, tables)
				w.server.loss = 0
				s := w.loader(0)
				w.server.save()
				for range 2 {
					_, first := storetest.ReserveFirst(t.Context(), s, strictTag, 10)
					_, err := storetest.Reserve(t.Context(), s, "strict", 10)
					if err != nil {
						t.Fatal(first, err)
					}
				}
				w.server.putBack(0, 0, false)
				w.server.decide(1000)
				time.Sleep(2 * guard.PollEvery)
				for _, s := range []*Register{s, w.loader(0)} {
					if granted, err := storetest.Reserve(t.Context(), s, "strict", 10); err != nil || granted.First < 1001 || granted.Order != store.Strict {
						t.Errorf("%+v, %v, want it strict", granted, err)
					}
				}
			})
		})
	}
}

// TestLostTagWithoutARow: in front of a table, an entry that a decision brings back
// is that of a removed tag, unless there is a row.
func TestLostTagWithoutARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, table := tabledWorld(t)
		s := w.loader(0)
		w.server.save()
		if _, err := storetest.ReserveFirst(t.Context(), s, strictTag, 10); err != nil {
			t.Fatal(err)
		}
		w.server.putBack(0, 0, false)
		delete(table.rows, "strict")
		w.server.decide(1000, table)
		if err := s.poll(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if granted, err := storetest.Reserve(t.Context(), s, "strict", 10); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("%+v, %v, want ErrNoTag", granted, err)
		}
		if granted, err := storetest.ReserveFirst(t.Context(), s, strictTag, 10); err != nil || granted.First < 1001 || granted.Order != store.Strict {
			t.Errorf("made again: %+v, %v", granted, err)
		}
	})
}

// TestDecode: malformed entries are refused.
func TestDecode(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]entry{
		`{"next":5}`:                            {Next: 5},
		`{"next":5,"step":10,"order":"strict"}`: {Next: 5, Step: 10, Order: store.Strict},
		`{"next":5,"order":"trend"}`:            {Next: 5},
		`{"next":5,"removed":true}`:             {Next: 5, Removed: true},
	} {
		if e, err := decode([]byte(value)); err != nil || e != want {
			t.Errorf("%s: %+v, %v", value, e, err)
		}
	}
	for _, value := range []string{
		``, `5`, `{}`, `{"next":0}`, `{"next":5,"step":-1}`, `{"next":5,"order":"Strict"}`, `{"next":5,"order":"none"}`,
		`{"next":5,"order":1}`, `{"next":5,"owner":"a"}`, `{"next":5} {}`,
	} {
		if e, err := decode([]byte(value)); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %+v, %v, want ErrCorrupt", value, e, err)
		}
	}
}
