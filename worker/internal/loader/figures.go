package loader

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/idworker/idworker/internal/metric"
)

// callCounts counts the store calls by outcome.
type callCounts map[string]*atomic.Int64

func newCounts() callCounts {
	return callCounts{"ok": {}, "no_tag": {}, "exhausted": {}, "failed": {}, "no_new_tag": {}}
}

// Figures has a loader's figures since its start.
type Figures struct {
	Calls    Calls
	Outage   Outage
	Endings  Endings
	Failures Failures
	Server   string // the database server that answered lately
	Limit    int64  // below which tags end
}

// Calls counts a loader's calls of the store.
type Calls struct {
	Writes   int64 `json:"writes"` // calls, of any outcome
	Failures int64 `json:"failures"`
	Burnt    int64 `json:"burnt"` // ranges that the store discarded
}

// Figures returns the figures.
func (l *Loader) Figures() Figures {
	f := Figures{Outage: l.schedule.outage()}
	for _, n := range l.counts {
		f.Calls.Writes += n.Load()
	}
	f.Calls.Failures = l.counts["failed"].Load()
	of := l.cfg.Store.Figures()
	f.Calls.Burnt, f.Server, f.Limit = of.Burnt, of.Server, l.cfg.Store.Limited()
	f.Endings, f.Failures = l.endings.report(f.Limit), l.failures.report()
	return f
}

var (
	loadsTotal   = metric.Declare("loads_total", "Store calls for a segment, by outcome.", "outcome")
	loadDuration = metric.Declare("load_duration_seconds", "Duration of store calls for a segment.")
	endingTags   = metric.Declare("store_ending_tags", "Tags that a loader found to be exhausted, or to have less than a tenth of all numbers left.", "state")
	failingTags  = metric.Declare("store_failing_tags", "Tags that a loader cannot grant, although the store works.")
	storeOutage  = metric.Declare("store_outage", "1 if the store is failing, else 0.")
	outagesTotal = metric.Declare("store_outages_total", "Store outages, including the current one.")

	wentBackTotal = metric.Declare("store_went_back_total", "Times a table row or the register regressed.", "what")
	storeStopped  = metric.Declare("store_stopped", "1 if the loader stopped granting because the register regressed.")
	grantedTotal  = metric.Declare("store_granted_total", "Ranges reserved and granted.")
	burntTotal    = metric.Declare("store_burnt_total", "Ranges discarded: below an earlier grant, or outcome unknown.")
)

// Collect sends the metrics of the loader and of its store.
func (l *Loader) Collect(to metric.Sink) {
	for _, name := range slices.Sorted(maps.Keys(l.counts)) {
		to.Counter(loadsTotal, l.counts[name].Load(), name)
	}
	to.Histogram(loadDuration, &l.latency, 0)
	f := l.cfg.Store.Figures()
	endings := l.endings.report(l.cfg.Store.Limited())
	to.Gauge(endingTags, float64(endings.Exhausted), "exhausted")
	to.Gauge(endingTags, float64(endings.Soon), "soon")
	to.Gauge(failingTags, float64(l.failures.report().Tags))
	outage := l.schedule.outage()
	to.BoolGauge(storeOutage, outage.Now)
	to.Counter(outagesTotal, outage.Times)

	to.Counter(wentBackTotal, f.RowsBack, "table")
	to.Counter(wentBackTotal, f.Regressions, "register")
	to.BoolGauge(storeStopped, l.cfg.Store.Stopped() != nil)
	to.Counter(grantedTotal, f.Granted)
	to.Counter(burntTotal, f.Burnt)
}
