package worker

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/messages"
)

// DefaultMetricsTags is how many tags have metrics of their own.
const DefaultMetricsTags = 1000

// described holds all descriptions.
var described []*prometheus.Desc

func describe(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("idworker_"+name, help, labels, nil)
	described = append(described, d)
	return d
}

// The metrics. docs/monitoring.md says what each one is for.
var (
	requestsMetric = describe("requests_total", "Requests answered, by kind of ID and code of the reply.", "kind", "code")
	overloadMetric = describe("overloads_total", "Times that the worker left the queue group because requests waited for too long before their turn.")
	latencyMetric  = describe("request_duration_seconds", "Time from a request's turn to its reply, by kind of ID.", "kind")
	idsMetric      = describe("ids_total", "IDs handed out, by kind.", "kind")
	parkedMetric   = describe("parked_requests", "Requests that wait for a segment.")

	tagsMetric      = describe("tags", "Tags in memory.")
	unlistedMetric  = describe("tags_unlisted", "Active tags without metrics of their own, because there are too many.")
	runwayMetric    = describe("runway_seconds", "Runway of the tag with the shortest: how long memory lasts at the present rate.")
	tagIDsMetric    = describe("tag_ids_total", "IDs handed out, by tag.", "tag")
	tagFillMetric   = describe("tag_buffered_ids", "IDs in memory, by tag.", "tag")
	tagStepMetric   = describe("tag_step_ids", "IDs in the latest segment asked for, by tag.", "tag")
	tagRunwayMetric = describe("tag_runway_seconds", "Runway by tag: how long memory lasts at the present rate, at most a year.", "tag")
	tagEndMetric    = describe("tag_runs_out_timestamp_seconds", "When the IDs of a tag reach 2^31 or 2^53, or end, by the rate at which all workers use them up; missing while too little was measured to tell.", "tag", "limit")

	unansweredMetric = describe("loads_unanswered_seconds", "For how long no loader has answered; 0 if loads are answered, or none is wanted.")

	grantsMetric = describe("grants_total", "Grants from loaders, by what became of them.", "outcome")

	burntMetric = describe("burnt_ids_total", "IDs that were granted and not used: the rest of grants of strict tags, and of tags that left memory.")

	loadsMetric    = describe("loads_total", "Calls of the store for a segment, by outcome.", "outcome")
	loadTimeMetric = describe("load_duration_seconds", "Time that the store took to reserve a segment.")
	outageMetric   = describe("store_outage", "Whether the store is failing, 1 or 0.")
	outagesMetric  = describe("store_outages_total", "Times that the store began to fail.")

	conflictMetric   = describe("installation_conflict", "Whether the process has left the queue groups to another installation, 1 or 0.")
	neighboursMetric = describe("foreign_processes_met_total", "Messages from processes of another installation on the same subjects, as they say who they are.")
	foreignMetric    = describe("foreign_messages_total", "Load events and grants of another installation, which were dropped.", "kind")
	wentBackMetric   = describe("store_went_back_total", "Times that a table row, or the register, proved to have gone back.", "what")
	stoppedMetric    = describe("store_stopped", "Whether the loader grants nothing because the register went back, 1 or 0.")
	grantedMetric    = describe("store_granted_total", "Ranges that the loader reserved and granted.")
	storeBurntMetric = describe("store_burnt_total", "Ranges that were discarded: below what was granted, or with an unknown outcome.")

	leaseMetric    = describe("lease_held", "Whether a worker ID for snowflake IDs is held, 1 or 0.")
	workerIDMetric = describe("lease_worker_id", "The worker ID that is held.")
	reservedMetric = describe("lease_reserved_seconds", "How far ahead of the clock time is reserved for the worker ID.")
	layoutMetric   = describe("layout_runs_out_timestamp_seconds", "When the snowflake IDs of the layout reach 2^31 or 2^53, or end.", "limit")
	clockMetric    = describe("clock_difference_seconds", "How far this clock is ahead of the NATS server's.")

	connectedMetric  = describe("nats_connected", "Whether the connection is up, 1 or 0.", "connection")
	reconnectsMetric = describe("nats_reconnects_total", "Times that the connection came back.", "connection")
)

// metrics collects the metrics of a process when it is asked. All that a request does for it
// is to move counters.
type metrics struct {
	w       *Process
	maxTags int
}

// Metrics collects the metrics of the process. At most maxTags tags have metrics of their
// own, the busiest ones. The others are counted, and are part of the metrics of all tags.
func (w *Process) Metrics(maxTags int) prometheus.Collector { return metrics{w, maxTags} }

// Describe is part of prometheus.Collector.
func (m metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range described {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (m metrics) Collect(ch chan<- prometheus.Metric) {
	to := sink{ch, m.maxTags}
	to.connection("requests", m.w.info.cfg.Requests)
	to.connection("control", m.w.info.cfg.Control)
	for _, h := range m.w.halves {
		h.collect(to)
	}
}

// sink is where metrics go.
type sink struct {
	ch      chan<- prometheus.Metric
	maxTags int // how many tags have metrics of their own
}

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) counter(d *prometheus.Desc, v int64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func (s sink) yes(d *prometheus.Desc, yes bool, labels ...string) {
	v := 0.0
	if yes {
		v = 1
	}
	s.gauge(d, v, labels...)
}

func (s sink) dates(d *prometheus.Desc, dates []forecast.Date, labels ...string) {
	for _, date := range dates {
		s.gauge(d, float64(date.At.Unix()), append(labels[:len(labels):len(labels)], string(date.Limit))...)
	}
}

func (s sink) connection(name string, c *nats.Conn) {
	s.yes(connectedMetric, c.IsConnected(), name)
	s.counter(reconnectsMetric, int64(c.Stats().Reconnects), name)
}

func (s sink) requests(kind string, f *requestFigures) {
	for i, code := range outcomes {
		s.counter(requestsMetric, f.outcomes[i].Load(), kind, outcomeName(code))
	}
	s.counter(idsMetric, f.ids.Load(), kind)
	s.ch <- f.latency.metric(latencyMetric, kind)
}

// outcomeName is what an outcome is called.
func outcomeName(code messages.Code) string {
	if code == answered {
		return "ok"
	}
	return strconv.Itoa(int(code))
}

func (a *answering) collect(to sink) {
	to.requests("segment", &a.figures)
	to.requests("snowflake", &a.snowflakes.figures)
	to.counter(overloadMetric, a.shedder.overloads.Load())
	a.supply.collect(to)
	a.snowflakes.collect(to)
}

func (s *supply) collect(to sink) {
	to.gauge(parkedMetric, float64(s.alloc.Parked()))
	s.grants.collect(to)
	s.unanswered.collect(to)
	s.collectTags(to)
	to.counter(burntMetric, s.alloc.Burnt())
}

func (g *grantReceiver) collect(to sink) {
	to.counter(grantsMetric, g.installed.Load(), "installed")
	to.counter(grantsMetric, g.burnt.Load(), "burnt")
	to.counter(grantsMetric, g.below.Load(), "below")
	to.counter(grantsMetric, g.refused.Load(), "refused")
}

func (l *loader) collect(to sink) {
	for i, name := range loadOutcomes {
		to.counter(loadsMetric, l.outcomes[i].Load(), name)
	}
	to.ch <- l.latency.metric(loadTimeMetric)
	current, total := l.health.figures()
	to.yes(outageMetric, current)
	to.counter(outagesMetric, total)
}

// collectTags collects the metrics of each of the busiest tags, and of all tags together.
func (s *supply) collectTags(to sink) {
	all, now := s.alloc.Figures(), time.Now()
	least := allocator.MaxRunway
	for _, f := range all {
		least = min(least, f.Runway)
	}
	to.gauge(tagsMetric, float64(s.alloc.Tags()))
	to.gauge(runwayMetric, least.Seconds())
	listed := busiest(all, to.maxTags)
	to.gauge(unlistedMetric, float64(len(all)-len(listed)))
	for _, f := range listed {
		to.counter(tagIDsMetric, f.Total, f.Tag)
		to.gauge(tagFillMetric, float64(f.Left), f.Tag)
		to.gauge(tagStepMetric, float64(f.Step), f.Tag)
		to.gauge(tagRunwayMetric, f.Runway.Seconds(), f.Tag)
		to.dates(tagEndMetric, useOf(f).Dates(now), f.Tag)
	}
}

// busiest returns the figures of the n tags with the highest rates, highest first.
func busiest(all []allocator.Figures, n int) []allocator.Figures {
	var top []allocator.Figures
	bar := -1 // the index in top of the least rate that is good enough, once it is known
	for _, f := range all {
		if n == 0 || bar >= 0 && compareRates(f, top[bar]) > 0 {
			continue
		}
		if top = append(top, f); len(top) == 2*n {
			slices.SortFunc(top, compareRates)
			top, bar = top[:n], n-1
		}
	}
	slices.SortFunc(top, compareRates)
	return top[:min(len(top), n)]
}

// compareRates puts higher rates first. The order of equal rates is always the same, so that
// series do not come and go.
func compareRates(a, b allocator.Figures) int {
	if c := cmp.Compare(b.Rate, a.Rate); c != 0 {
		return c
	}
	return cmp.Compare(a.Tag, b.Tag)
}

// collect collects the metrics of the worker ID and of the clock.
func (s *snowflakes) collect(to sink) {
	state := s.state.Load()
	held := state.Generator != nil
	to.yes(leaseMetric, held)
	if held {
		to.gauge(workerIDMetric, float64(state.Worker))
	}
	f := s.manager.Figures()
	to.gauge(clockMetric, f.ClockDiff.Seconds())
	to.gauge(reservedMetric, f.Reserved.Seconds())
	to.dates(layoutMetric, forecast.OfLayout(s.cfg.Lease.Layout, time.Now()))
}
