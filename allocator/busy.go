package allocator

import "sync"

// busySet holds the tags that Tick has to visit: those with parked requests or a load
// under way. All others cost no time.
type busySet struct {
	mu   sync.Mutex
	tags map[*tag]struct{}
}

// set adds the tag or removes it.
func (b *busySet) set(t *tag, busy bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !busy {
		delete(b.tags, t)
		return
	}
	if b.tags == nil {
		b.tags = make(map[*tag]struct{})
	}
	b.tags[t] = struct{}{}
}

// list returns a copy of the set.
func (b *busySet) list() []*tag {
	b.mu.Lock()
	defer b.mu.Unlock()
	tags := make([]*tag, 0, len(b.tags))
	for t := range b.tags {
		tags = append(tags, t)
	}
	return tags
}
