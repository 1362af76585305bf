package monitoring

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/prometheus/promql"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// board is the part of docs/grafana.json that a test reads.
type board struct {
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
	Panels []struct {
		Title       string
		FieldConfig struct{ Defaults struct{ Unit string } }
		Targets     []struct{ Expr, LegendFormat string }
	}
}

// request is a query of a panel, and its results so far.
type request struct {
	panel, expr, legend string
	unit                string
	series              int     // the most at a time
	largest             float64 // absolute value
	latest              promql.Vector
}

// quiet are lines that stay 0 in TestBoard. The test of the alerts has their faults.
var quiet = map[string]bool{
	"Loads, by outcome/stopped: the register regressed": true, "Overloads/{{instance}}": true,
	"Worker ID: time until its fence, and time without a heartbeat/{{instance}}, not confirmed for": true,
}

// requests reads the dashboard. Its variables get the values of "All", and of a scrape each 15 s.
func requests(t *testing.T) (all []*request) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(docs, "grafana.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b board
	if err := json.Unmarshal(data, &b); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$installation", ".*", "$__rate_interval", "1m")
	for _, p := range b.Panels {
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, `{installation=~"$installation"`) {
				t.Errorf("%s: %s is not of the chosen installation", p.Title, target.Expr)
			}
			all = append(all, &request{panel: p.Title, expr: variables.Replace(target.Expr), legend: target.LegendFormat, unit: p.FieldConfig.Defaults.Unit})
		}
	}
	values := regexp.MustCompile(`label_values\((\w+), (\w+)\)`)
	for _, v := range b.Templating.List {
		if match := values.FindStringSubmatch(string(v.Query)); v.Type == "query" && match != nil {
			all = append(all, &request{panel: "variable " + v.Name, expr: fmt.Sprintf("group by (%s) (%s)", match[2], match[1]), legend: "{{" + match[2] + "}}"})
		}
	}
	return all
}

// name is the panel, and the lines in it.
func (r *request) name() string { return r.panel + "/" + r.legend }

// ask repeats the query.
func (r *request) ask(l *lab) {
	l.t.Helper()
	r.latest = l.query(r.expr)
	real := 0
	for _, sample := range r.latest {
		if !math.IsNaN(sample.F) && !math.IsInf(sample.F, 0) {
			real++
			r.largest = max(r.largest, math.Abs(sample.F))
		}
	}
	r.series = max(r.series, real)
}

var legendLabel = regexp.MustCompile(`{{(\w+)}}`)

// lines returns the legends of the panel's lines. It fails the test if a label is missing.
func (r *request) lines(t *testing.T) (lines []string) {
	for _, sample := range r.latest {
		lines = append(lines, legendLabel.ReplaceAllStringFunc(r.legend, func(label string) string {
			v := sample.Metric.Get(label[2 : len(label)-2])
			if v == "" {
				t.Errorf("%s: %s has no label %s", r.panel, sample.Metric, label)
			}
			return v
		}))
	}
	return lines
}

// TestBoard: each query of each panel returns values, and not only zeros, from an installation with processes of all
// roles, whose faults are those that panels show. Each line has its own legend.
func TestBoard(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	all := requests(t)
	seen := func(what string, lines ...string) {
		t.Helper()
		s.until(what, func() bool {
			found := 0
			for _, r := range all {
				r.ask(s.lab)
				if slices.Contains(lines, r.name()) && r.largest > 0 {
					found++
				}
			}
			return found == len(lines)
		})
	}
	defer func() { t.Log("panels × data:\n" + table(all)) }()

	loader := s.ready("loader", "serve", "--role", "loader", "--new")
	s.run("tag", "create", "order")
	s.run("tag", "create", "invoice", "--order", "strict")
	s.run("tag", "create", "late") // first used when no loader runs
	s.run("tag", "create", "narrow", "--first", "2147000000")
	api := freeport.Address(t)
	s.ready("worker", "serve", "--role", "worker", "--api", api)
	s.ready("snowflake", "serve", "--role", "snowflake")
	nc := s.connect()
	js := natstest.JetStream(t, nc)
	natstest.CreateStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw"}})
	natstest.CreateStream(t, js, jetstream.StreamConfig{Name: "READY", Subjects: []string{"orders.ready", "orders.dead"}, AllowAtomicPublish: true})
	natstest.CreateStream(t, js, jetstream.StreamConfig{Name: "BILLS", Subjects: []string{"bills.raw"}})
	natstest.CreateStream(t, js, jetstream.StreamConfig{Name: "BILLED", Subjects: []string{"bills.ready"}, AllowAtomicPublish: true})
	orders := []string{"enrich", "--from", "ORDERS", "--to", "orders.ready", "--id", "segment:order", "--json", "id", "--dead-letter", "orders.dead"}
	bills := []string{"enrich", "--from", "BILLS", "--to", "bills.ready", "--id", "snowflake", "--on-loss", "stop"}
	enrichers := []*program{s.ready("enricher", orders...), s.ready("enricher", bills...)}

	publish := func() {
		for _, m := range [][2]string{{"orders.raw", `{"cents":1}`}, {"orders.raw", "no JSON"}, {"bills.raw", "{}"}} {
			_ = nc.Publish(m[0], []byte(m[1]))
		}
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		client := http.Client{Timeout: time.Minute}
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			subjects := []string{"segment.order", "segment.narrow", "segment.invoice", "snowflake"}
			if loader.HasEnded() {
				subjects = append(subjects, "segment.late")
			}
			for _, subject := range subjects {
				_ = nc.PublishRequest("ids."+subject, nats.NewInbox(), []byte("100"))
			}
			if response, err := client.Get("http://" + api + "/v1/segment/order?n=100"); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
			publish()
		}
	}()
	defer func() { close(stop); <-done }()

	seen("a forecast, dead letters and waiting times", "Time until a tag or the layout reaches a limit/{{tag}} {{limit}}",
		"Enriched events/{{enrichment}} dead letters", "Time that requests waited for a segment/{{kind}} p99.9")

	for _, e := range enrichers {
		e.Kill()
		s.forget(e.http)
	}
	for _, name := range []string{"ORDERS", "BILLS"} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		before := stream.CachedInfo().State.LastSeq
		natstest.Eventually(t, name+" has events that no enricher got", func() bool {
			info, err := stream.Info(t.Context())
			return err == nil && info.State.LastSeq > before+100
		})
		if err := stream.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.start("enricher", orders...)
	s.start("enricher", bills...)
	seen("lost events", "Enriched events/{{enrichment}} lost", "Oldest event that waits for its ID/{{enrichment}} stops: {{reason}}",
		"Enrichments that stand still/{{enrichment}}", "Events that wait for their IDs/{{enrichment}}")

	loader.Kill()
	s.forget(loader.http)
	seen("requests that wait for a loader", "Loads that are not served/{{instance}}", "Parked requests/{{instance}}")

	s.ready("loader", "serve", "--role", "loader")
	s.nats.Kill()
	seen("the loss of NATS", "NATS connections: down, and reconnects/{{instance}} {{connection}} down", "Loads, by outcome/outage")
	s.startNATS("2m")
	s.start("worker", "serve", "--role", "worker") // the others check it every five minutes
	seen("a NATS server that does not sync", "NATS connections: down, and reconnects/{{instance}} {{connection}} reconnects",
		"NATS connections: down, and reconnects/{{instance}} on servers that do not sync")

	drawn := make(map[string]string)
	for _, r := range all {
		switch {
		case r.series == 0:
			t.Errorf("%s: no data: %s", r.panel, r.expr)
		case r.largest == 0 && !quiet[r.name()]:
			t.Errorf("%s: only zeros: %s", r.panel, r.expr)
		}
		for _, line := range r.lines(t) {
			if other, twice := drawn[r.panel+line]; twice {
				t.Errorf("%s: two lines are %q: %s, %s", r.panel, line, other, r.expr)
			}
			drawn[r.panel+line] = r.expr
		}
	}
}

// table is a line for each query.
func table(all []*request) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "panel\tlines\tunit\tseries\tlargest")
	for _, r := range all {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%.4g\n", r.panel, r.legend, r.unit, r.series, r.largest)
	}
	_ = w.Flush()
	return b.String()
}
