package allocator

import "github.com/idworker/idworker/store"

// Tags that come into being when they are first asked for. Config.FirstUse says which; Update knows
// nothing of them. There may be a hundred times as many as fit into memory, so those that nobody asks
// for are forgotten, with what is left of their segment, which is burnt, and with their high:
//
//	unknown   a request, and FirstUse has a step for it → fresh
//	fresh     its first grant → like any tag; a refusal, or [Allocator.DropIdle] → unknown
//	granted   DropIdle, twice in a row with no ID handed out in between, nothing parked and no
//	          load under way → unknown; [Allocator.Update] removes it → unknown
//
// # What is lost with high
//
// High keeps out two things. The first are grants that come late: of loads that were asked for before
// the tag was forgotten, whose range lies below what was handed out since. For them there is another
// rule. A fresh tag takes no grant but the one for the load under way, which was asked for after all
// that; the numbers of loads are never used again. The second is a store that went back. A worker that
// has forgotten what it was granted cannot tell any more. What protects then is what protects other
// workers' ranges: the register, see store/register.

// activateOrMake returns the tag with its buffers. One that is not known, or was removed, comes into
// being if Config.FirstUse says so.
func (a *Allocator) activateOrMake(name string) (*tag, error) {
	if t := a.activate(name); t != nil && t.isConfigured() {
		return t, nil
	}
	step, err := a.cfg.FirstUse(name)
	if err != nil {
		return nil, err
	}
	count, hasRoom := a.fresh.find(a.cfg.Template(name), a.cfg)
	if !hasRoom {
		return nil, ErrBusy
	}
	t, todo := a.makeTag(name, step, count)
	a.perform(todo)
	return t, nil
}

func (t *tag) isConfigured() bool {
	t.lock()
	defer t.unlock()
	return t.configured > 0 || t.dropped
}

// makeTag makes a tag with its buffers, unless somebody has meanwhile, and returns what is left to do
// without locks.
func (a *Allocator) makeTag(name string, step int64, count *freshCount) (t *tag, todo effects) {
	a.tags.edit.Lock()
	defer a.tags.edit.Unlock()
	e := a.tags.find(name)
	if e == nil {
		e = &entry{name: name}
		a.tags.entries.Store(name, e)
	}
	if e.step == 0 {
		e.firstUse = true
		todo = a.setStep(e, step)
	}
	t = a.tags.make(e)
	t.lock()
	defer t.unlock()
	t.mayIdle = e.firstUse
	if e.firstUse && t.high == 0 && t.fresh == nil {
		t.fresh = count
		count.add(1)
	}
	return t, todo
}

// DropIdle forgets the tags that came into being by Config.FirstUse and were not asked for since it was
// last called. It returns how many.
func (a *Allocator) DropIdle() (dropped int) {
	for _, t := range a.tags.listActive() {
		todo, idle := a.dropIf(t.name, t, store.ErrNoTag, (*tag).isIdle)
		a.perform(todo)
		if idle {
			dropped++
		}
	}
	return dropped
}

// isIdle reports whether nothing was wanted of the tag since this was last asked. It needs mu.
func (t *tag) isIdle() bool {
	total := t.meter.total(t.cur.Load()) + 1 // 0 is no look
	idle := t.lookedAt == total && len(t.busy.parked) == 0 && (t.busy.load.seq == 0 || t.fresh != nil)
	t.lookedAt = total
	return idle
}

// dropIf forgets a tag that came into being by Config.FirstUse, if a condition holds, which is asked with
// its lock held. Its parked requests get err.
func (a *Allocator) dropIf(name string, t *tag, err error, condition func(*tag) bool) (todo effects, dropped bool) {
	a.tags.edit.Lock()
	defer a.tags.edit.Unlock()
	e := a.tags.find(name)
	if e == nil || !e.firstUse || e.tag.Load() != t {
		return todo, false
	}
	todo = a.apply(t, func() (replies []reply) {
		if dropped = condition(t); !dropped {
			return nil
		}
		a.drop(e, t)
		return t.forget(err)
	})
	return todo, dropped
}

// drop removes a tag from the table. It needs edit and the tag's mu.
func (a *Allocator) drop(e *entry, t *tag) {
	a.tags.drop(e)
	t.dropped = true
	t.settle()
}

// RefuseFirstUse is Refuse for a load that a loader refuses because there shall be no such tag: if the tag
// is fresh, it is forgotten. Its requests get err. It reports whether that was so.
func (a *Allocator) RefuseFirstUse(name string, seq uint64, err error) (forgotten bool) {
	t := a.find(name)
	if t == nil {
		return false
	}
	todo, forgotten := a.dropIf(name, t, err, func(t *tag) bool { return t.fresh != nil && seq == t.busy.load.seq })
	a.perform(todo)
	return forgotten
}

// FirstUses is how many tags in memory came into being by Config.FirstUse.
func (a *Allocator) FirstUses() (n int) {
	a.tags.edit.Lock()
	defer a.tags.edit.Unlock()
	for _, t := range a.tags.active {
		if e := a.tags.find(t.name); e != nil && e.firstUse {
			n++
		}
	}
	return n
}

// Reconsider asks again about the tags that came into being by Config.FirstUse: those with a step have
// that from now on, those without, 0, are removed.
func (a *Allocator) Reconsider(step func(name string) int64) {
	for _, t := range a.tags.listActive() {
		if n := step(t.name); n > 0 {
			a.perform(a.changeFirstUse(t.name, n))
		} else {
			todo, _ := a.dropIf(t.name, t, store.ErrNoTag, func(*tag) bool { return true })
			a.perform(todo)
		}
	}
}

func (a *Allocator) changeFirstUse(name string, step int64) (todo effects) {
	a.tags.edit.Lock()
	defer a.tags.edit.Unlock()
	if e := a.tags.find(name); e != nil && e.firstUse && e.step > 0 {
		todo = a.setStep(e, step)
	}
	return todo
}
