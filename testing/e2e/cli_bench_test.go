package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/nemesis"
)

// TestBench: load on a real installation; what was recorded of it is checked alone, and refused once somebody
// has tampered with it.
func TestBench(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	createTag(t, s.url, "order")
	createTag(t, s.url, "invoice", "--order", "strict")
	as := settings{env: []string{"NATS_URL=" + s.url}}
	name := filepath.Join(t.TempDir(), "history")
	r := as.mustRun(t, "bench", "order", "invoice", "--snowflake", "--batch", "3", "--duration", "500ms", "--history", name, "--json")
	var report struct {
		Targets       []string
		Requests, IDs int64
		Failed        int64
		Latency       map[string]float64 `json:"latency_seconds"`
		InOrder       []string           `json:"in_order"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatal(err)
	}
	if report.Failed > 0 || report.Requests == 0 || report.IDs != 3*report.Requests || strings.Join(report.Targets, ", ") != "order, invoice (strict), snowflake IDs" {
		t.Errorf("%+v", report)
	}
	if got := strings.Join(report.InOrder, ", "); got != "invoice, snowflake IDs of each worker ID" {
		t.Errorf("in order: %s", got)
	}
	if l := report.Latency; l["p50"] <= 0 || l["p50"] > l["p99.9"] || l["p99.9"] > l["max"] {
		t.Errorf("latency %v", l)
	}
	history, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(history)
	if ids, found := checkAlone(t, text); found != "" || ids != report.IDs {
		t.Errorf("checked alone it has %d IDs, want %d; %s", ids, report.IDs, found)
	}
	for kind, want := range map[string]string{
		"batch": "DUPLICATE: batch order ", "strict": "NOT ASCENDING: strict invoice ", "snowflake": "DUPLICATE: snowflake - ",
	} {
		if _, found := checkAlone(t, tamper(text, kind)); !strings.Contains(found, want) {
			t.Errorf("the first answer of kind %s again: found %q, want %q", kind, found, want)
		}
	}
	if r := as.run(t, "bench", "order", "--history", name); r.code != exitFailure || !strings.Contains(r.stderr, "--history: ") || !strings.Contains(r.stderr, "name another file") {
		t.Errorf("with a history that exists (%d): %s", r.code, r.stderr)
	}
}

// checkAlone checks a history, and returns how many IDs it has, and what is wrong.
func checkAlone(t *testing.T, text string) (ids int64, found string) {
	t.Helper()
	c, err := nemesis.CheckHistory(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	ids, _, _ = c.Counts()
	return ids, strings.Join(c.Violations(), "\n")
}

// tamper gives the last call of a kind the answer of the first.
func tamper(text, kind string) string {
	lines := strings.Split(text, "\n")
	first, last := 0, 0
	for i, line := range lines {
		if strings.HasPrefix(line, kind+" ") {
			if first == 0 {
				first = i
			}
			last = i
		}
	}
	from, to := strings.Fields(lines[first]), strings.Fields(lines[last])
	to[5] = from[5]
	lines[last] = strings.Join(to, " ")
	return strings.Join(lines, "\n")
}

// TestBenchAsCaller: a user who may ask for IDs and nothing else may run it. It says what it could not look at.
func TestBenchAsCaller(t *testing.T) {
	t.Parallel()
	net := startProduction(t, natsConf)
	net.provision()
	net.serve("worker", "--role", "worker")
	net.serve("loader", "--role", "loader")
	net.must("admin", "tag", "create", "order", "--order", "strict")
	net.must("caller", "get", "order")
	if out := net.must("caller", "bench", "order", "--duration", "100ms").stdout; !strings.Contains(out, "ok    in order: order\n") {
		t.Errorf("a strict tag: %s", out)
	}
	if found := net.violations(); len(found) > 0 {
		t.Errorf("the server refused: %s", strings.Join(found, "\n"))
	}
	out := net.must("caller", "bench", "--snowflake", "--duration", "100ms").stdout
	if !strings.Contains(out, "note  the order of snowflake IDs was not looked at") {
		t.Errorf("snowflake IDs, for a user who may not read their layout: %s", out)
	}
}
