package allocator

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
	s, hash := a.tags.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.get(hash, name)
	if e == nil {
		a.tags.add(s, hash, &entry{name: name, step: step})
		return todo
	}
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
	s, hash := a.tags.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.get(hash, name)
	if e == nil {
		return todo
	}
	e.step = 0
	t := e.tag.Load()
	if t == nil {
		a.tags.drop(s, hash, e)
		return todo
	}
	return a.apply(t, func() []reply {
		if t.high == 0 { // nothing to remember
			a.tags.drop(s, hash, e)
			s.deactivate(t)
		}
		return t.forget()
	})
}

// Missing returns the tags that are not in steps, and how many tags there are, those that were
// removed not among them.
func (a *Allocator) Missing(steps map[string]int64) (missing []string, tags int) {
	for i := range a.tags.shards {
		s := &a.tags.shards[i]
		s.mu.Lock()
		s.each(func(e *entry) {
			if e.step == 0 {
				return
			}
			tags++
			if _, ok := steps[e.name]; !ok {
				missing = append(missing, e.name)
			}
		})
		s.mu.Unlock()
	}
	return missing, tags
}
