package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

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
