package allocator

import (
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

	tag atomic.Pointer[tag]
	cur atomic.Pointer[segment] // the tag's; here, it is one cache line less away
}

// table has the tags by name. Reads take no lock and allocate nothing. A change costs the same
// however many tags there are.
type table struct {
	entries *xsync.Map[string, *entry]

	edit   sync.Mutex // held while anything is changed
	active []*tag     // those that have buffers
}

func newTable() *table {
	return &table{entries: xsync.NewMap[string, *entry]()}
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
	made := &tag{entry: e, configured: e.step, index: int32(len(t.active))}
	e.tag.Store(made)
	t.active = append(t.active, made)
	return made
}

// drop removes an entry. It needs edit.
func (t *table) drop(e *entry) {
	t.entries.Delete(e.name)
	if gone := e.tag.Load(); gone != nil {
		last := t.active[len(t.active)-1]
		t.active[gone.index], last.index = last, gone.index
		t.active[len(t.active)-1] = nil
		t.active = t.active[:len(t.active)-1]
	}
}

// listActive returns all tags that have buffers.
func (t *table) listActive() []*tag {
	t.edit.Lock()
	defer t.edit.Unlock()
	return slices.Clone(t.active)
}
