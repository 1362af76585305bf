package e2e

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// TestAPIWithTokensAndTLS: callers of other machines are served with a certificate and tokens, and a token that
// is taken away loses its right while the process runs.
func TestAPIWithTokensAndTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	pair := newPair(t, folder)
	tokens := filepath.Join(folder, "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const first, second = "the-first-token-of-a-team", "the-second-token-of-a-team"
	write(first + " order.* @snowflake\n")
	_, port, _ := net.SplitHostPort(freeAddress(t))
	s := startServer(t, t.TempDir(), "--api", "0.0.0.0:"+port, "--api-tls-cert", pair.cert, "--api-tls-key", pair.key, "--api-tokens", tokens)
	createTag(t, s.url, "order.de")
	createTag(t, s.url, "invoice")
	client := pair.client(t)
	status := func(path, token string) int {
		t.Helper()
		a, err := askHTTP(t, client, http.MethodGet, "https://127.0.0.1:"+port+path, "Authorization", "Bearer "+token)
		if err != nil {
			t.Fatal(err)
		}
		return a.status
	}
	natstest.Eventually(t, "the tags are known", func() bool { return status("/v1/segment/order.de", first) == 200 })
	for path, want := range map[string]int{"/v1/segment/order.de": 200, "/api/segment/get/order.de": 200, "/v1/segment/invoice": 403, "/api/segment/get/invoice": 403} {
		if got := status(path, first); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
		if got := status(path, second); got != 401 {
			t.Errorf("%s with a token that nobody has: %d", path, got)
		}
	}
	write("")
	natstest.Eventually(t, "the empty file is noticed", func() bool { return strings.Contains(s.stderr.String(), "cannot be read again") })
	if got := status("/v1/segment/order.de", first); got != 200 {
		t.Errorf("%d with an empty file, want what was in force", got)
	}
	write(second + " >\n")
	natstest.Eventually(t, "the new file is in force", func() bool { return status("/v1/segment/invoice", second) == 200 })
	if got := status("/v1/segment/order.de", first); got != 401 {
		t.Errorf("%d for a token that was taken away", got)
	}
	s.stop(syscall.SIGTERM)
	if log := s.stderr.String(); strings.Contains(log, first) || strings.Contains(log, second) {
		t.Error("a token is in the log")
	}
}

// TestAPIOfWorkersInProduction: with the users of nats.conf, whichever worker is asked by HTTP, and by NATS in
// between, the IDs of a strict tag go up; no ID of any tag comes twice; and the server refuses nothing.
func TestAPIOfWorkersInProduction(t *testing.T) {
	t.Parallel()
	p := startProduction(t, natsConf)
	p.provision()
	loader := p.serve("loader", "--role", "loader")
	var addresses []string
	var workers []*process
	for range 3 {
		address := freeAddress(t)
		addresses = append(addresses, address)
		workers = append(workers, p.serve("worker", "--role", "worker", "--api", address))
	}
	p.must("admin", "tag", "create", "invoice", "--step", "50", "--order", "strict")
	p.must("admin", "tag", "create", "order", "--step", "50")
	client := newHTTPClient(t)
	byNATS := messages.NewClient(p.connect("caller"), messages.DefaultPrefix)
	ask := func(address, path string, n int64) []messages.Range {
		t.Helper()
		for deadline := time.Now().Add(readyWithin); ; {
			a, err := askHTTP(t, client, http.MethodPost, "http://"+address+path+"?n="+strconv.FormatInt(n, 10), "Accept", "text/plain")
			ranges, bad := messages.DecodeRanges([]byte(a.body), n)
			if err == nil && a.status == 200 && bad == nil {
				return ranges
			}
			if a.status != 404 && a.status != 503 || time.Now().After(deadline) {
				t.Fatalf("%s: %+v, %v, %v", path, a, err, bad)
			}
		}
	}
	all := newLedgers([]string{"invoice", "order", "snowflake"})
	highest := int64(0)
	for i := range 300 {
		n := int64(1 + i%3)
		ranges := ask(addresses[i%3], "/v1/segment/invoice", n)
		if i%4 == 3 {
			var err error
			if ranges, err = byNATS.NextN(t.Context(), "invoice", n); err != nil {
				t.Fatal(err)
			}
		}
		if ranges[0].First <= highest {
			t.Fatalf("worker %d: %v after %d", i%3, ranges, highest)
		}
		highest = ranges[len(ranges)-1].Last
		all["invoice"].add(ranges)
		all["order"].add(ask(addresses[i%3], "/v1/segment/order", n))
		all["snowflake"].add(ask(addresses[i%3], "/v1/snowflake", n))
	}
	all.check(t)
	var forwarded int64
	for _, s := range stats(t, p.connect("admin"), 3) {
		forwarded += s.Strict.Forwarded
	}
	if forwarded < 100 {
		t.Errorf("only %d requests were passed on", forwarded)
	}
	refusedNothing(t, p)
	for _, w := range workers {
		w.stop(syscall.SIGTERM)
	}
	loader.stop(syscall.SIGTERM)
}

// TestAPINeedsItsRight: with the nats.conf of an older version a worker works as before; one that answers HTTP says
// which right it lacks, and does not start.
func TestAPINeedsItsRight(t *testing.T) {
	t.Parallel()
	conf, err := os.ReadFile(natsConf)
	if err != nil {
		t.Fatal(err)
	}
	older := regexp.MustCompile(`,? *"ids\.answer\.[^\n]*`).ReplaceAllString(string(conf), "")
	p := startProduction(t, write(t, t.TempDir(), "nats.conf", older))
	p.provision()
	p.serve("worker", "--role", "worker").stop(syscall.SIGTERM)
	w := p.as("worker").launch(t, "serve", "--role", "worker", "--api", freeAddress(t))
	if code := w.wait(); code != exitFailure || !strings.Contains(w.stderr.String(), `"ids.answer.`) || !strings.Contains(w.stderr.String(), "nats.conf shows which rights each role needs") {
		t.Errorf("exit code %d:\n%s", code, w.stderr.Tail())
	}
}
