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
	abandoned atomic.Int64 // their clients had left
}

// statuses are all possible statuses of a reply.
var statuses = [...]int{200, 400, 401, 403, 404, 405, 406, 409, 411, 413, 429, 500, 503, 507}

func (f *figures) count(status int) {
	if i := slices.Index(statuses[:], status); i >= 0 {
		f.byStatus[i].Add(1)
	}
}

// The metrics. docs/monitoring.md explains their use.
var (
	repliesMetric     = metric.Declare("api_replies_total", "HTTP replies, by status.", "status")
	abandonedMetric   = metric.Declare("api_abandoned_total", "HTTP requests whose clients left before the reply.")
	connectionsMetric = metric.Declare("api_connections", "Open HTTP connections of callers.")
	freeMetric        = metric.Declare("api_connections_free", "HTTP connections that callers can still open.")
	closedMetric      = metric.Declare("api_connections_closed_total", "HTTP connections closed to make room for new ones.")
	staleMetric       = metric.Declare("api_file_stale", "1 if reloading the file failed, else 0.", "file")
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
	open, busy, evicted := s.handler.connections.Counts()
	to.Gauge(connectionsMetric, float64(open))
	to.Gauge(freeMetric, float64(s.cfg.Connections-busy))
	to.Counter(closedMetric, evicted)
	for name, stale := range s.files.Stale() {
		to.BoolGauge(staleMetric, stale, name)
	}
	s.files.Collect(ch)
}
