package register

import (
	"sync"

	"github.com/idworker/idworker/store"
)

// Echoes tells the writes of this process from those of others, when a watch shows them. The
// mark of a write may come before the write's answer, when nobody knows yet whose it is. So
// the marks of a key wait while a write to it is under way. The zero value is ready for use.
type Echoes struct {
	mu       sync.Mutex
	watchers map[*watcher]bool
	keys     map[string]*key
}

// watcher is one watch of the bucket.
type watcher struct {
	see func(store.Mark)
}

// key is a key that this process has written.
type key struct {
	own     store.Mark // its latest write
	writing int        // writes under way
	waiting []waiting
}

// waiting is a mark that waits for the outcome of a write.
type waiting struct {
	to   *watcher
	mark store.Mark
}

// listen begins a watch, whose marks are told to see until stop is called.
func (e *Echoes) listen(see func(store.Mark)) (w *watcher, stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watchers == nil {
		e.watchers = make(map[*watcher]bool)
	}
	w = &watcher{see}
	e.watchers[w] = true
	return w, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.watchers, w)
	}
}

// begin says that a write to a key begins.
func (e *Echoes) begin(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keys == nil {
		e.keys = make(map[string]*key)
	}
	if e.keys[name] == nil {
		e.keys[name] = new(key)
	}
	e.keys[name].writing++
}

// end says that a write has ended; wrote is what it is known to have written, else empty. That
// is told first, and then the marks that have been waiting for it.
func (e *Echoes) end(name string, wrote store.Mark) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.keys[name]
	if wrote.Revision != 0 {
		k.own = wrote
		for w := range e.watchers {
			w.see(wrote) // a watch of a stream that was put back would not show it
		}
	}
	for i, one := range k.waiting {
		k.waiting[i].mark.Own = one.mark.Own || k.wrote(one.mark)
	}
	if k.writing--; k.writing > 0 {
		return // another one's mark may be among those that wait
	}
	for _, one := range k.waiting {
		e.tell(one)
	}
	k.waiting = nil
}

// receive takes a mark from a watch.
func (e *Echoes) receive(w *watcher, mark store.Mark) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.keys[mark.Tag]
	if k != nil {
		mark.Own = k.wrote(mark)
		if k.writing > 0 {
			k.waiting = append(k.waiting, waiting{w, mark})
			return
		}
	}
	e.tell(waiting{w, mark})
}

// wrote reports whether a mark is that of the latest write. A register that was put back uses
// revisions again, so the end counts too: what this process wrote it had been given itself.
func (k *key) wrote(mark store.Mark) bool {
	return mark.Revision == k.own.Revision && mark.End == k.own.End
}

func (e *Echoes) tell(one waiting) {
	if e.watchers[one.to] {
		one.to.see(one.mark)
	}
}
