package e2e

import (
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/order"
)

// ledger has the IDs of a tag, so that every duplicate shows.
type ledger struct {
	tag string
	order.Ledger
}

// add adds the IDs of a reply.
func (l *ledger) add(ranges []messages.Range) {
	n := int64(0)
	for _, r := range ranges {
		n += r.Len()
	}
	l.Add(l.tag, n, ranges...)
}

// ids is the number of IDs handed out.
func (l *ledger) ids() int64 { return l.Sum(l.tag) }

func (l *ledger) check(t testing.TB) {
	t.Helper()
	l.Check(t)
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

func (all ledgers) ids() (n int64) {
	for _, l := range all {
		n += l.ids()
	}
	return n
}

func (all ledgers) check(t testing.TB) {
	t.Helper()
	for _, l := range all {
		l.Check(t)
	}
}
