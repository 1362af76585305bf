package e2e

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/idworker/idworker/messages"
)

// ledger has a bit for every ID of a tag, so that every duplicate shows. Any
// number of goroutines may add to it.
type ledger struct {
	tag   string
	pages sync.Map // number of the page → *page
	ids   atomic.Int64

	twice atomic.Int64 // IDs that were there already
	once  atomic.Int64 // the first of them
}

const pageSize = 1 << 20 // IDs

type page [pageSize / 64]atomic.Uint64

// add marks the IDs of a reply.
func (l *ledger) add(ranges []messages.Range) {
	for id := range messages.IDs(ranges) {
		if !l.mark(id) && l.twice.Add(1) == 1 {
			l.once.Store(id)
		}
		l.ids.Add(1)
	}
}

// mark sets the bit of an ID and reports whether it was not set before.
func (l *ledger) mark(id int64) bool {
	p, ok := l.pages.Load(id / pageSize)
	if !ok {
		p, _ = l.pages.LoadOrStore(id/pageSize, new(page))
	}
	at, bit := id%pageSize, uint64(1)<<(id%64)
	return p.(*page)[at/64].Or(bit)&bit == 0
}

// check fails the test if an ID was added twice.
func (l *ledger) check(t testing.TB) {
	t.Helper()
	if n := l.twice.Load(); n > 0 {
		t.Errorf("DUPLICATE: of %d IDs of %s, %d were handed out before, for one %d", l.ids.Load(), l.tag, n, l.once.Load())
	}
}

// ledgers are those of several tags.
type ledgers map[string]*ledger

func newLedgers(tags []string) ledgers {
	all := make(ledgers)
	for _, tag := range tags {
		all[tag] = &ledger{tag: tag}
	}
	return all
}

// ids is the number of IDs handed out.
func (all ledgers) ids() (n int64) {
	for _, l := range all {
		n += l.ids.Load()
	}
	return n
}

func (all ledgers) check(t testing.TB) {
	t.Helper()
	for _, l := range all {
		l.check(t)
	}
}
