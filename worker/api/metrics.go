package api

import (
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// figures count what became of requests.
type figures struct {
	byStatus  [len(statuses)]atomic.Int64
	abandoned atomic.Int64 // their clients had gone
}

// statuses are all that a reply can have.
var statuses = [...]int{200, 400, 401, 403, 404, 405, 406, 409, 411, 413, 429, 500, 503, 507}

func isStatus(status int) bool { return slices.Contains(statuses[:], status) }

func (f *figures) count(status int) {
	for i, s := range statuses {
		if s == status {
			f.byStatus[i].Add(1)
			return
		}
	}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("idworker_api_"+name, help, labels, nil)
}

// The metrics. docs/monitoring.md says what each one is for.
var (
	repliesMetric     = describe("replies_total", "Replies over HTTP, by status.", "status")
	abandonedMetric   = describe("abandoned_total", "Requests over HTTP whose clients had gone before there was a reply.")
	connectionsMetric = describe("connections", "Open connections of HTTP for callers.")
	closedMetric      = describe("connections_closed_total", "Connections of HTTP for callers that were closed because there were too many: refused, or idle, to make room for a new one.", "why")
	staleMetric       = describe("file_stale", "Whether a file has changed and cannot be used, so that what was read before is in force, 1 or 0.", "file")
)

// Describe is part of prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{repliesMetric, abandonedMetric, connectionsMetric, closedMetric, staleMetric} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	f := &s.handler.figures
	for i, status := range statuses {
		counter(repliesMetric, f.byStatus[i].Load(), strconv.Itoa(status))
	}
	counter(abandonedMetric, f.abandoned.Load())
	gauge(connectionsMetric, s.listener.count())
	counter(closedMetric, s.listener.refused.Load(), "refused")
	counter(closedMetric, s.listener.evicted.Load(), "idle")
	for _, file := range s.files {
		name, failing := file.state()
		stale := 0
		if failing {
			stale = 1
		}
		gauge(staleMetric, stale, name)
	}
}
