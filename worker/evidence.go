package worker

import "github.com/idworker/idworker/store/ledger"

// ledgered is a store with a ledger.
type ledgered interface{ Figures() ledger.Figures }

// collectEvidence collects the metrics of stores and registers that went back. What the ledger
// finds out about its store, the memory in front of it never sees.
func (l *loading) collectEvidence(to sink) {
	memory, f := l.guard.Figures(), l.ledgerFigures()
	to.counter(wentBackMetric, memory.Store+f.WentBack, "store")
	to.counter(wentBackMetric, memory.Register, "register")
	to.counter(ledgerMetric, f.Granted-f.Unrecorded, "yes")
	to.counter(ledgerMetric, f.Unrecorded, "no")
	to.counter(ledgerBurntMetric, f.Burnt)
}

// ledgerFigures are all 0 without a ledger.
func (l *loading) ledgerFigures() ledger.Figures {
	if s, ok := l.cfg.Store.(ledgered); ok {
		return s.Figures()
	}
	return ledger.Figures{}
}
