package allocator

// UnderWay reports whether load seq of a tag is wanted and not served yet.
func (a *Allocator) UnderWay(name string, seq uint64) bool {
	t, ok := a.tags.Load(name)
	if !ok {
		return false
	}
	t.lock()
	defer t.unlock()
	return seq != 0 && seq == t.busy.load.seq
}
