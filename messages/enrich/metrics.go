package enrich

import "github.com/prometheus/client_golang/prometheus"

// The metrics. docs/operations.md says how to use each.
var (
	eventsMetric  = newDesc("enriched_events_total", "Events published with an ID.")
	deadMetric    = newDesc("enrich_dead_letters_total", "Events sent to the dead-letter subject.")
	batchesMetric = newDesc("enrich_batches_total", "Batches published.")
	turnsMetric   = newDesc("enrich_turns_total", "Times that this enricher had the turn.")
	lagMetric     = newDesc("enrich_lag_events", "Events of the source that waited behind the latest one enriched by this enricher.")
	failingMetric = newDesc("enrich_failing", "Whether something keeps events from being enriched, 1 or 0.")
)

func newDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("idworker_"+name, help, []string{"enrichment"}, nil)
}

// metrics reads an enricher's figures when they are collected.
type metrics struct{ e *Enricher }

// Metrics collects the metrics of the enricher.
func (e *Enricher) Metrics() prometheus.Collector { return metrics{e} }

// Describe is part of prometheus.Collector.
func (m metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect is part of prometheus.Collector.
func (m metrics) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64) {
		ch <- prometheus.MustNewConstMetric(d, kind, value, m.e.name)
	}
	f := m.e.Figures()
	send(eventsMetric, prometheus.CounterValue, float64(f.Events))
	send(deadMetric, prometheus.CounterValue, float64(f.DeadLetters))
	send(batchesMetric, prometheus.CounterValue, float64(f.Batches))
	send(turnsMetric, prometheus.CounterValue, float64(f.Turns))
	send(lagMetric, prometheus.GaugeValue, float64(f.Lag))
	failing := 0.0
	if m.e.Ready() != nil {
		failing = 1
	}
	send(failingMetric, prometheus.GaugeValue, failing)
}
