package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.yaml.in/yaml/v3"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// TestReadyFollowsTheConnection: /readyz of a worker and a loader turns to 503 when their
// server is gone, and back when it returns.
func TestReadyFollowsTheConnection(t *testing.T) {
	t.Parallel()
	ns := natstest.Start(t)
	for _, role := range []string{"worker", "loader"} {
		t.Run(role, func(t *testing.T) {
			address := freeAddress(t)
			w := startWorker(t, ns.URL(), "--role", role, "--http", address)
			natstest.Eventually(t, "ready", func() bool { code, _ := fetch(t, address, "/readyz"); return code == 200 })
			ns.Stop()
			natstest.Eventually(t, "not ready without NATS", func() bool {
				code, why := fetch(t, address, "/readyz")
				return code == 503 && strings.Contains(why, "not connected to NATS")
			})
			if code, _ := fetch(t, address, "/healthz"); code != 200 {
				t.Errorf("/healthz says %d, but the process lives", code)
			}
			ns.Restart()
			natstest.Eventually(t, "ready again", func() bool { code, _ := fetch(t, address, "/readyz"); return code == 200 })
			w.stop(syscall.SIGTERM)
			if _, err := net.DialTimeout("tcp", address, time.Second); err == nil {
				t.Error("HTTP is still served")
			}
		})
	}
}

// TestHTTPIsOffUnlessAskedFor: nothing listens by default, and bad addresses are reported.
func TestHTTPIsOffUnlessAskedFor(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for name, test := range map[string]struct {
		args []string
		code int
		text string
	}{
		"no port":           {[]string{"--http", "127.0.0.1"}, exitUsage, "--http \"127.0.0.1\": want HOST:PORT"},
		"taken":             {[]string{"--http", taken.Addr().String()}, exitFailure, "address already in use"},
		"too many tags":     {[]string{"--metrics-tags", "100001"}, exitUsage, "allowed is 0 to 100000"},
		"less than no tags": {[]string{"--metrics-tags=-1"}, exitUsage, "allowed is 0 to 100000"},
	} {
		t.Run(name, func(t *testing.T) {
			r := settings{dir: t.TempDir()}.run(t, append([]string{"serve", "--listen", freeAddress(t)}, test.args...)...)
			if r.code != test.code || !strings.Contains(r.stderr, test.text) {
				t.Errorf("exit code %d, want %d; stderr %q, want it to say %q", r.code, test.code, r.stderr, test.text)
			}
		})
	}
}

// TestHangingHTTPClientsDelayNobody: clients that send nothing, and scrapers that read
// nothing, delay neither requests nor probes nor the shutdown.
func TestHangingHTTPClientsDelayNobody(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	address := freeAddress(t)
	s := startServer(t, t.TempDir(), "--http", address)
	createTag(t, s.url, "order", "--step", "100000")
	for i := range 100 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if i < 4 { // asks for more than the buffers in between hold, and never reads
			_ = conn.(*net.TCPConn).SetReadBuffer(4096)
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(conn, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 5000))
		}
	}
	natstest.Eventually(t, "those who do not read take all the room there is for scrapes", func() bool {
		code, _ := fetch(t, address, "/metrics")
		return code == 503
	})
	client := dial(t, s.url)
	for range 2000 {
		if _, err := client.Next(t.Context(), "order"); err != nil {
			t.Fatal(err)
		}
	}
	if code, _ := fetch(t, address, "/healthz"); code != 200 {
		t.Errorf("/healthz says %d", code)
	}
	natstest.Eventually(t, "those who hang are thrown out, and a scrape succeeds", func() bool {
		code, _ := fetch(t, address, "/metrics")
		return code == 200
	})
	s.stop(syscall.SIGTERM)
}

// TestDocumentedMetrics: every metric in the alerts, the board and the handbook is exported,
// and every metric that is exported is in the handbook.
func TestDocumentedMetrics(t *testing.T) {
	t.Parallel()
	address, folder := freeAddress(t), t.TempDir()
	tokens := write(t, folder, "tokens", "a-token-that-nobody-uses >")
	s := startServer(t, t.TempDir(), "--http", address, "--api", freeAddress(t), "--api-tokens", tokens)
	createTag(t, s.url, "order")
	var exported map[string]bool
	natstest.Eventually(t, "there is a worker ID", func() bool {
		exported = metricNames(t, address)
		return exported["idworker_lease_worker_id"]
	})
	exported["idworker_tag_runs_out_timestamp_seconds"] = true // takes a minute of evidence, see TestForecasts
	maps.Copy(exported, enricherMetrics(t, s.url))

	handbook := names(t, "monitoring.md")
	for name := range exported {
		if base := baseName(name); strings.HasPrefix(name, "idworker_") && !handbook[base] {
			t.Errorf("docs/monitoring.md does not explain %s", base)
		}
	}
	for _, file := range []string{"monitoring.md", "prometheus-rules.yml", "grafana.json"} {
		found := names(t, file)
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

// enricherMetrics are the names of the metrics of an enricher.
func enricherMetrics(t *testing.T, url string) (names map[string]bool) {
	t.Helper()
	createOrderStreams(t, url)
	address := freeAddress(t)
	p := settings{}.launch(t, "enrich", "--server", url, "--from", "ORDERS", "--to", "orders.ready.>", "--id", "snowflake", "--http", address)
	natstest.Eventually(t, "the enricher is ready", func() bool {
		return p.hasEnded() || strings.Contains(p.stderr.String(), "enriching")
	})
	if code, _ := fetch(t, address, "/readyz"); code != 200 {
		t.Errorf("/readyz of an enricher says %d", code)
	}
	return metricNames(t, address)
}

// createOrderStreams creates the streams ORDERS and ORDERS_READY.
func createOrderStreams(t *testing.T, url string) {
	t.Helper()
	js, err := jetstream.New(connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []jetstream.StreamConfig{
		{Name: "ORDERS", Subjects: []string{"orders.raw.>"}},
		{Name: "ORDERS_READY", Subjects: []string{"orders.ready.>"}, AllowAtomicPublish: true},
	} {
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRulesFile: the rules have the form that Prometheus expects, and each has a row in the handbook's table.
func TestRulesFile(t *testing.T) {
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
	_, handbook, _ := strings.Cut(document(t, "monitoring.md"), "| alert | what to do |")
	handbook, _, _ = strings.Cut(handbook, "\n## ")
	seen := make(map[string]bool)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			_, err := time.ParseDuration(r.For)
			if r.Alert == "" || seen[r.Alert] || r.Expr == "" || err != nil || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("rule %+v is not complete, or there twice", r)
			}
			if strings.Count(r.Expr, "(") != strings.Count(r.Expr, ")") {
				t.Errorf("unbalanced: %s", r.Expr)
			}
			if !strings.Contains(handbook, "`"+r.Alert+"`") {
				t.Errorf("docs/monitoring.md, Alerts, does not say what to do about %s", r.Alert)
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

func document(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// metric is the first value of a metric, whatever its labels; "" if there is none.
func metric(page, name string) string {
	found := regexp.MustCompile(`(?m)^` + name + `(?:\{[^}]*\})? (\S+)$`).FindStringSubmatch(page)
	if found == nil {
		return ""
	}
	return found[1]
}

// TestMetricsNameTheInstallation: those of workers, loaders and enrichers, but for what is said of a process before
// it has joined one.
func TestMetricsNameTheInstallation(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	createTag(t, s.url, "order")
	var installation string
	for _, st := range stats(t, connect(t, s.url), 1) {
		installation = st.Installation
	}
	addresses := map[string]string{"worker": freeAddress(t), "loader": freeAddress(t), "enricher": freeAddress(t)}
	for _, role := range []string{"worker", "loader"} {
		startWorker(t, s.url, "--role", role, "--http", addresses[role])
	}
	createOrderStreams(t, s.url)
	p := settings{}.launch(t, "enrich", "--server", s.url, "--from", "ORDERS", "--to", "orders.ready.>", "--id", "snowflake", "--http", addresses["enricher"])
	natstest.Eventually(t, "the enricher is ready", func() bool {
		return p.hasEnded() || strings.Contains(p.stderr.String(), "enriching")
	})
	for role, address := range addresses {
		_, page := fetch(t, address, "/metrics")
		n := 0
		for line := range strings.Lines(page) {
			switch {
			case !strings.HasPrefix(line, "idworker_") || strings.HasPrefix(line, "idworker_build_info"):
			case !strings.Contains(line, `installation="`+installation+`"`) || installation == "":
				t.Errorf("%s: %s does not name the installation %s", role, line, installation)
			default:
				n++
			}
		}
		if n < 5 {
			t.Errorf("%s: only %d metrics", role, n)
		}
	}
}

var metricName = regexp.MustCompile(`\bidworker_[a-z_]*[a-z]`)

// names are the metrics that a document mentions, without the suffixes of histograms.
func names(t *testing.T, file string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for _, name := range metricName.FindAllString(document(t, file), -1) {
		found[baseName(name)] = true
	}
	return found
}

func baseName(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

// metricNames are all that is exported.
func metricNames(t *testing.T, address string) map[string]bool {
	t.Helper()
	_, body := fetch(t, address, "/metrics")
	exported := make(map[string]bool)
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		if name, _, _ := strings.Cut(lines.Text(), " "); !strings.HasPrefix(name, "#") {
			name, _, _ = strings.Cut(name, "{")
			exported[name] = true
		}
	}
	return exported
}

// fetch gets a page; code 0 means that there was no answer.
func fetch(t *testing.T, address, path string) (code int, body string) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(fmt.Sprintf("http://%s%s", address, path))
	if err != nil {
		return 0, ""
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, ""
	}
	return response.StatusCode, string(data)
}
