package register

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register/internal/guard"
)

// Compared is how a register, and its table, differ from a list of tags that was
// taken earlier.
type Compared struct {
	Missing []store.Tag // tags and removed tags without an entry
	Rowless []store.Tag // tags that were not removed here, but have no row in the table
	Lower   []store.Tag // tags whose entries are below the list
	Orders  []store.Tag // tags with another order here than in the list
	Others  []store.Tag // rows whose names are not those of tags

	strict  []kv.Write // entries that were strict
	rowless []kv.Write // entries of other tags without a row, as removed
	rows    map[string]store.Tag
	markers map[string]uint64 // revisions of missing entries that were deleted by hand
}

// CompareList compares the register with a list of tags, which is sorted by
// name without repetitions. Unreadable entries are not compared.
func (s *Register) CompareList(ctx context.Context, list []store.Tag) (c Compared, err error) {
	if c.rows, c.Others, err = s.rows(ctx); err != nil && !errors.Is(err, store.ErrCorrupt) {
		return c, err
	}
	checkRow := func(tag store.Tag) {
		if _, hasRow := c.rows[tag.Name]; s.cfg.Table != nil && tag.Step > 0 && !hasRow {
			c.Rowless = append(c.Rowless, tag)
		}
	}
	here := make([]bool, len(list))
	c.markers = make(map[string]uint64)
	err = s.remote.each(ctx, func(name string, e listed, _ time.Time) bool {
		i, found := slices.BinarySearchFunc(list, name, func(t store.Tag, name string) int { return strings.Compare(t.Name, name) })
		if !found {
			if _, hasRow := c.rows[name]; s.cfg.Table != nil && e.err == nil && e.exists() && !e.Removed && !hasRow {
				gone := e.entry
				gone.Removed = true
				c.rowless = append(c.rowless, kv.Write{Key: strings.Clone(name), Value: gone.encode(), Revision: e.revision})
			}
			return true
		}
		tag := list[i]
		switch here[i] = e.err != nil || e.exists(); {
		case e.err != nil:
			return true
		case e.deleted():
			c.markers[tag.Name] = e.revision
			return true
		case e.Next < tag.Next:
			c.Lower = append(c.Lower, tag)
		}
		if checkOrder(tag, e.storedEntry) != nil {
			c.Orders = append(c.Orders, tag)
			if tag.Order == store.Strict {
				was := e.entry
				was.Order = store.Strict
				c.strict = append(c.strict, kv.Write{Key: tag.Name, Value: was.encode(), Revision: e.revision})
			}
		}
		if tag.Next, tag.Order = max(tag.Next, e.Next), e.order(); !e.Removed {
			checkRow(tag)
		}
		return true
	})
	for i, tag := range list {
		if !here[i] {
			c.Missing = append(c.Missing, tag)
			checkRow(tag)
		}
	}
	return c, err
}

// PutBack writes the entries of a list that the register lacks, with their
// orders: for [Raise.First], which lifts them. In front of a table it also
// creates the missing rows. A tag that was strict is strict again: a loader
// takes a row for trend if its entry was lost. Workers drop what they hold of
// those tags once the raise is decided. A tag without a row that the list lacks
// is removed, so that it can be created again.
func (s *Register) PutBack(ctx context.Context, list []store.Tag) (err error) {
	var found Compared
	for again := true; again; {
		if found, err = s.CompareList(ctx, list); err != nil {
			return err
		}
		changes := slices.Concat(found.strict, found.rowless)
		for _, tag := range found.Missing {
			e := entry{Next: max(tag.Next, s.Lowest()), Step: tag.Step, Order: stored(tag.Order), Removed: tag.Step == 0}
			if s.cfg.Table != nil {
				_, hasRow := found.rows[tag.Name]
				e.Step, e.Removed = 0, tag.Step == 0 && !hasRow
			}
			changes = append(changes, kv.Write{Key: tag.Name, Value: e.encode(), Revision: found.markers[tag.Name]})
		}
		if again, err = s.writeAll(ctx, changes); err != nil {
			return err
		}
	}
	rows, ctx := errgroup.WithContext(ctx)
	rows.SetLimit(rowsAtOnce)
	for _, tag := range found.Rowless {
		tag.Next = max(tag.Next, s.Lowest())
		rows.Go(func() error {
			if err := s.CreateTag(ctx, tag); !errors.Is(err, store.ErrTagExists) {
				return err
			}
			return nil
		})
	}
	return rows.Wait()
}

// Forgotten returns the tags of a list that the register lacks: those of
// [Register.PutBackHeld]. A tag whose entry was deleted by hand is none, nor is
// one without a row in the table.
func (s *Register) Forgotten(c Compared) (tags []store.Tag) {
	for _, tag := range c.Missing {
		_, hasRow := c.rows[tag.Name]
		if c.markers[tag.Name] == 0 && (hasRow || s.cfg.Table == nil) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// PutBackHeld writes the entries of tags that workers hold, sorted by name, and
// that the register has forgotten: for [Raise.First], as PutBack. A snapshot of a
// running server lacks the busiest tags. An entry that is there keeps its order,
// whatever a process reports.
func (s *Register) PutBackHeld(ctx context.Context, held []store.Tag) error {
	for again := true; again; {
		c, err := s.CompareList(ctx, held)
		if err != nil {
			return err
		}
		var changes []kv.Write
		for _, tag := range s.Forgotten(c) {
			e := entry{Next: max(tag.Next, s.Lowest()), Step: tag.Step, Order: stored(tag.Order)}
			if s.cfg.Table != nil {
				e.Step = 0
			}
			changes = append(changes, kv.Write{Key: tag.Name, Value: e.encode()})
		}
		if again, err = s.writeAll(ctx, changes); err != nil {
			return err
		}
	}
	return nil
}

// writeAll writes changes of entries. It reports whether some were written by
// others since, as by a write that was long under way.
func (s *Register) writeAll(ctx context.Context, changes []kv.Write) (others bool, err error) {
	var beaten atomic.Bool
	batches, ctx := errgroup.WithContext(ctx)
	batches.SetLimit(batchesAtOnce)
	for batch := range slices.Chunk(changes, kv.MaxBatch) {
		batches.Go(func() error {
			p, err := s.permit(ctx)
			if err != nil {
				return err
			}
			for i, w := range s.remote.updateMany(ctx, batch) {
				err := w.Err
				if err == nil {
					err = s.confirm(p, w.Revision)
				}
				switch {
				case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
					beaten.Store(true)
				case err != nil && !errors.Is(err, guard.ErrLate): // a late answer is no fault: these writes grant nothing
					return s.tagError(batch[i].Key, err)
				}
			}
			return nil
		})
	}
	err = batches.Wait()
	return beaten.Load(), err
}

// Salvage returns the entries of a register that cannot be opened.
func Salvage(ctx context.Context, js jetstream.JetStream, p messages.Prefix) (entries map[string]string, err error) {
	return kv.Values(ctx, js, BucketName(p))
}

// TagsOf returns the tags of the entries that are readable, by name: with step 0
// for removed ones and for those of a table.
func TagsOf(entries map[string]string) (tags []store.Tag) {
	for name, value := range entries {
		e, err := decode([]byte(value))
		if err != nil || checkName(name) != nil {
			continue
		}
		tag := store.Tag{Name: name, Next: e.Next, Step: e.Step, Order: e.order()}
		if e.Removed {
			tag.Step = 0
		}
		tags = append(tags, tag)
	}
	slices.SortFunc(tags, func(a, b store.Tag) int { return strings.Compare(a.Name, b.Name) })
	return tags
}

// Discard deletes the bucket. Its tags must be in a list that is put back.
func Discard(ctx context.Context, js jetstream.JetStream, p messages.Prefix) error {
	err := js.DeleteStream(ctx, kv.StreamName(BucketName(p)))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return err
}
