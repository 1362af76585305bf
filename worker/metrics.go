package worker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/idworker/idworker/internal/metric"
)

// Metrics collects the metrics of the process. At most maxTags tags, the
// busiest, have their own metrics. The metrics of all tags include the rest.
func (p *Process) Metrics(maxTags int) prometheus.Collector { return metrics{p, maxTags} }

// DefaultMetricsTags is the default number of tags with their own metrics.
const DefaultMetricsTags = 1000

type metrics struct {
	process *Process
	maxTags int
}

// Describe is part of prometheus.Collector. It is empty because the metrics
// depend on the role.
func (m metrics) Describe(chan<- *prometheus.Desc) {}

var (
	natsConnected  = metric.Declare("nats_connected", "1 if the connection is up, else 0.", "connection")
	natsReconnects = metric.Declare("nats_reconnects_total", "Reconnects to NATS.", "connection")
)

// Collect is part of prometheus.Collector.
func (m metrics) Collect(ch chan<- prometheus.Metric) {
	p, to := m.process, metric.Sink{To: ch, MaxTags: m.maxTags}
	to.BoolGauge(natsConnected, p.cfg.Requests.IsConnected(), "requests")
	to.Counter(natsReconnects, int64(p.cfg.Requests.Stats().Reconnects), "requests")
	to.BoolGauge(natsConnected, p.cfg.Control.IsConnected(), "control")
	to.Counter(natsReconnects, int64(p.cfg.Control.Stats().Reconnects), "control")
	p.foreign.Collect(to)
	p.watch.collect(to)
	if p.loader != nil {
		p.loader.Collect(to)
	}
	if p.supply != nil {
		p.supply.Collect(to)
	}
	if p.groups != nil {
		p.answers.Collect(to)
		p.groups.collect(to)
	}
}
