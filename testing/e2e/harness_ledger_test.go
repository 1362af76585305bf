package e2e

import (
	"math/bits"
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
	for _, r := range ranges {
		for first := r.First; first <= r.Last; {
			last := min(r.Last, first|63)
			if had := l.mark(first, last); had != 0 && l.twice.Add(int64(bits.OnesCount64(had))) == int64(bits.OnesCount64(had)) {
				l.once.Store(first&^63 + int64(bits.TrailingZeros64(had)))
			}
			l.ids.Add(last - first + 1)
			first = last + 1
		}
	}
}

// mark sets the bits of IDs in a single word, and returns those that were set
// before.
func (l *ledger) mark(first, last int64) uint64 {
	p, ok := l.pages.Load(first / pageSize)
	if !ok {
		p, _ = l.pages.LoadOrStore(first/pageSize, new(page))
	}
	mask := ^uint64(0) >> (63 - (last - first)) << (first % 64)
	return p.(*page)[first%pageSize/64].Or(mask) & mask
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
