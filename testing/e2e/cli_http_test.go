package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestHTTP: the HTTP servers of a worker and a loader.
func TestHTTP(t *testing.T) {
	t.Parallel()
	ns := natstest.Start(t)
	s := &httpSite{ns: ns, pair: newPair(t, t.TempDir()), worker: freeport.Address(t), loader: freeport.Address(t)}
	_, port, _ := net.SplitHostPort(freeport.Address(t))
	s.api, s.tokens = "127.0.0.1:"+port, write(t, t.TempDir(), "tokens", firstToken+" order.* @snowflake\n")
	s.serve = startWorker(t, ns.URL(), "--http", s.worker, "--api", "0.0.0.0:"+port,
		"--api-tls-cert", s.pair.cert, "--api-tls-key", s.pair.key, "--api-tokens", s.tokens)
	load := startWorker(t, ns.URL(), "--role", "loader", "--http", s.loader)
	createTag(t, ns.URL(), "order.de")
	createTag(t, ns.URL(), "invoice")
	t.Run("tokens and TLS", s.tokensAndTLS)
	t.Run("watched", s.watched)
	t.Run("without NATS", s.withoutNATS)
	s.serve.stop(syscall.SIGTERM)
	load.stop(syscall.SIGTERM)
	if log := s.serve.stderr.String(); strings.Contains(log, firstToken) || strings.Contains(log, secondToken) {
		t.Error("a token is in the log")
	}
}

const firstToken, secondToken = "the-first-token-of-a-team", "the-second-token-of-a-team"

type httpSite struct {
	ns                  *natstest.Node
	pair                pair
	worker, loader, api string // addresses
	tokens              string // file
	serve               *process
}

// tokensAndTLS: callers of other machines are served with a certificate and
// tokens, and a token that is taken away loses its right while the process
// runs.
func (s *httpSite) tokensAndTLS(t *testing.T) {
	client := s.pair.client(t)
	status := func(path, token string) (status int) {
		t.Helper()
		natstest.Eventually(t, path+" is answered", func() bool {
			a, err := askHTTP(t, client, http.MethodGet, "https://"+s.api+path, "Authorization", "Bearer "+token)
			if err != nil {
				t.Fatal(err)
			}
			status = a.status
			return status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable
		})
		return status
	}
	for path, want := range map[string]int{"/v1/segment/order.de": 200, "/api/segment/get/invoice": 403} {
		if got := status(path, firstToken); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if err := os.WriteFile(s.tokens, []byte(secondToken+" >\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.serve.signal(syscall.SIGHUP) // which does not end it
	natstest.Eventually(t, "the new file is in force", func() bool { return status("/v1/segment/invoice", secondToken) == 200 })
	if got := status("/v1/segment/order.de", firstToken); got != 401 {
		t.Errorf("%d for a token that was taken away", got)
	}
}

// watched: a watched status is refreshed until a signal ends it, and follows
// events.
func (s *httpSite) watched(t *testing.T) {
	watch := settings{}.launch(t, "status", "--server", s.ns.URL(), "--watch")
	shows := func(text string) {
		t.Helper()
		natstest.Eventually(t, "it shows "+text, func() bool { return strings.Contains(watch.stdout.String(), text) })
	}
	shows("workers 1, loaders 2")
	shows(s.serve.instance())
	second := startWorker(t, s.ns.URL(), "--role", "worker")
	shows("workers 2, loaders 2")
	second.kill()
	shows("workers 1 of 2")
	watch.stop(syscall.SIGINT)
}

// withoutNATS: /readyz of a worker and a loader turns to 503 when their server
// is gone, and back when it returns. Their pages stay up, and show that other
// processes are unknown.
func (s *httpSite) withoutNATS(t *testing.T) {
	const healthy = `<span class="good">ready</span>`
	becomes := func(code int, why string, page ...string) {
		t.Helper()
		for _, address := range []string{s.worker, s.loader} {
			natstest.Eventually(t, fmt.Sprintf("/readyz says %d", code), func() bool {
				got, body := fetch(t, address, "/readyz")
				return got == code && strings.Contains(body, why)
			})
			natstest.Eventually(t, fmt.Sprintf("the page says %q", page), func() bool {
				got, body := fetch(t, address, "/")
				return got == 200 && !slices.ContainsFunc(page, func(text string) bool { return !strings.Contains(body, text) })
			})
			if got, _ := fetch(t, address, "/healthz"); got != 200 {
				t.Errorf("/healthz says %d, but the process lives", got)
			}
		}
	}
	becomes(200, "ready", healthy, s.serve.instance())
	s.ns.Stop()
	becomes(503, "not connected to NATS", "unknown: all but this process", "not connected to NATS")
	s.ns.Restart()
	becomes(200, "ready", healthy, s.serve.instance())
}

func document(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// fetch gets a page; code 0 means that there was no answer.
func fetch(t *testing.T, address, path string) (code int, body string) {
	t.Helper()
	client := http.Client{Timeout: natstest.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
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
