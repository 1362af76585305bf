package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/idworker/idworker/testing/natstest"
)

// start runs a server on a free port, and stops it when the test ends.
func startServer(t *testing.T, handler http.Handler, names ...string) (address string, stop func()) {
	t.Helper()
	at, stop, err := startHTTP(t.Context(), "127.0.0.1:0", names, handler, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return at.String(), stop
}

func TestProbes(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "some_gauge"}))
	var state atomic.Pointer[httpState]
	state.Store(&httpState{})
	handler := probes(registry, func() httpState { return *state.Load() })
	get := func(method, path string) string {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return fmt.Sprint(w.Code, " ", w.Body.String())
	}
	check := func(method, path, want string) {
		t.Helper()
		if got := get(method, path); !strings.Contains(got, want) {
			t.Errorf("%s %s: %q, want %q", method, path, got, want)
		}
	}
	check("GET", "/healthz", "200 ok\n")
	check("GET", "/readyz", "200 ready\n")
	check("GET", "/metrics", "some_gauge 0")
	check("POST", "/metrics", "405 ")
	check("GET", "/", "404 ")
	check("GET", "/debug/pprof/", "404 ")
	state.Store(&httpState{But: errors.New("no loader answers")})
	check("GET", "/readyz", "200 ready, but no loader answers\n")
	state.Store(&httpState{NotReady: errors.New("starting"), But: errors.New("no loader answers")})
	check("GET", "/readyz", "503 not ready: starting")
	check("GET", "/healthz", "200 ok\n")
}

// TestNamesOfOthers: a page of another site cannot read anything through a name
// of its own that leads here. Probes and Prometheus use an address, this
// machine's name, or an allowed name.
func TestNamesOfOthers(t *testing.T) {
	everything := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the names of tags") })
	address, _ := startServer(t, everything, "metrics.example")
	own, _ := os.Hostname()
	for host, want := range map[string]int{
		"localhost:9090": 200, "127.0.0.1:9090": 200, "[::1]:9090": 200, "10.1.2.3:9090": 200, own + ":9090": 200, "metrics.example": 200,
		"evil.example:9090": 403, "localhost.evil.example": 403, own + ".evil.example": 403, "x.metrics.example": 403,
	} {
		for _, path := range []string{"/", "/metrics", "/readyz", "/healthz", "/status.js", "//"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode != want || strings.Contains(string(body), "tags") != (want == 200) {
				t.Errorf("%s of %s: %s, %q; want %d", path, host, response.Status, body, want)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestLargeHeader: the size of a request's header is bounded.
func TestLargeHeader(t *testing.T) {
	address, _ := startServer(t, http.NotFoundHandler())
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	}()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 64 KiB: %s", response.Status)
	}
}

// TestHTTPStops: silent clients and a hanging handler do not delay the end.
func TestHTTPStops(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	address, stop := startServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(entered); <-release }))
	var clients []net.Conn
	for _, sends := range []string{"", "GET", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		clients = append(clients, conn)
		if _, err := io.WriteString(conn, sends); err != nil {
			t.Fatal(err)
		}
	}
	<-entered
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	select {
	case <-stopped:
	case <-time.After(natstest.Patience):
		t.Fatal("Stop still waits for clients")
	}
	for i, conn := range clients {
		var timeout net.Error
		_ = conn.SetReadDeadline(time.Now().Add(natstest.Patience))
		if _, err := io.ReadAll(conn); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("client %d is still connected after Stop", i)
		}
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Error("still listens after Stop")
	}
}
