package allocator

import (
	"sync"
	"time"
)

// Tags come into memory with the first request for their name, and leave it
//
//   - unknown, when no request is parked any more, or when their load is refused;
//   - strict, when a load is refused;
//   - when they are idle (DropIdle) or removed (Remove).
//
// Nothing of a dropped tag stays, except that a refusal is remembered for a second.
// A tag that comes back is unknown, and an unknown tag takes only the grant of its
// open load, which was requested after all that. So a late grant gets in nowhere.

// A tag without requests for an hour leaves memory: most names that are used once,
// such as one for each day, never come back. At 300 bytes a tag, manyTags take 30 MB;
// with more of them, a minute without requests is enough.
const (
	idleCalls = 60
	manyTags  = 100_000
)

// findOrMake returns the tag of that name, which it makes if there is none, or the
// error that a request for it gets.
func (a *Allocator) findOrMake(name string) (*tag, error) {
	if t, ok := a.tags.Load(name); ok {
		return t, nil
	}
	if err := a.refused.find(name, a.cfg.Clock()); err != nil {
		return nil, err
	}
	if a.unknown.Add(1) > int64(a.cfg.MaxUnknown) {
		a.unknown.Add(-1)
		return nil, ErrBusy
	}
	t, found := a.tags.LoadOrStore(name, &tag{name: name})
	if found {
		a.unknown.Add(-1)
	}
	return t, nil
}

// Remove drops a tag, with the IDs in memory. Its parked requests get ErrDropped: that the
// tag was removed does not prove that there is none by now.
func (a *Allocator) Remove(name string) {
	if t, ok := a.tags.Load(name); ok {
		a.update(t, func() []reply { return a.drop(t, ErrDropped) })
	}
}

// DropIdle drops the tags without requests for the latest 60 calls, or for one if
// more than 100,000 tags are in memory, and returns how many it dropped. Call it once
// a minute.
func (a *Allocator) DropIdle() (dropped int) {
	a.refused.age()
	calls := int8(idleCalls)
	if a.Tags() > manyTags {
		calls = 1
	}
	for _, t := range a.tags.All() {
		a.update(t, func() []reply {
			if t.dropped || t.countIdle() < calls {
				return nil
			}
			dropped++
			return a.drop(t, ErrDropped)
		})
	}
	return dropped
}

// countIdle returns for how many calls in a row nothing was requested of the tag. It
// needs mu.
func (t *tag) countIdle() int8 {
	if total := t.meter.total(t.cur.Load()); total != t.idleTotal || len(t.busy.parked) > 0 || t.busy.load.seq != 0 {
		t.idleTotal, t.idleCalls = total, 0
	} else {
		t.idleCalls++
	}
	return t.idleCalls
}

// drop takes a tag out of memory. Its parked requests get err. It needs the tag's mu.
func (a *Allocator) drop(t *tag, err error) []reply {
	if t.dropped {
		return nil
	}
	t.dropped = true
	a.tags.Delete(t.name)
	if t.order == "" {
		a.unknown.Add(-1)
	}
	a.burnt.Add(t.available())
	t.cur.Store(nil)
	t.busy.ready, t.busy.load = nil, loadState{}
	return t.failParked(err)
}

// refusals remembers why loads of tags that left memory were refused. It holds two
// generations, of maxRefused names each.
type refusals struct {
	mu         sync.Mutex
	young, old map[string]refusal
	all        refusal // of all names that are not in memory
}

type refusal struct {
	err   error
	until time.Duration
}

const maxRefused = 16_384

func (r *refusals) add(name string, err error, until time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.young) >= maxRefused {
		r.young, r.old = nil, r.young
	}
	if r.young == nil {
		r.young = make(map[string]refusal)
	}
	r.young[name] = refusal{err, until}
}

// find returns the error of a refusal that is still remembered.
func (r *refusals) find(name string, now time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now < r.all.until {
		return r.all.err
	}
	found, ok := r.young[name]
	if !ok {
		found = r.old[name]
	}
	if now >= found.until {
		return nil
	}
	return found.err
}

// RefuseUnknown has requests for tags that are not in memory fail with err for some time:
// loaders have no time for them. Tags in memory are not affected.
func (a *Allocator) RefuseUnknown(err error, d time.Duration) {
	a.refused.mu.Lock()
	defer a.refused.mu.Unlock()
	a.refused.all = refusal{err, a.cfg.Clock() + d}
}

// age forgets the older generation.
func (r *refusals) age() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.young, r.old = nil, r.young
}
