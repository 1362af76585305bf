package register

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
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

const (
	batchesAtOnce  = 4  // batches of entries in flight
	rowsAtOnce     = 16 // rows that are changed at the same time
	changeAttempts = 5  // at a row, which another transaction may lock
)

// Preview passes to visit what Rewrite would do, and writes nothing. Names may be
// parts of longer strings. It ends with the first error of the rule: an import
// does not fit then. An error that wraps [store.ErrCorrupt] is about some tags
// only, which Rewrite would leave as they are.
func (s *Register) Preview(ctx context.Context, r Rule, visit func(Effect)) error {
	rows, corrupt, err := s.rowsByName(ctx)
	if err != nil {
		return err
	}
	floor := s.Lowest()
	var failed error
	err = s.each(ctx, r, rows, span{through: math.MaxUint64}, func(p present, unreadable error) bool {
		if unreadable != nil {
			corrupt = append(corrupt, s.tagError(strings.Clone(p.name), unreadable))
			return true
		}
		p.floor = floor
		_, c, err := r.apply(p)
		if err != nil {
			failed = s.tagError(strings.Clone(p.name), err)
		} else if c.Name != "" {
			visit(c)
		}
		return failed == nil
	})
	if err := cmp.Or(failed, err); err != nil {
		return err
	}
	return errors.Join(corrupt...)
}

// Rewrite applies a rule to the entries, and then to the rows, and reports each
// tag once both are written, perhaps a second time if another has written it in
// between. It may fail at any point, and can be repeated. A [Raise] needs the
// mark, and an [Import] a Preview, because Rewrite stops at the first tag that
// does not fit. The error wraps [store.ErrCorrupt] if all but unreadable entries
// and rows were rewritten: those grant nothing, so a raise may be decided.
func (s *Register) Rewrite(ctx context.Context, r Rule, report func(Effect)) error {
	rows, corrupt, err := s.rowsByName(ctx)
	if err != nil {
		return err
	}
	w := &rewrite{Register: s, rule: r, permission: administrator{s}, report: report, rows: make(map[string]Effect), corrupt: corrupt}
	if err := w.entries(ctx, r, rows); err != nil {
		return err
	}
	if err := w.changeRows(ctx); err != nil {
		return err
	}
	return errors.Join(w.corrupt...)
}

// Unlisted counts the entries of names that a list lacks, which is sorted by
// name.
func (s *Register) Unlisted(ctx context.Context, list []store.Tag) (n int, err error) {
	tags := listing{tags: list, met: make([]bool, len(list))}
	err = s.remote.each(ctx, func(name string, _ listed, _ time.Time) bool {
		if tags.find(name) == nil {
			n++
		}
		return true
	})
	return n, err
}

// listing is a list of tags, sorted by name, and which of them were met.
type listing struct {
	tags []store.Tag
	met  []bool
}

func (l listing) find(name string) *store.Tag {
	i, found := slices.BinarySearchFunc(l.tags, name, func(t store.Tag, name string) int { return strings.Compare(t.Name, name) })
	if !found {
		return nil
	}
	l.met[i] = true
	return &l.tags[i]
}

// span is a part of the stream: all revisions from one to another, but for
// those in some ranges, which are sorted.
type span struct {
	from, through uint64
	but           [][2]uint64
}

func (s span) has(revision uint64) bool {
	i, found := slices.BinarySearchFunc(s.but, revision, func(r [2]uint64, revision uint64) int { return cmp.Compare(r[0], revision) })
	return revision >= s.from && !found && (i == 0 || revision > s.but[i-1][1])
}

// each passes the tags that a rule is about: first those with entries in a span,
// and then, if that begins with the stream, those without an entry. It ends when
// visit returns false. An unreadable entry has an error.
func (s *Register) each(ctx context.Context, r Rule, rows map[string]store.Tag, in span, visit func(p present, unreadable error) bool) error {
	list, workers := r.lists()
	tags, held := listing{list, make([]bool, len(list))}, listing{workers, make([]bool, len(workers))}
	unmet := make(map[string]store.Tag)
	if r.isAboutAll() {
		unmet = maps.Clone(rows)
	}
	ended := false
	pass := func(name string, e listed, written time.Time) bool {
		p := present{name: name, had: e.storedEntry, written: written, listed: tags.find(name), worker: held.find(name), table: s.cfg.Table != nil}
		if row, found := rows[name]; found {
			p.row = &row
		}
		if delete(unmet, name); r.isAboutAll() || p.listed != nil {
			ended = !visit(p, e.err)
		}
		return !ended
	}
	err := s.remote.each(ctx, func(name string, e listed, written time.Time) bool {
		if e.revision > in.through {
			return false
		}
		return !in.has(e.revision) || pass(name, e, written)
	})
	if err != nil || in.from > 0 {
		return err
	}
	for _, l := range []listing{tags, held} {
		for i := 0; i < len(l.tags) && !ended; i++ {
			if !l.met[i] {
				pass(l.tags[i].Name, listed{}, time.Time{})
			}
		}
	}
	for _, name := range slices.Collect(maps.Keys(unmet)) {
		if !ended {
			pass(name, listed{}, time.Time{})
		}
	}
	return nil
}

// permission permits writes, and judges their answers.
type permission interface {
	// permit returns the permit of writes that are computed after that.
	permit(ctx context.Context) (guard.Permit, error)

	// confirm judges the answer to a write. After an error it counts for nothing.
	confirm(p guard.Permit, revision uint64) error
}

// administrator is the permission of a write that grants nothing: a late answer
// to it is no fault.
type administrator struct{ *Register }

func (a administrator) confirm(p guard.Permit, revision uint64) error {
	if err := a.Register.confirm(p, revision); !errors.Is(err, guard.ErrLate) {
		return err
	}
	return nil
}

// rewrite is the application of a rule.
type rewrite struct {
	*Register
	rule       rule
	permission permission
	report     func(Effect)

	mu      sync.Mutex
	written uint64            // entries
	own     [][2]uint64       // first and last of the revisions written
	rows    map[string]Effect // whose rows are changed once their entries are written
	corrupt []error
}

// entries rewrites the entries. If the rule is about all, and others wrote since
// the list began, as by a write that was long under way, it lists again, and
// rewrites what they wrote.
func (w *rewrite) entries(ctx context.Context, r Rule, rows map[string]store.Tag) error {
	for from := uint64(0); ; {
		found, err := w.remote.poll(ctx)
		if err != nil {
			return err
		}
		before := w.written
		if err := w.pass(ctx, r, rows, from, found.Last); err != nil || !r.isAboutAll() {
			return err
		}
		now, err := w.remote.poll(ctx)
		if err != nil || now.Last == found.Last+w.written-before {
			return err
		}
		from = found.Last + 1
	}
}

// pass rewrites the entries with revisions from one to another, but for those
// that it wrote.
func (w *rewrite) pass(ctx context.Context, r Rule, rows map[string]store.Tag, from, through uint64) error {
	slices.SortFunc(w.own, func(a, b [2]uint64) int { return cmp.Compare(a[0], b[0]) })
	in := span{from, through, slices.Clone(w.own)}
	batches, ctx := errgroup.WithContext(ctx)
	batches.SetLimit(batchesAtOnce)
	var batch []present
	err := w.each(ctx, r, rows, in, func(p present, unreadable error) bool {
		p.name = strings.Clone(p.name)
		if unreadable != nil {
			w.fail(w.tagError(p.name, unreadable))
			return true
		}
		if batch = append(batch, p); len(batch) == kv.MaxBatch {
			full := batch
			batches.Go(func() error { return w.write(ctx, full) })
			batch = nil
		}
		return ctx.Err() == nil
	})
	batches.Go(func() error { return w.write(ctx, batch) })
	return cmp.Or(batches.Wait(), err)
}

// write applies the rule to tags, and writes their entries. Those that others
// have written since it reads from the leader, and applies the rule again.
func (w *rewrite) write(ctx context.Context, batch []present) error {
	for attempt := 0; len(batch) > 0; attempt++ {
		if attempt > 1 {
			if err := backOff(ctx, attempt); err != nil {
				return err
			}
		}
		permit, err := w.permission.permit(ctx)
		if err != nil {
			return err
		}
		if attempt > 0 {
			if batch, err = w.reread(ctx, batch); err != nil {
				return err
			}
		}
		var writes []kv.Write
		var changed []present
		var changes []Effect
		floor := w.Lowest()
		for _, p := range batch {
			p.floor = floor
			e, c, err := w.rule.apply(p)
			if err != nil {
				return w.tagError(p.name, err)
			}
			if e == p.had.entry {
				w.done(p, c, 0)
				continue
			}
			writes = append(writes, kv.Write{Key: p.name, Value: e.encode(), Revision: p.had.revision})
			p.least = e.Next
			changed, changes = append(changed, p), append(changes, c)
		}
		batch = nil
		for i, written := range w.remote.updateMany(ctx, writes) {
			err := written.Err
			switch {
			case errors.Is(err, jetstream.ErrKeyRevisionMismatch): // written since it was listed
				batch = append(batch, changed[i])
				continue
			case err != nil:
				w.judge((*guard.Guard).Doubt)
			default:
				err = w.permission.confirm(permit, written.Revision)
			}
			if err != nil {
				return w.tagError(changed[i].name, err)
			}
			w.done(changed[i], changes[i], written.Revision)
		}
	}
	return nil
}

// reread reads the entries of tags from the leader, which others have just
// written. It leaves out unreadable ones.
func (w *rewrite) reread(ctx context.Context, batch []present) (again []present, err error) {
	for _, p := range batch {
		p.had, err = w.remote.read(ctx, p.name)
		switch p.written = time.Now(); {
		case errors.Is(err, store.ErrCorrupt):
			w.fail(w.tagError(p.name, err))
		case err != nil:
			return nil, w.tagError(p.name, err)
		default:
			again = append(again, p)
		}
	}
	return again, nil
}

func (w *rewrite) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corrupt = append(w.corrupt, err)
}

// done records that an entry is as it should be, written at a revision, or 0 if
// it was before. A tag whose row changes, too, is reported after that.
func (w *rewrite) done(p present, c Effect, revision uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if revision > 0 {
		w.written++
		if n := len(w.own); n > 0 && w.own[n-1][1]+1 == revision {
			w.own[n-1][1] = revision
		} else {
			w.own = append(w.own, [2]uint64{revision, revision})
		}
	}
	switch {
	case c.Name == "":
	case c.Rowless, p.row != nil && p.row.Next < c.Next:
		w.rows[c.Name] = c // not as it was before another wrote the entry
	default:
		w.report(c)
	}
}

// changeRows creates the rows that are missing, and raises the others. A loader
// would raise a row before its next grant, but Leaf's servers would not.
func (w *rewrite) changeRows(ctx context.Context) error {
	rows, ctx := errgroup.WithContext(ctx)
	rows.SetLimit(rowsAtOnce)
	for _, c := range w.rows {
		rows.Go(func() error {
			var err error
			for attempt := range changeAttempts {
				if err = w.changeRow(ctx, c); err == nil || isPermanent(err) || backOff(ctx, attempt) != nil {
					break
				}
			}
			switch {
			case errors.Is(err, store.ErrCorrupt): // rows may hold anything
				w.fail(err)
			case errors.Is(err, store.ErrNoTag): // removed since then
			case err != nil:
				return err
			default:
				w.mu.Lock()
				defer w.mu.Unlock()
				w.report(c)
			}
			return nil
		})
	}
	return rows.Wait()
}

func (s *Register) changeRow(ctx context.Context, c Effect) error {
	if c.Rowless {
		tag := c.Tag
		tag.Earliest = store.NeverUsed // above its next ID
		if err := s.CreateTag(ctx, tag); !errors.Is(err, store.ErrTagExists) {
			return err
		}
	}
	return s.cfg.Table.Raise(ctx, c.Name, c.Next)
}

// isPermanent reports whether a retry of a change of a row cannot help.
func isPermanent(err error) bool {
	return errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNoTag) || errors.Is(err, store.ErrSetup) || errors.Is(err, store.ErrBadTag)
}
