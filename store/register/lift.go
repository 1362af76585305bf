package register

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register/internal/guard"
)

// lifting is the work of a raise.
type lifting struct {
	*Register
	OldRaise
	report func(tag store.Tag, before int64)

	mu      sync.Mutex
	written uint64      // entries
	own     [][2]uint64 // first and last of the revisions written
	lifts   []lift      // of rows, once their entries are lifted
	corrupt []error
}

// lift is a tag to be lifted. Its Next is before that.
type lift struct {
	store.Tag
	entry storedEntry
	to    int64
	row   bool
}

// liftAll lifts all entries, and then the rows. The error wraps
// [store.ErrCorrupt] if all but unreadable entries and rows were lifted.
func (s *Register) liftAll(ctx context.Context, r OldRaise, report func(tag store.Tag, before int64)) error {
	l := &lifting{Register: s, OldRaise: r, report: report}
	rows, _, err := s.rows(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	l.corrupt = []error{err}
	if err := l.entries(ctx, rows); err != nil {
		return err
	}
	if err := l.raiseRows(ctx); err != nil {
		return err
	}
	return errors.Join(l.corrupt...)
}

// entries lifts the entries. If others wrote since the list began, as a write
// that was long under way, it lists again, and lifts what they wrote.
func (l *lifting) entries(ctx context.Context, rows map[string]store.Tag) error {
	for from, missing := uint64(0), rows; ; missing = nil {
		found, err := l.remote.poll(ctx)
		if err != nil {
			return err
		}
		before := l.written
		if err := l.pass(ctx, rows, missing, from, found.Last); err != nil {
			return err
		}
		now, err := l.remote.poll(ctx)
		if err != nil || now.Last == found.Last+l.written-before {
			return err
		}
		from = found.Last + 1
	}
}

// pass lifts the entries with revisions from one to another, but for those that
// it wrote, and creates missing entries of rows.
func (l *lifting) pass(ctx context.Context, rows, missing map[string]store.Tag, from, through uint64) error {
	unlisted := maps.Clone(missing)
	slices.SortFunc(l.own, func(a, b [2]uint64) int { return cmp.Compare(a[0], b[0]) })
	own := slices.Clone(l.own)
	batches, ctx := errgroup.WithContext(ctx)
	batches.SetLimit(batchesAtOnce)
	var batch []lift
	add := func(t lift) {
		if batch = append(batch, t); len(batch) == kv.MaxBatch {
			full := batch
			batches.Go(func() error { return l.write(ctx, full) })
			batch = nil
		}
	}
	err := l.remote.each(ctx, func(name string, e listed, written time.Time) bool {
		_, row := rows[name]
		delete(unlisted, name)
		switch {
		case e.revision > through || ctx.Err() != nil:
			return false
		case e.revision < from || within(own, e.revision):
		case e.err != nil:
			l.fail(l.tagError(strings.Clone(name), e.err))
		case e.exists():
			tag := l.tagOf(strings.Clone(name), e.storedEntry, rows)
			add(lift{tag, e.storedEntry, l.Lift(tag, written), row})
		}
		return true
	})
	for _, row := range unlisted {
		row.Step, row.Order = max(1, row.Step), store.Trend
		add(lift{row, storedEntry{}, l.Lift(row, time.Time{}), true})
	}
	if len(batch) > 0 {
		batches.Go(func() error { return l.write(ctx, batch) })
	}
	return cmp.Or(batches.Wait(), err)
}

// within reports whether a revision is in one of the ranges, which are sorted.
func within(ranges [][2]uint64, revision uint64) bool {
	i, found := slices.BinarySearchFunc(ranges, revision, func(r [2]uint64, revision uint64) int { return cmp.Compare(r[0], revision) })
	return found || i > 0 && revision <= ranges[i-1][1]
}

// wrote records the revision of an own write.
func (l *lifting) wrote(revision uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.own); n > 0 && l.own[n-1][1]+1 == revision {
		l.own[n-1][1] = revision
		return
	}
	l.own = append(l.own, [2]uint64{revision, revision})
}

// write lifts the entries of a batch.
func (l *lifting) write(ctx context.Context, batch []lift) error {
	p, err := l.permit(ctx)
	if err != nil {
		return err
	}
	var changes []kv.Write
	var lifts []lift
	for _, t := range batch {
		e := t.entry.entry
		e.Next = t.to
		if e.Next == t.entry.Next { // exhausted before
			l.done(t, 0)
			continue
		}
		changes = append(changes, kv.Write{Key: t.Name, Value: e.encode(), Revision: t.entry.revision})
		lifts = append(lifts, t)
	}
	for i, w := range l.remote.updateMany(ctx, changes) {
		t := lifts[i]
		err := w.Err
		if err == nil {
			l.wrote(w.Revision)
			// A late answer is no fault: this write grants nothing.
			if err = l.confirm(p, w.Revision); errors.Is(err, guard.ErrLate) {
				err = nil
			}
		}
		if errors.Is(err, jetstream.ErrKeyRevisionMismatch) { // written since it was listed
			err = l.replace(ctx, t.Name, func(r storedEntry) (entry, error) {
				if r.exists() {
					now := t.Tag
					now.Next = max(r.Next, t.Next)
					t.to = max(t.to, l.Lift(now, time.Now()))
				}
				if r.Next = t.to; r.deleted() && !t.row { // it grants nothing
					r.Next = 0
				}
				return r.entry, nil
			})
			if errors.Is(err, guard.ErrLate) {
				err = nil
			}
		}
		switch {
		case errors.Is(err, store.ErrCorrupt):
			l.fail(l.tagError(t.Name, err))
		case err != nil:
			return l.tagError(t.Name, err)
		default:
			l.done(t, 1)
		}
	}
	return nil
}

func (l *lifting) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.corrupt = append(l.corrupt, err)
}

// done records that an entry was lifted. A tag with a row is reported once that
// is lifted, too.
func (l *lifting) done(t lift, written uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written += written
	if t.row {
		l.lifts = append(l.lifts, t)
		return
	}
	l.tell(t)
}

func (l *lifting) tell(t lift) {
	before := t.Next
	t.Next = t.to
	l.report(t.Tag, before)
}

const (
	rowRaises = 5 // attempts at a row, which another transaction may lock
)

// isListed reports whether a retry cannot help.
func isListed(err error) bool {
	return errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNoTag) || errors.Is(err, store.ErrSetup)
}

// raiseRows raises the rows of tags whose entries were lifted. A loader would
// raise a row before its next grant, but Leaf's servers would not.
func (l *lifting) raiseRows(ctx context.Context) error {
	raises, ctx := errgroup.WithContext(ctx)
	raises.SetLimit(rowsAtOnce)
	for _, t := range l.lifts {
		raises.Go(func() error {
			var err error
			for attempt := range rowRaises {
				if err = l.cfg.Table.Raise(ctx, t.Name, t.to); err == nil || isListed(err) || backOff(ctx, attempt) != nil {
					break
				}
			}
			switch {
			case errors.Is(err, store.ErrCorrupt): // rows may hold anything
				l.fail(err)
			case errors.Is(err, store.ErrNoTag): // removed since then
			case err != nil:
				return err
			default:
				l.mu.Lock()
				defer l.mu.Unlock()
				l.tell(t)
			}
			return nil
		})
	}
	return raises.Wait()
}
