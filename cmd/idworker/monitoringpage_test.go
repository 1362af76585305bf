package main

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.yaml.in/yaml/v3"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tlstest"
)

func document(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestDocumentedMetrics: every metric in the alerts, the board and the handbook is exported by a worker, a loader or an
// enricher, and every metric that is exported is in the handbook. All but what is said of a process before it has
// joined an installation name that.
func TestDocumentedMetrics(t *testing.T) {
	t.Parallel()
	address, enriching := freeport.Address(t), freeport.Address(t)
	certificate, key := tlstest.Certificate(t, 1, time.Now(), time.Now().Add(time.Hour))
	s := newSite(t, "--http", address, "--api", freeport.Address(t), "--api-tokens", writeFile(t, "a-token-that-nobody-uses >\n"),
		"--api-tls-cert", writeFile(t, certificate), "--api-tls-key", writeFile(t, key))
	s.must("tag create order")
	s.answered("get order")
	js := natstest.JetStream(t, s.nats.Connect(t))
	natstest.CreateStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>"}})
	natstest.CreateStream(t, js, jetstream.StreamConfig{Name: "ORDERS_READY", Subjects: []string{"orders.ready.>"}, AllowAtomicPublish: true})
	s.background("enrich", "--log-level", "error", "--server", s.url, "--from", "ORDERS", "--to", "orders.ready.>", "--id", "snowflake", "--http", enriching)
	exported := make(map[string]bool)
	for _, from := range []string{address, enriching} {
		natstest.Eventually(t, "it is ready", func() bool { return fetch(from, "/readyz") != "" })
		maps.Copy(exported, exportedAt(t, from))
	}
	exported["idworker_tag_runs_out_timestamp_seconds"] = true // takes a minute of evidence

	handbook := mentioned(document(t, "monitoring.md"))
	for name := range exported {
		if base := baseName(name); strings.HasPrefix(name, "idworker_") && !handbook[base] {
			t.Errorf("docs/monitoring.md does not explain %s", base)
		}
	}
	for _, file := range []string{"monitoring.md", "prometheus-rules.yml", "grafana.json"} {
		found := mentioned(document(t, file))
		if len(found) < 5 {
			t.Errorf("docs/%s names only %d metrics", file, len(found))
		}
		for name := range found {
			if !exported[name] && !exported[name+"_count"] {
				t.Errorf("docs/%s names %s, which is not exported", file, name)
			}
		}
	}
}

// exportedAt are the metrics of a process.
func exportedAt(t *testing.T, address string) map[string]bool {
	t.Helper()
	exported := make(map[string]bool)
	for line := range strings.Lines(fetch(address, "/metrics")) {
		name, _, _ := strings.Cut(line, " ")
		if strings.HasPrefix(name, "idworker_") && !strings.HasPrefix(name, "idworker_build_info") && !regexp.MustCompile(`installation="\w+"`).MatchString(name) {
			t.Errorf("%s does not name the installation", line)
		}
		if name, _, _ = strings.Cut(name, "{"); name != "#" {
			exported[name] = true
		}
	}
	return exported
}

var metricName = regexp.MustCompile(`\bidworker_[a-z_]*[a-z]`)

// mentioned are the metrics that a document mentions, without the suffixes of
// histograms. A search pattern is not a metric.
func mentioned(text string) map[string]bool {
	found := make(map[string]bool)
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "| grep '^idworker_") {
			for _, name := range metricName.FindAllString(line, -1) {
				found[baseName(name)] = true
			}
		}
	}
	return found
}

func baseName(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

// fetch gets a page; it is empty if there was no good answer.
func fetch(address, path string) (body string) {
	client := http.Client{Timeout: natstest.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + path)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return ""
	}
	return string(data)
}

// TestRulesFile: the rules have the form that Prometheus expects, and each has a row in the handbook's table of its
// severity.
func TestRulesFile(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(document(t, "prometheus-rules.yml")))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	_, handbook, _ := strings.Cut(document(t, "monitoring.md"), "\n### Alerts that page\n")
	handbook, _, _ = strings.Cut(handbook, "\n## ")
	pages, warns, _ := strings.Cut(handbook, "\n### Alerts that warn\n")
	tables := map[string]string{"page": pages, "warn": warns}
	seen := make(map[string]bool)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			_, err := time.ParseDuration(r.For)
			if r.Alert == "" || seen[r.Alert] || r.Expr == "" || err != nil || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("rule %+v is not complete, or there twice", r)
			}
			if strings.Count(r.Expr, "(") != strings.Count(r.Expr, ")") {
				t.Errorf("unbalanced: %s", r.Expr)
			}
			if !regexp.MustCompile("(?m)^\\|[^|]*`" + r.Alert + "`").MatchString(tables[r.Labels["severity"]]) {
				t.Errorf("docs/monitoring.md, Alerts, does not list %s among those of severity %s", r.Alert, r.Labels["severity"])
			}
			seen[r.Alert] = true
		}
	}
	if len(seen) < 5 {
		t.Errorf("only %d alerts", len(seen))
	}
}

// TestBoard: the Grafana board is JSON, and each of its panels asks for something.
func TestBoard(t *testing.T) {
	t.Parallel()
	var board struct {
		Title  string
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(document(t, "grafana.json")), &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		if p.Title == "" || len(p.Targets) == 0 || p.Targets[0].Expr == "" {
			t.Errorf("panel %+v asks for nothing", p)
		}
	}
	if len(board.Panels) < 5 {
		t.Errorf("only %d panels", len(board.Panels))
	}
}
