package allocator

import "github.com/idworker/idworker/store"

// Update sets the configured steps of tags, at least 1 each, which adds the tags that
// are new; and it removes others. Requests for a tag that was never added, or was
// removed, get store.ErrNoTag from memory.
func (a *Allocator) Update(steps map[string]int64, removed ...string) {
	for name, step := range steps {
		a.perform(a.configure(name, step))
	}
	for _, name := range removed {
		a.perform(a.remove(name))
	}
}

// configure sets the configured step of a tag, and returns what is left to do without locks.
func (a *Allocator) configure(name string, step int64) (todo effects) {
	a.tags.edit.Lock()
	defer a.tags.edit.Unlock()
	e := a.tags.find(name)
	if e == nil {
		a.tags.entries.Store(name, &entry{name: name, step: step})
		return todo
	}
	e.firstUse = false
	return a.setStep(e, step)
}

// setStep sets the configured step of an entry. It needs edit.
func (a *Allocator) setStep(e *entry, step int64) (todo effects) {
	e.step = step
	if t := e.tag.Load(); t != nil {
		todo = a.apply(t, func() []reply {
			t.setConfigured(step)
			return nil
		})
	}
	return todo
}

// remove removes a tag, and returns what is left to do without locks.
func (a *Allocator) remove(name string) (todo effects) {
	a.tags.edit.Lock()
	defer a.tags.edit.Unlock()
	e := a.tags.find(name)
	if e == nil {
		return todo
	}
	e.step = 0
	t := e.tag.Load()
	if t == nil {
		a.tags.drop(e)
		return todo
	}
	return a.apply(t, func() []reply {
		if t.high == 0 || e.firstUse { // nothing to remember, or it shall not be
			a.drop(e, t)
		}
		return t.forget(store.ErrNoTag)
	})
}

// Missing returns the tags that are not in steps, and how many tags there are, of those that Update
// has added and not removed.
func (a *Allocator) Missing(steps map[string]int64) (missing []string, tags int) {
	a.tags.edit.Lock()
	defer a.tags.edit.Unlock()
	for name, e := range a.tags.entries.All() {
		if e.step == 0 || e.firstUse {
			continue
		}
		tags++
		if _, ok := steps[name]; !ok {
			missing = append(missing, name)
		}
	}
	return missing, tags
}
