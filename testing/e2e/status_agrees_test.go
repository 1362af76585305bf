package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
)

// badDay is an installation in trouble: of three workers one is killed, the
// store of a loader is away, and an enricher is dead.
type badDay struct {
	t       *testing.T
	url     string
	workers []string // where those that live serve HTTP
	loaders []string // the second has no store
	dead    string   // instance
}

const (
	shopTags = 300
	usedTags = 10
)

func startBadDay(t *testing.T) *badDay {
	t.Helper()
	ns := natstest.Start(t, syncAlways)
	d := &badDay{t: t, url: ns.URL(), workers: []string{freeport.Address(t), freeport.Address(t)}, loaders: []string{freeport.Address(t), freeport.Address(t)}}
	db := databases[1].with(t)
	db.Exec(t, fmt.Sprintf("INSERT INTO leaf_alloc (biz_tag, max_id, step) SELECT 'shop-' || n || '.order', 1, 1000 FROM generate_series(1, %d) n", shopTags))
	proxy := proxy.Start(t, db.Addr())
	const ttl = "10m" // the killed worker is missed for as long
	killed := startWorker(t, d.url, "--role", "worker", "--lease-ttl", ttl)
	for _, address := range d.workers {
		startWorker(t, d.url, "--role", "worker", "--lease-ttl", ttl, "--http", address)
	}
	on(db.DSN()).startWorker(t, d.url, "--role", "loader", "--http", d.loaders[0])
	on(db.DSNVia(proxy)).startWorker(t, d.url, "--role", "loader", "--http", d.loaders[1])
	d.dead = killed.instance()
	heldByAll(t, d.url, shopTag(1), 3)
	d.enrich()
	killed.kill()
	for n := range usedTags {
		heldByAll(t, d.url, shopTag(n+1), 2)
	}
	proxy.Refuse()
	d.awaitOutage()
	return d
}

func shopTag(n int) string { return fmt.Sprintf("shop-%d.order", n) }

// enrich has an enricher stamp some events, kills it, and publishes some more.
func (d *badDay) enrich() {
	d.t.Helper()
	e := &enrichment{t: d.t, url: d.url, js: natstest.JetStream(d.t, connect(d.t, d.url)), next: 1}
	e.create(sourceConfig)
	e.create(targetConfig)
	p := settings{}.launch(d.t, "enrich", "--server", d.url, "--from", "ORDERS", "--filter", "orders.raw.>", "--to", "orders.ready.>", "--id", "snowflake")
	natstest.Eventually(d.t, "an enricher runs", func() bool { return p.says("enriching\t") > 0 || p.hasEnded() })
	e.publish(100)
	natstest.Eventually(d.t, "100 events are enriched", func() bool { return e.last("READY") == 100 })
	p.kill()
	e.publish(30)
}

// awaitOutage has loaders try to reserve until the second has detected that its
// store is away. The first continues.
func (d *badDay) awaitOutage() {
	d.t.Helper()
	client := dial(d.t, d.url)
	next := usedTags
	natstest.Eventually(d.t, "a loader has lost its store", func() bool {
		if next++; next < shopTags {
			client.next(d.t, shopTag(next))
		}
		return metricsOf(d.t, d.loaders[1]).get("idworker_store_outage") == 1
	})
}

// metricFamilies is a scrape.
type metricFamilies map[string]*dto.MetricFamily

func metricsOf(t *testing.T, address string) metricFamilies {
	t.Helper()
	_, body := fetch(t, address, "/metrics")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// get is the value of the metric with these label values, beside that of the
// installation; NaN if there is none.
func (m metricFamilies) get(name string, labels ...string) float64 {
	if m[name] == nil {
		return math.NaN()
	}
	for _, metric := range m[name].GetMetric() {
		var have []string
		for _, l := range metric.GetLabel() {
			if l.GetName() != "installation" {
				have = append(have, l.GetValue())
			}
		}
		if slices.Equal(have, labels) {
			return metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return math.NaN()
}

// statusJSON is the part of status --json that the test reads.
type statusJSON struct {
	Troubles  []struct{ Severity, What, Text string }
	Processes []struct {
		Instance, Role string
		Outages        *struct {
			Now   bool
			Times float64
		}
		Stats struct {
			WorkerID *float64 `json:"worker_id"`
			Grants   struct{ Installed float64 }
		}
	}
	Silent []struct{ Instance string }
	Totals struct {
		Workers  int
		Expected int `json:"workers_expected"`
		Loaders  int
		Active   int `json:"tags_active"`
	}
	Tags []struct {
		Tag                string
		Left, Step, Parked float64
		Runway             float64 `json:"runway_seconds"`
	}
	Enrichments []struct {
		Source  string
		Stalled bool
		Lag     float64
		Done    float64
	}
}

func (d *badDay) status() (s statusJSON) {
	d.t.Helper()
	if err := json.Unmarshal([]byte(must(d.t, "status", "--server", d.url, "--json").stdout), &s); err != nil {
		d.t.Fatal(err)
	}
	return s
}

// complete reports whether all running processes answered in time.
func (s statusJSON) complete() bool { return s.Totals.Workers == 2 && s.Totals.Loaders == 2 }

// TestStatusAgreesWithMetrics: on a bad day, the status of the installation
// reports the faults, and its figures are those of the processes' own /metrics
// at that moment. The page, the text, doctor and /readyz agree, as
// TestOneJudgement of cmd/internal/health shows for more states.
func TestStatusAgreesWithMetrics(t *testing.T) {
	t.Parallel()
	d := startBadDay(t)
	var s statusJSON
	natstest.Eventually(t, "the status lists the tags in memory, and that no enricher is at work", func() bool {
		s = d.status()
		return len(s.Tags) >= usedTags && len(s.Enrichments) == 1 && s.Enrichments[0].Stalled && len(s.Silent) == 1 && s.complete()
	})
	if e := s.Enrichments[0]; e.Source != "ORDERS" || e.Lag < 30 || e.Lag+e.Done != 130 { // the record may be behind the target
		t.Errorf("the enrichment is %+v, want 30 events or more that wait, of 130", e)
	}
	if n := s.Totals; n.Expected != 3 || n.Active != len(s.Tags) {
		t.Errorf("%+v and %d tags, want 3 workers expected, all tags in memory", n, len(s.Tags))
	}
	if s.Silent[0].Instance != d.dead {
		t.Errorf("silent are %+v, want the worker that was killed", s.Silent)
	}
	before, after, s := d.atRest()
	d.compareTags(before, after, s)
	d.compareProcesses(before, s)
	d.comparePages()
}

// compareTags compares the tags with the workers' metrics. Rates fall without
// requests, so the buffer's duration lies between the values before and after.
func (d *badDay) compareTags(before, after []metricFamilies, s statusJSON) {
	d.t.Helper()
	for _, tag := range s.Tags {
		var left, step float64
		least, most := math.Inf(1), math.Inf(1)
		for i := range before {
			if l := before[i].get("idworker_tag_buffered_ids", tag.Tag); !math.IsNaN(l) {
				left += l
				step = max(step, before[i].get("idworker_tag_step_ids", tag.Tag))
				least = min(least, before[i].get("idworker_tag_runway_seconds", tag.Tag))
				most = min(most, after[i].get("idworker_tag_runway_seconds", tag.Tag))
			}
		}
		if tag.Left != left || tag.Step != step || tag.Runway < least || tag.Runway > most {
			d.t.Errorf("status says %+v, /metrics %v IDs, step %v, runway %v to %v", tag, left, step, least, most)
		}
	}
}

// atRest returns a status, and /metrics of all processes before and after,
// during which no grants came.
func (d *badDay) atRest() (before, after []metricFamilies, s statusJSON) {
	d.t.Helper()
	natstest.Eventually(d.t, "no more grants come", func() bool {
		before, s, after = d.scrape(), d.status(), d.scrape()
		return s.complete() && slices.EqualFunc(before, after, func(a, b metricFamilies) bool {
			return slices.Equal(a.counts(), b.counts())
		})
	})
	return before, after, s
}

// counts are the figures that must be the same before and after.
func (m metricFamilies) counts() []float64 {
	var all []float64
	for _, outcome := range []string{"installed", "burnt", "refused"} {
		all = append(all, m.sum("idworker_grants_total", outcome))
	}
	return append(all, m.sum("idworker_store_outages_total"))
}

// sum is get, and 0 if there is no such metric.
func (m metricFamilies) sum(name string, labels ...string) float64 {
	if v := m.get(name, labels...); !math.IsNaN(v) {
		return v
	}
	return 0
}

func (d *badDay) scrape() (all []metricFamilies) {
	for _, address := range slices.Concat(d.workers, d.loaders) {
		all = append(all, metricsOf(d.t, address))
	}
	return all
}

// compareProcesses compares the processes' own figures.
func (d *badDay) compareProcesses(scraped []metricFamilies, s statusJSON) {
	d.t.Helper()
	sums, want := map[string]float64{}, map[string]float64{}
	for _, p := range s.Processes {
		sums["grants"] += p.Stats.Grants.Installed
		if p.Stats.WorkerID != nil {
			sums["worker IDs"] += *p.Stats.WorkerID
		}
		if p.Outages != nil {
			sums["outages"] += p.Outages.Times
			if p.Outages.Now {
				sums["failing"]++
			}
		}
	}
	for _, m := range scraped {
		want["grants"] += m.sum("idworker_grants_total", "installed")
		want["worker IDs"] += m.sum("idworker_lease_worker_id")
		want["outages"] += m.sum("idworker_store_outages_total")
		want["failing"] += m.sum("idworker_store_outage")
	}
	for what, n := range want {
		if sums[what] != n || n == 0 {
			d.t.Errorf("%s: status says %v, /metrics %v, and it should not be 0", what, sums[what], n)
		}
	}
}

// comparePages looks at the page of a worker and of a loader, and at the text.
func (d *badDay) comparePages() {
	d.t.Helper()
	wants := func(where, text string, wants ...string) {
		d.t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				d.t.Errorf("%s lacks %q:\n%s", where, want, text)
			}
		}
	}
	left := 0.0
	for _, m := range d.scrape() {
		left += m.sum("idworker_tag_buffered_ids", shopTag(7))
	}
	for _, address := range []string{d.workers[1], d.loaders[0]} {
		_, page := fetch(d.t, address, "/?q="+url.QueryEscape(shopTag(7)))
		wants("the page", page, "2 of 3", "has failed for", "no enricher has worked", d.dead, "1 tag with <q>", fmt.Sprintf("<span>%s</span>", grouped(left)))
	}
	const away = " has failed for "
	if code, body := fetch(d.t, d.loaders[1], "/readyz"); code != 200 || !strings.HasPrefix(body, "ready, but store postgres") || !strings.Contains(body, away) {
		d.t.Errorf("readyz of the loader without a store: %d %q", code, body)
	}
	r := run(d.t, "doctor", "--server", d.url, "--role", "admin")
	if r.code != exitFailure {
		d.t.Errorf("doctor ends with %d", r.code)
	}
	wants("doctor", r.stdout, "FAIL  loader ", away, "FAIL  enrichment ORDERS to READY: ", "warn  worker ", d.dead, "does not report")
	text := must(d.t, "status", "--server", d.url, shopTag(7), "--tags", "5").stdout
	wants("status", text, "workers 2 of 3, loaders 2, ", "error    enrichment ORDERS to READY", "store fails", "does not report", "\n"+shopTag(7)+" ")
	if strings.Count(text, "\nshop-") != 1 {
		d.t.Errorf("status shows other tags than were searched for:\n%s", text)
	}
}

// grouped is a number with commas between thousands.
func grouped(n float64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(math.Floor(n/1000)), int(n)%1000)
}
