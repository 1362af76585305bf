package monitoring

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/idworker/idworker/testing/natstest"
)

const (
	docs = "../../docs"

	// interval is the virtual time from a scrape to the next, and from an evaluation of the rules to the next.
	interval = 15 * time.Second
	// pace is the real time between two scrapes of a test that waits.
	pace = 100 * time.Millisecond
)

// lab is a Prometheus with the rules of docs/prometheus-rules.yml, whose clock a test moves. Each scrape gets the
// processes' metrics as they are, is stored as 15 s later than the previous scrape, and is followed by an evaluation of
// the rules. So an alert with "for: 10m" takes 40 scrapes. The processes' own time is real.
//
// Use it from the test's own goroutine.
type lab struct {
	t       testing.TB
	db      *tsdb.DB
	engine  *promql.Engine
	rules   *rules.Group
	now     time.Time // of the latest scrape
	targets []*target
}

// target is the page of a process's metrics.
type target struct {
	job, address string
	series       map[string]labels.Labels // of its latest scrape

	// When the process started, by its own clock and by the lab's.
	start   float64
	started time.Time
}

// alert is an alert of docs/prometheus-rules.yml that is pending or firing.
type alert struct {
	Name        string
	Firing      bool // otherwise pending
	Labels      map[string]string
	Summary     string // with its values
	Description string // likewise
}

// newLab returns a lab without targets.
func newLab(t testing.TB) *lab {
	t.Helper()
	options := tsdb.DefaultOptions()
	options.MinBlockDuration = (30 * 24 * time.Hour).Milliseconds() // no compaction
	options.MaxBlockDuration = options.MinBlockDuration
	db, err := tsdb.Open(t.TempDir(), slog.New(slog.DiscardHandler), nil, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	language := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: natstest.Patience, EnableAtModifier: true, EnableNegativeOffset: true, Parser: language,
	})
	t.Cleanup(func() {
		if err := errors.Join(engine.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	manager := rules.NewManager(&rules.ManagerOptions{
		ExternalURL:  &url.URL{Scheme: "http", Host: "prometheus"},
		QueryFunc:    rules.EngineQueryFunc(engine, db),
		NotifyFunc:   func(context.Context, string, ...*rules.Alert) {},
		AppendableV2: db,
		Queryable:    db,
		Parser:       language,
	})
	file := filepath.Join(docs, "prometheus-rules.yml")
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 || len(groups) != 1 {
		t.Fatalf("%s: %d groups, want 1; %v", file, len(groups), errors.Join(errs...))
	}
	return &lab{t: t, db: db, engine: engine, rules: slices.Collect(maps.Values(groups))[0], now: time.Now()}
}

// watch has the next scrapes read http://ADDRESS/metrics, with the labels job and instance (the address).
func (l *lab) watch(job, address string) {
	l.targets = append(l.targets, &target{job: job, address: address})
}

// forget ends this: the next scrape marks the target's series as gone, as Prometheus does for a target that was removed.
func (l *lab) forget(address string) {
	l.t.Helper()
	i := slices.IndexFunc(l.targets, func(t *target) bool { return t.address == address })
	if i < 0 {
		l.t.Fatalf("%s is not watched", address)
	}
	l.now = l.now.Add(interval)
	l.store(l.targets[i], nil)
	l.targets = slices.Delete(l.targets, i, i+1)
}

// scrape moves the clock by 15 s, scrapes all targets, and evaluates the rules.
func (l *lab) scrape() {
	l.t.Helper()
	l.now = l.now.Add(interval)
	for _, target := range l.targets {
		l.store(target, fetch(target.address))
	}
	l.rules.Eval(l.t.Context(), l.now)
	for _, rule := range l.rules.Rules() {
		if err := rule.LastError(); err != nil {
			l.t.Fatalf("%s: %v", rule.Name(), err)
		}
	}
}

// advance scrapes, as fast as possible, until the clock has moved by d.
func (l *lab) advance(d time.Duration) {
	l.t.Helper()
	for end := l.now.Add(d); l.now.Before(end); {
		l.scrape()
	}
}

// until scrapes ten times a second until cond holds.
func (l *lab) until(what string, cond func() bool) {
	l.t.Helper()
	natstest.Eventually(l.t, what, func() bool {
		time.Sleep(pace)
		l.scrape()
		return cond()
	})
}

// query evaluates an expression at the time of the latest scrape.
func (l *lab) query(expr string) promql.Vector {
	l.t.Helper()
	vector, err := rules.EngineQueryFunc(l.engine, l.db)(l.t.Context(), expr, l.now)
	if err != nil {
		l.t.Fatalf("%s: %v", expr, err)
	}
	return vector
}

// alerts returns those that are pending or firing.
func (l *lab) alerts() (all []alert) {
	for _, rule := range l.rules.AlertingRules() {
		for _, active := range rule.ActiveAlerts() {
			all = append(all, alert{rule.Name(), active.State == rules.StateFiring, active.Labels.Map(), active.Annotations.Get("summary"), active.Annotations.Get("description")})
		}
	}
	return all
}

// isFiring reports whether an alert fires, with any labels.
func (l *lab) isFiring(name string) bool {
	return slices.ContainsFunc(l.alerts(), func(a alert) bool { return a.Name == name && a.Firing })
}

// store stores a page of metrics as a target's scrape at the present time, marks the series that are not in it any more
// as gone, and sets "up". A nil page is that of a process that does not answer.
func (l *lab) store(target *target, page []byte) {
	l.t.Helper()
	at := l.now.UnixMilli()
	series := make(map[string]labels.Labels)
	appender := l.db.AppenderV2(l.t.Context())
	add := func(of labels.Labels, v float64) {
		if _, err := appender.Append(0, of, 0, at, v, nil, nil, storage.AppendV2Options{}); err != nil {
			l.t.Fatalf("%s of %s: %v", of, target.address, err)
		}
	}
	own := func(of labels.Labels) labels.Labels {
		return labels.NewBuilder(of).Set("job", target.job).Set("instance", target.address).Labels()
	}
	metrics := textparse.NewPromParser(page, labels.NewSymbolTable(), false)
	for page != nil {
		entry, err := metrics.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			l.t.Fatalf("metrics of %s: %v", target.address, err)
		}
		if entry == textparse.EntrySeries {
			var of labels.Labels
			metrics.Labels(&of)
			_, _, v := metrics.Series()
			if of.Get(labels.MetricName) == "process_start_time_seconds" {
				if v != target.start {
					target.start, target.started = v, l.now
				}
				v = float64(target.started.Unix())
			}
			of = own(of)
			series[of.String()] = of
			add(of, v)
		}
	}
	for name, of := range target.series {
		if _, stays := series[name]; !stays {
			add(of, math.Float64frombits(value.StaleNaN))
		}
	}
	up := 0.0
	if page != nil {
		up = 1
	}
	add(own(labels.FromStrings(labels.MetricName, "up")), up)
	if err := appender.Commit(); err != nil {
		l.t.Fatal(err)
	}
	target.series = series
}

// fetch returns a process's metrics; nil if it does not answer within Prometheus's time-out.
func fetch(address string) []byte {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil
	}
	return page
}
