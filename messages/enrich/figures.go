package enrich

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idworker/idworker/internal/metric"
	"github.com/idworker/idworker/internal/pause"
)

// Figures is a snapshot of an enricher's figures since its start.
type Figures struct {
	Events      int64 // published to the target by this enricher
	Batches     int64 // published
	DeadLetters int64 // published
	Turns       int64 // turns of this enricher
	// Events that the source removed before they were enriched.
	Lost int64

	// Lag is the number of events that wait in the source, Oldest the age of
	// the oldest of them. They are set only on the owner and on a failing
	// enricher.
	Lag    int64
	Oldest time.Duration
}

// The metrics. docs/monitoring.md describes their use.
var (
	eventsMetric  = metric.Declare("enriched_events_total", "Events published with an ID.", "enrichment")
	deadMetric    = metric.Declare("enrich_dead_letters_total", "Events sent to the dead-letter subject.", "enrichment")
	batchesMetric = metric.Declare("enrich_batches_total", "Batches published.", "enrichment")
	turnsMetric   = metric.Declare("enrich_turns_total", "Turns of this enricher.", "enrichment")
	lostMetric    = metric.Declare("enrich_lost_events_total", "Events that the source removed before enrichment.", "enrichment")
	lagMetric     = metric.Declare("enrich_lag_events", "Events waiting in the source; 0 while the enricher waits for its turn.", "enrichment")
	oldestMetric  = metric.Declare("enrich_oldest_event_seconds", "Age of the oldest event waiting in the source.", "enrichment")
	stopsMetric   = metric.Declare("enrich_stops_total", "Times that the enrichment began to fail, by reason.", "enrichment", "reason")
	failingMetric = metric.Declare("enrich_failing", "Whether the enrichment fails, 1 or 0.", "enrichment")
)

// figures are an enricher's counters since its start, and its present failure.
type figures struct {
	mu     sync.Mutex
	counts Figures // without Oldest
	// When the oldest waiting event was stored; zero if none waits.
	oldest time.Time

	owner bool
	done  uint64    // the source is enriched through this sequence
	moved time.Time // when done last advanced

	// Position of the last loss, and the number of its events already counted.
	lostBehind, lostThere uint64

	// An outage lasts until a batch has landed, or the source itself has no
	// waiting event.
	failing  string // reason of the last failure; empty if all is well
	text     string // of the last failure, for people
	logged   string // the text logged last
	loggedAt time.Time
	since    time.Time
	failures int
	stops    map[string]int64 // by reason
}

// update changes the figures.
func (f *figures) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// Figures returns the enricher's figures.
func (e *Enricher) Figures() (out Figures) {
	f := &e.figures
	f.update(func() {
		out = f.counts
		if !f.oldest.IsZero() {
			out.Oldest = max(time.Since(f.oldest), 0)
		}
	})
	return out
}

type metrics struct{ e *Enricher }

// Metrics collects the metrics of the enricher.
func (e *Enricher) Metrics() prometheus.Collector { return metrics{e} }

// Describe is part of prometheus.Collector.
func (m metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect is part of prometheus.Collector.
func (m metrics) Collect(ch chan<- prometheus.Metric) {
	to, name, f := metric.Sink{To: ch}, m.e.name, m.e.Figures()
	to.Counter(eventsMetric, f.Events, name)
	to.Counter(deadMetric, f.DeadLetters, name)
	to.Counter(batchesMetric, f.Batches, name)
	to.Counter(turnsMetric, f.Turns, name)
	to.Counter(lostMetric, f.Lost, name)
	to.Gauge(lagMetric, float64(f.Lag), name)
	to.Gauge(oldestMetric, f.Oldest.Seconds(), name)
	to.BoolGauge(failingMetric, m.e.Ready() != nil, name)
	m.e.figures.update(func() {
		for _, reason := range reasons {
			to.Counter(stopsMetric, m.e.figures.stops[reason.name], name, reason.name)
		}
	})
}

// countBatch counts a published batch.
func (f *figures) countBatch(b *batch) {
	f.update(func() {
		f.counts.Events += int64(len(b.msgs) - b.dead)
		f.counts.DeadLetters += int64(b.dead)
		f.counts.Batches++
		f.counts.Lag, f.oldest = int64(b.lag), time.Time{}
		f.done, f.moved = b.plan.Through, time.Now()
	})
}

// countLoss counts the events that are lost behind a position, unless they were
// counted: a stopped enrichment meets them again. It reports whether it has
// counted any.
func (f *figures) countLoss(behind, n uint64) (counted bool) {
	f.update(func() {
		if f.lostBehind != behind {
			f.lostBehind, f.lostThere = behind, 0
		}
		if counted = n > f.lostThere; counted {
			f.counts.Lost += int64(n - f.lostThere)
			f.lostThere = n
		}
	})
	return counted
}

// reasons are why an enrichment can stop. The last covers the rest.
var reasons = []struct {
	name string
	err  error
}{
	{"undecided", ErrUndecided},
	{"loss", ErrLost},
	{"dead_letter", ErrNoDeadLetters},
	{"ids", errNoIDs},
	{"source", errSource},
	{"other", nil},
}

// logEvery is the shortest time between two logged failures of an outage.
const logEvery = 2 * time.Second

// countFailure records a failure and its text for people. It reports whether an
// outage begins with it, and whether it is news for the log.
func (f *figures) countFailure(err error, text string) (first, news bool) {
	reason := ""
	for _, r := range reasons {
		if reason == "" && (r.err == nil || errors.Is(err, r.err)) {
			reason = r.name
		}
	}
	f.update(func() {
		if f.failures++; f.failures == 1 {
			f.since = time.Now()
		}
		if f.failing != reason {
			f.failing = reason
			f.stops[reason]++
		}
		first, f.text = f.failures == 1, text
		if news = first || !sameReason(f.logged, text) && time.Since(f.loggedAt) >= logEvery; news {
			f.logged, f.loggedAt = text, time.Now()
		}
	})
	return first, news
}

// sameReason reports whether two texts of failures differ in numbers only: the
// sequences and times in them change from try to try.
func sameReason(a, b string) bool {
	words := func(text string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return -1
			}
			return r
		}, text)
	}
	return words(a) == words(b)
}

// endOutage returns the duration of an outage that ends now, and the number of
// its failures.
func (f *figures) endOutage() (lasted time.Duration, failures int) {
	f.update(func() {
		lasted, failures = time.Since(f.since), f.failures
		f.failures, f.failing, f.text = 0, "", ""
	})
	return lasted, failures
}

// failure returns the text of the last failure, empty while all is well.
func (f *figures) failure() (text string) {
	f.update(func() { text = f.text })
	return text
}

// measure keeps the lag up to date while no batch does, until ctx ends.
func (e *Enricher) measure(ctx context.Context) {
	f, every := &e.figures, e.cfg.timers.measureEvery
	for ctx.Err() == nil {
		pause.For(ctx, every)
		var due bool
		var done uint64
		f.update(func() {
			done = f.done
			if idle := !f.owner && f.failing == ""; idle { // the owner sets them
				f.counts.Lag, f.oldest = 0, time.Time{}
			} else {
				due = time.Since(f.moved).Abs() >= every // even if the clock was set back
			}
		})
		if due {
			e.measureLag(ctx, done)
		}
	}
}

// measureLag queries the source for waiting events. If it does not answer, the
// figures stay.
func (e *Enricher) measureLag(ctx context.Context, done uint64) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.timers.exchangeTimeout)
	defer cancel()
	lag, oldest, err := waiting(ctx, e.cfg.JetStream, e.source, e.cfg.Filter, done)
	f := &e.figures
	f.update(func() {
		if err == nil && f.done == done {
			f.counts.Lag, f.oldest = int64(lag), oldest
		}
	})
}
