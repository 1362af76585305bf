package api

import (
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idworker/idworker/internal/metric"
)

// figures count replies.
type figures struct {
	byStatus  [len(statuses)]atomic.Int64
	abandoned atomic.Int64 // their clients had gone
}

// statuses are all that a reply can have.
var statuses = [...]int{200, 400, 401, 403, 404, 405, 406, 409, 411, 413, 429, 500, 503, 507}

func (f *figures) count(status int) {
	if i := slices.Index(statuses[:], status); i >= 0 {
		f.byStatus[i].Add(1)
	}
}

// The metrics. docs/monitoring.md says what each one is for.
var (
	repliesMetric     = metric.Declare("api_replies_total", "Replies over HTTP, by status.", "status")
	abandonedMetric   = metric.Declare("api_abandoned_total", "Requests over HTTP whose clients had gone before there was a reply.")
	connectionsMetric = metric.Declare("api_connections", "Open connections of HTTP for callers.")
	freeMetric        = metric.Declare("api_connections_free", "Connections of HTTP that callers can still open.")
	closedMetric      = metric.Declare("api_connections_closed_total", "Connections of strangers, or else idle ones of callers, closed to make room for a new one.")
	staleMetric       = metric.Declare("api_file_stale", "Whether a changed file cannot be used, so that the old one is in force, 1 or 0.", "file")
)

// Describe is part of prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

// Collect is part of prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	to := metric.Sink{To: ch}
	f := &s.handler.figures
	for i, status := range statuses {
		to.Counter(repliesMetric, f.byStatus[i].Load(), strconv.Itoa(status))
	}
	to.Counter(abandonedMetric, f.abandoned.Load())
	open, busy, evicted := s.handler.connections.counts()
	to.Gauge(connectionsMetric, float64(open))
	to.Gauge(freeMetric, float64(s.cfg.Connections-busy))
	to.Counter(closedMetric, evicted)
	for _, file := range s.files {
		to.BoolGauge(staleMetric, file.failing.Load(), file.name)
	}
}
