package enrich

import "github.com/prometheus/client_golang/prometheus"

// The metrics. docs/monitoring.md says how to use each.
var (
	eventsMetric  = newDesc("enriched_events_total", "Events published with an ID.")
	deadMetric    = newDesc("enrich_dead_letters_total", "Events sent to the dead-letter subject.")
	batchesMetric = newDesc("enrich_batches_total", "Batches published.")
	turnsMetric   = newDesc("enrich_turns_total", "Times that this enricher had the turn.")
	lostMetric    = newDesc("enrich_lost_events_total", "Events that the source removed before they were enriched.")
	lagMetric     = newDesc("enrich_lag_events", "Events that wait in the source. 0 for an enricher that waits for its turn.")
	oldestMetric  = newDesc("enrich_oldest_event_seconds", "Age of the oldest event that waits in the source.")
	stopsMetric   = newDesc("enrich_stops_total", "Times that something began to keep events from being enriched, by reason.", "reason")
	failingMetric = newDesc("enrich_failing", "Whether something keeps events from being enriched, 1 or 0.")
)

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("idworker_"+name, help, append([]string{"enrichment"}, labels...), nil)
}

// metrics reads an enricher's figures when they are collected.
type metrics struct{ e *Enricher }

// Metrics collects the metrics of the enricher.
func (e *Enricher) Metrics() prometheus.Collector { return metrics{e} }

// Describe is part of prometheus.Collector.
func (m metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect is part of prometheus.Collector.
func (m metrics) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, value, append([]string{m.e.name}, labels...)...)
	}
	f := m.e.Figures()
	send(eventsMetric, prometheus.CounterValue, float64(f.Events))
	send(deadMetric, prometheus.CounterValue, float64(f.DeadLetters))
	send(batchesMetric, prometheus.CounterValue, float64(f.Batches))
	send(turnsMetric, prometheus.CounterValue, float64(f.Turns))
	send(lostMetric, prometheus.CounterValue, float64(f.Lost))
	for i := range reasons {
		send(stopsMetric, prometheus.CounterValue, float64(m.e.figures.stops[i].Load()), reasons[i].name)
	}
	send(oldestMetric, prometheus.GaugeValue, f.Oldest.Seconds())
	send(lagMetric, prometheus.GaugeValue, float64(f.Lag))
	failing := 0.0
	if m.e.Ready() != nil {
		failing = 1
	}
	send(failingMetric, prometheus.GaugeValue, failing)
}
