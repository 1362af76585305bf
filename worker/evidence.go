package worker

// collectEvidence collects what the store did with ranges, and whether it stopped.
func (l *loading) collectEvidence(to sink) {
	f := l.cfg.Store.Figures()
	to.counter(wentBackMetric, f.RowsBack, "table")
	to.counter(wentBackMetric, f.Regressions, "register")
	to.yes(stoppedMetric, l.cfg.Store.Stopped() != nil)
	to.counter(grantedMetric, f.Granted)
	to.counter(storeBurntMetric, f.Burnt)
}
