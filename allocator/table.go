package allocator

import (
	"time"
)

// The first request for a name creates its tag. A tag is dropped
//
//   - if it is unknown, when no request is parked any more, or its load is
//     refused;
//   - if it is strict, when a load is refused;
//   - if it is idle (DropIdle) or removed (Remove).
//
// Nothing of a dropped tag stays, except a refusal for Config.ReAsk. A tag that
// is created again is unknown, and takes only the grant of its open load, which
// was requested after all that. So no tag uses a late grant.

// A tag without requests for an hour is dropped: most names that are used once,
// such as daily names, never come back. At 300 bytes a tag, manyTags take 30
// MB; with more of them, a minute without requests is enough.
const (
	idleCalls = 60
	manyTags  = 100_000
)

// findOrMake returns the tag of that name, or creates it, or returns the error
// for its requests for n IDs.
func (a *Allocator) findOrMake(name string, n int64) (*tag, error) {
	if t, ok := a.tags.Load(name); ok {
		return t, nil
	}
	refused, _ := a.refused.Load(name)
	now := a.cfg.Clock()
	if err := a.refusedAll.Load().current(now); err != nil {
		return nil, err
	}
	if err := refused.current(now); err != nil && n >= refused.least {
		return nil, err
	}
	t, _ := a.tags.LoadOrCompute(name, func() (made *tag, full bool) {
		if a.unknown.Add(1) > int64(a.cfg.MaxUnknown) {
			a.unknown.Add(-1)
			return nil, true
		}
		made = &tag{name: name}
		made.cur.Store(&empty)
		return made, false
	})
	if t == nil {
		return nil, ErrBusy
	}
	return t, nil
}

// Remove drops a tag, with its buffer. Its parked requests get ErrDropped, not
// store.ErrNoTag: the tag may exist again by now.
func (a *Allocator) Remove(name string) {
	a.updateTag(name, func(t *tag, _ time.Duration) { a.drop(t, ErrDropped) })
}

// DropIdle drops the tags without requests for the latest 60 calls, or for one
// call if more than 100,000 tags are held, and returns their number. Call it
// once a minute.
func (a *Allocator) DropIdle() (dropped int) {
	now := a.cfg.Clock()
	for name, r := range a.refused.All() {
		if r.current(now) == nil {
			a.refused.Delete(name)
		}
	}
	calls := int8(idleCalls)
	if a.Tags() > manyTags {
		calls = 1
	}
	for _, t := range a.tags.All() {
		a.update(t, func(time.Duration) {
			if t.countIdle() >= calls {
				a.drop(t, ErrDropped)
				dropped++
			}
		})
	}
	return dropped
}

// countIdle returns for how many calls in a row nothing was requested of the
// tag. It needs mu.
func (t *tag) countIdle() int8 {
	if total := t.total(); total != t.idleTotal || len(t.busy.parked) > 0 || t.loading() > 0 {
		t.idleTotal, t.idleCalls = total, 0
	} else {
		t.idleCalls++
	}
	return t.idleCalls
}

// drop drops a tag. Its parked requests get err. It needs the tag's mu.
func (a *Allocator) drop(t *tag, err error) {
	t.dropped = true
	a.tags.Delete(t.name)
	if t.order == "" {
		a.unknown.Add(-1)
	}
	a.burnt.Add(t.available())
	t.cur.Store(&empty)
	t.busy.ready, t.busy.load = nil, load{}
	t.failParked(forever, err)
}

// refusal is an error that requests get until a moment.
type refusal struct {
	err   error
	until time.Duration
	least int64 // requests for fewer IDs may succeed
}

// current returns the error, until the moment has come.
func (r refusal) current(now time.Duration) error {
	if now < r.until {
		return r.err
	}
	return nil
}

// maxRefused bounds the names whose refusals are kept. Where more are refused
// within Config.ReAsk, requests for some of them cost another load.
const maxRefused = 32_768

// addRefusal keeps the reason why the load of a dropped tag was refused.
func (a *Allocator) addRefusal(name string, r refusal) {
	if a.refused.Size() >= maxRefused {
		a.refused.Clear()
	}
	a.refused.Store(name, r)
}

// RefuseUnknown makes requests for tags that are not held fail with err for
// some time, because loaders are overloaded. It does not affect tags that are
// held.
func (a *Allocator) RefuseUnknown(err error, d time.Duration) {
	a.refusedAll.Store(&refusal{err: err, until: a.cfg.Clock() + d})
}
