package register

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/store"
)

// imported is a tag of a list with what the register has of it.
type imported struct {
	revision uint64
	next     int64 // 0: no entry
	step     int64
	removed  bool
}

// CheckImport returns a [store.ErrOrder] if a name has another order here than
// in a list, which is sorted by name. It counts the entries that the list lacks.
func (s *Register) CheckImport(ctx context.Context, list []store.Tag) (unlisted int, err error) {
	var failed error
	err = s.remote.each(ctx, func(name string, e listed, _ time.Time) bool {
		i, found := slices.BinarySearchFunc(list, name, func(t store.Tag, name string) int { return strings.Compare(t.Name, name) })
		if !found {
			unlisted++
		} else if e.err == nil {
			failed = checkOrder(list[i], e.storedEntry)
		}
		return failed == nil
	})
	return unlisted, errors.Join(failed, err)
}

func (i imported) entry(order store.Order) storedEntry {
	return storedEntry{entry{Next: i.next, Step: i.step, Order: stored(order), Removed: i.removed}, i.revision}
}

// Import merges a list of tags into a register without a table: see merge. The
// list is sorted by name, without repetitions; a removed tag has step 0. Before
// any change it checks the orders, and calls ready. It reports each tag with its
// next ID before, 0 if it did not exist. It may fail at any point, and can be
// repeated. Errors: [store.ErrOrder], and those of CreateTag.
func (s *Register) Import(ctx context.Context, list []store.Tag, ready func() error, report func(tag store.Tag, before int64)) error {
	here := make([]imported, len(list))
	var failed error
	err := s.remote.each(ctx, func(name string, e listed, _ time.Time) bool {
		i, found := slices.BinarySearchFunc(list, name, func(t store.Tag, name string) int { return strings.Compare(t.Name, name) })
		if !found {
			return true
		}
		failed = e.err
		if failed == nil {
			failed = checkOrder(list[i], e.storedEntry)
		}
		if failed != nil {
			failed = s.tagError(list[i].Name, failed)
		}
		here[i] = imported{e.revision, e.Next, e.Step, e.Removed}
		return failed == nil
	})
	if err = errors.Join(failed, err); err == nil {
		err = ready()
	}
	if err != nil {
		return err
	}
	batches, ctx := errgroup.WithContext(ctx)
	batches.SetLimit(batchesAtOnce)
	reporting := make(chan struct{}, 1)
	for from := 0; from < len(list) && ctx.Err() == nil; from += kv.MaxBatch {
		to := min(from+kv.MaxBatch, len(list))
		batches.Go(func() error {
			if err := s.importBatch(ctx, list[from:to], here[from:to]); err != nil {
				return err
			}
			reporting <- struct{}{}
			defer func() { <-reporting }()
			for i := from; i < to; i++ {
				before := here[i].next
				if !s.live(here[i].entry(list[i].Order)) {
					before = 0 // it did not exist
				}
				report(list[i], before)
			}
			return nil
		})
	}
	return batches.Wait()
}

// importBatch merges tags, and sets them in the list to the result.
func (s *Register) importBatch(ctx context.Context, list []store.Tag, here []imported) error {
	p, err := s.permit(ctx)
	if err != nil {
		return err
	}
	var changes []kv.Write
	var of []int
	for i, tag := range list {
		had := here[i].entry(tag.Order)
		e, err := s.merge(tag, had)
		if err != nil {
			return s.tagError(tag.Name, err)
		}
		set(&list[i], e)
		if e != had.entry {
			changes = append(changes, kv.Write{Key: tag.Name, Value: e.encode(), Revision: had.revision})
			of = append(of, i)
		}
	}
	for n, w := range s.remote.updateMany(ctx, changes) {
		tag, err := &list[of[n]], w.Err
		if err == nil {
			err = s.confirm(p, w.Revision)
		}
		if errors.Is(err, jetstream.ErrKeyRevisionMismatch) { // written since it was listed
			err = s.replace(ctx, tag.Name, func(r storedEntry) (entry, error) {
				e, err := s.merge(*tag, r)
				set(tag, e)
				return e, err
			})
		}
		if err != nil {
			return s.tagError(tag.Name, err)
		}
	}
	return nil
}

// set sets a tag to its entry.
func set(tag *store.Tag, e entry) {
	if tag.Next, tag.Step = e.Next, e.Step; e.Removed {
		tag.Step = 0
	}
}

// merge returns the entry of a tag after an import. A tag that exists is raised,
// never lowered, and keeps its step. Others begin no lower than they may here.
func (s *Register) merge(tag store.Tag, had storedEntry) (entry, error) {
	e := had.entry
	switch {
	case checkOrder(tag, had) != nil:
		return e, checkOrder(tag, had)
	case s.live(had), had.exists() && tag.Step == 0:
		e.Next = max(had.Next, tag.Next)
		return e, nil
	case had.deleted() && tag.Next == 1:
		return e, fmt.Errorf("%w: deleted by hand; first ID must be above all IDs in use", store.ErrBadTag)
	}
	return entry{
		Next: max(tag.Next, had.Next, s.Lowest()), Step: max(1, tag.Step), Order: stored(tag.Order), Removed: tag.Step == 0,
	}, nil
}
