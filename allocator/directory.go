package allocator

import "maps"

// Update sets the configured steps of tags, at least 1 each, which adds the tags that
// are new; and it removes others. Requests for a tag that was never added, or was
// removed, get store.ErrNoTag from memory.
//
// The map of tags is copied, so that Take can read it without a lock: many changes
// belong in one call.
func (a *Allocator) Update(steps map[string]int64, removed ...string) {
	for _, e := range a.replaceMap(steps, removed) {
		a.perform(e)
	}
}

// replaceMap does the work of Update under its lock, and returns what is left to do once
// the lock is released.
func (a *Allocator) replaceMap(steps map[string]int64, removed []string) (todo []effects) {
	a.edit.Lock()
	defer a.edit.Unlock()
	tags := maps.Clone(*a.tags.Load())
	apply := func(t *tag, change func() []reply) {
		if e := a.apply(t, change); !e.none() {
			todo = append(todo, e)
		}
	}
	for name, step := range steps {
		t := tags[name]
		if t == nil {
			t = &tag{name: name}
			tags[name] = t
		}
		apply(t, func() []reply {
			t.setConfigured(step)
			return nil
		})
	}
	for _, name := range removed {
		t := tags[name]
		if t == nil {
			continue
		}
		apply(t, func() []reply {
			if t.high == 0 { // nothing to remember
				delete(tags, name)
			}
			return t.forget()
		})
	}
	a.tags.Store(&tags)
	return todo
}

// Missing returns the tags that are not in steps, and how many tags there are, those that were
// removed not among them.
func (a *Allocator) Missing(steps map[string]int64) (missing []string, tags int) {
	for name, t := range *a.tags.Load() {
		t.mu.Lock()
		there := t.configured > 0
		t.mu.Unlock()
		if !there {
			continue
		}
		tags++
		if _, ok := steps[name]; !ok {
			missing = append(missing, name)
		}
	}
	return missing, tags
}
