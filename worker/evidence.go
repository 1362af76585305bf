package worker

import "github.com/idworker/idworker/store/ledger"

// ledgered is a store with a ledger.
type ledgered interface{ Figures() ledger.Figures }

// collectEvidence collects the metrics of stores and registers that went back. What the ledger
// finds out about its store, the memory in front of it never sees.
func (l *loading) collectEvidence(to sink) {
	went := l.guard.Figures()
	if s, ok := l.cfg.Store.(ledgered); ok {
		f := s.Figures()
		went.Store += f.WentBack
		to.counter(ledgerMetric, f.Granted-f.Unrecorded, "yes")
		to.counter(ledgerMetric, f.Unrecorded, "no")
		to.counter(ledgerBurntMetric, f.Burnt)
	}
	to.counter(wentBackMetric, went.Store, "store")
	to.counter(wentBackMetric, went.Register, "register")
}
