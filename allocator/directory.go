package allocator

import "maps"

// Update sets the configured steps of tags, at least 1 each, which adds those that
// are new; and it removes others. Requests for tags that were never added, or were
// removed, get store.ErrNoTag from memory.
//
// The map is copied, so that Take can read it without a lock: many changes belong
// in one call.
func (a *Allocator) Update(steps map[string]int64, removed ...string) {
	a.edit.Lock()
	defer a.edit.Unlock()
	tags := maps.Clone(*a.tags.Load())
	for name, step := range steps {
		t := tags[name]
		if t == nil {
			t = &tag{name: name}
			tags[name] = t
		}
		a.update(t, func() []reply {
			t.configure(step)
			return nil
		})
	}
	for _, name := range removed {
		t := tags[name]
		if t == nil {
			continue
		}
		a.update(t, func() []reply {
			if t.high == 0 { // nothing to remember
				delete(tags, name)
			}
			return t.remove()
		})
	}
	a.tags.Store(&tags)
}

// Replace makes steps the configured steps of all tags there are: Update, with
// every other tag removed.
func (a *Allocator) Replace(steps map[string]int64) {
	var gone []string
	for name := range *a.tags.Load() {
		if _, stays := steps[name]; !stays {
			gone = append(gone, name)
		}
	}
	a.Update(steps, gone...)
}
