package allocator

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

// entry is a tag that is known. An idle one, which nobody has asked for, is no more than that:
// its buffers are made when they are needed first.
type entry struct {
	name string
	step int64 // the configured step, 0 if the tag was removed; guarded by its shard's mu
	tag  atomic.Pointer[tag]
	cur  atomic.Pointer[segment] // the tag's; here, it is one cache line less away
}

// table is the map of tags by name. Reads take no lock and allocate nothing. A change costs the
// same however many tags there are, but for one in a while that makes a shard larger.
//
// It is a hash table with linear probing in each shard. A slot is filled once, and stays
// filled until the shard is copied into more slots, so whoever reads sees every entry that was
// added before.
type table struct {
	seed   maphash.Seed
	shards [shards]shard
	count  atomic.Int64 // of entries
}

// shards is so many that copying one of them takes some microseconds with a million tags.
const (
	shardBits = 10
	shards    = 1 << shardBits
)

// shard has the tags whose hashes begin with the same bits.
type shard struct {
	slots atomic.Pointer[slotList]

	mu     sync.Mutex // held while anything of the shard is changed
	filled int        // slots that are
	active []*tag     // those of its tags that have buffers
}

// slotList has a power of two of slots, and at most three quarters of them are filled.
type slotList []slot

// slot has the hash beside the entry, so that those of other names need not be looked at, which are
// seldom in the processor's cache.
type slot struct {
	hash  uint64 // written before the entry
	entry atomic.Pointer[entry]
}

const minSlots = 4

// dropped fills the slots of entries that were removed.
var dropped = new(entry)

func newTable() *table { return &table{seed: maphash.MakeSeed()} }

// shard returns the shard of a name, and its hash.
func (t *table) shard(name string) (s *shard, hash uint64) {
	hash = maphash.String(t.seed, name)
	return &t.shards[hash>>(64-shardBits)], hash
}

// find returns the entry, or nil.
func (t *table) find(name string) *entry {
	s, hash := t.shard(name)
	if at := s.slots.Load(); at != nil {
		return at.probe(hash, name).entry.Load()
	}
	return nil
}

// probe returns the slot of a name, or the one that is free for it.
func (s slotList) probe(hash uint64, name string) *slot {
	for i := hash; ; i++ {
		at := &s[i&uint64(len(s)-1)]
		if e := at.entry.Load(); e == nil || at.hash == hash && e.name == name && e != dropped {
			return at
		}
	}
}

// fill puts an entry into the slot that is free for it.
func (s slotList) fill(hash uint64, e *entry) {
	at := s.probe(hash, e.name)
	at.hash = hash
	at.entry.Store(e)
}

// The methods below need the shard's mu.

// get returns the entry, or nil.
func (s *shard) get(hash uint64, name string) *entry {
	if at := s.slots.Load(); at != nil {
		return at.probe(hash, name).entry.Load()
	}
	return nil
}

// add adds an entry that is not there yet.
func (t *table) add(s *shard, hash uint64, e *entry) {
	at := s.slots.Load()
	if at == nil || (s.filled+1)*4 > len(*at)*3 {
		at = t.copySlots(s)
	}
	at.fill(hash, e)
	s.filled++
	t.count.Add(1)
}

// drop removes an entry.
func (t *table) drop(s *shard, hash uint64, e *entry) {
	s.slots.Load().probe(hash, e.name).entry.Store(dropped)
	t.count.Add(-1)
}

// copySlots makes room for one more entry. What was dropped stays behind.
func (t *table) copySlots(s *shard) *slotList {
	var entries []*entry
	s.each(func(e *entry) { entries = append(entries, e) })
	n := minSlots
	for n < 2*(len(entries)+1) {
		n *= 2
	}
	larger := make(slotList, n)
	for _, e := range entries {
		larger.fill(maphash.String(t.seed, e.name), e)
	}
	s.filled = len(entries)
	s.slots.Store(&larger)
	return &larger
}

// each calls do for every entry.
func (s *shard) each(do func(*entry)) {
	at := s.slots.Load()
	if at == nil {
		return
	}
	for i := range *at {
		if e := (*at)[i].entry.Load(); e != nil && e != dropped {
			do(e)
		}
	}
}

// activate returns the entry's tag, and makes it if nobody has needed it before. It returns nil
// if the entry was removed meanwhile.
func (t *table) activate(e *entry) *tag {
	if has := e.tag.Load(); has != nil {
		return has
	}
	s, _ := t.shard(e.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if has := e.tag.Load(); has != nil || e.step == 0 {
		return has
	}
	made := &tag{name: e.name, cur: &e.cur, configured: e.step}
	e.tag.Store(made)
	s.active = append(s.active, made)
	return made
}

// deactivate forgets that a tag has buffers, because it is not known any more.
func (s *shard) deactivate(t *tag) {
	s.active = slices.DeleteFunc(s.active, func(other *tag) bool { return other == t })
}

// active returns all tags that have buffers.
func (t *table) active() (all []*tag) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		all = append(all, s.active...)
		s.mu.Unlock()
	}
	return all
}
