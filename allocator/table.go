package allocator

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"
)

// entry is a tag that is known. An idle one, which nobody has asked for, is no more than that:
// its buffers are made when they are needed first.
type entry struct {
	name string
	step int64 // the configured step, 0 if the tag was removed; guarded by the table's edit

	firstUse bool // it came into being by Config.FirstUse; guarded by the table's edit

	tag  atomic.Pointer[tag]
	cur  atomic.Pointer[segment] // the tag's; here, it is one cache line less away
}

// table has the tags by name. Reads take no lock and allocate nothing. A change costs the same
// however many tags there are.
type table struct {
	entries *xsync.Map[string, *entry]

	edit   sync.Mutex        // held while anything is changed
	active map[*tag]struct{} // those that have buffers
}

func newTable() *table {
	return &table{entries: xsync.NewMap[string, *entry](), active: make(map[*tag]struct{})}
}

// find returns the entry, or nil.
func (t *table) find(name string) *entry {
	e, _ := t.entries.Load(name)
	return e
}

// activate returns the entry's tag, and makes it if nobody has needed it before. It returns nil
// if the entry was removed meanwhile.
func (t *table) activate(e *entry) *tag {
	if has := e.tag.Load(); has != nil {
		return has
	}
	t.edit.Lock()
	defer t.edit.Unlock()
	return t.make(e)
}

// make is activate for who holds edit.
func (t *table) make(e *entry) *tag {
	if has := e.tag.Load(); has != nil || e.step == 0 {
		return has
	}
	made := &tag{name: e.name, cur: &e.cur, configured: e.step}
	e.tag.Store(made)
	t.active[made] = struct{}{}
	return made
}

// drop removes an entry. It needs edit.
func (t *table) drop(e *entry) {
	t.entries.Delete(e.name)
	delete(t.active, e.tag.Load())
}

// listActive returns all tags that have buffers.
func (t *table) listActive() []*tag {
	t.edit.Lock()
	defer t.edit.Unlock()
	return slices.Collect(maps.Keys(t.active))
}
