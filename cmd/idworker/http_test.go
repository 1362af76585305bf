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
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
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

// TestTagsBeforeWorkerID: HTTP callers get IDs of tags while the process still
// claims a worker ID, which takes as long as others use every worker ID that it
// tries. Requests for snowflake IDs are to be repeated.
func TestTagsBeforeWorkerID(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	others := srv.Connect(t)
	held, err := others.Subscribe(lease.HoldsSubject(messages.DefaultPrefix), func(claim *nats.Msg) {
		_ = claim.Respond([]byte(`{"hold":"another","end":9223372036854775807}`))
	})
	if err == nil {
		err = others.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	var log process.Text
	address := freeport.Address(t)
	serve := program(t, "serve", "--server", srv.URL(), "--api", address)
	serve.Stderr = &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve.Wait() }()
	t.Cleanup(func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			t.Log(err) // a lease that was not released in time expires
		}
		mustBeSound(t, log.String())
	})
	get := func(path string) (code int, retry, body string) {
		r, err := http.Get("http://" + address + path)
		if err != nil {
			return 0, "", err.Error()
		}
		defer func() { _ = r.Body.Close() }()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		return r.StatusCode, r.Header.Get("Retry-After"), string(text)
	}
	natstest.Eventually(t, "the tag is created", func() bool {
		return program(t, "tag", "create", "order", "--if-missing", "--server", srv.URL()).Run() == nil
	})
	natstest.Eventually(t, "IDs of the tag", func() bool {
		if len(ended) > 0 {
			t.Fatalf("it ended:\n%s", log.String())
		}
		code, _, _ := get("/v1/segment/order")
		return code == http.StatusOK
	})
	if code, retry, body := get("/v1/snowflake"); code != http.StatusServiceUnavailable || retry != "1" || !strings.Contains(body, "no worker ID: not claimed yet") {
		t.Errorf("snowflake ID before the claim: %d, Retry-After %q, %s", code, retry, body)
	}
	if err := held.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "a snowflake ID", func() bool {
		code, _, _ := get("/v1/snowflake")
		return code == http.StatusOK
	})
	natstest.Eventually(t, "it serves", func() bool { return strings.Contains(log.String(), "\tserving") })
	// Only then is it ready, so that a rolling restart stops the next process.
	answering, serving := strings.Index(log.String(), "\tanswering HTTP"), strings.Index(log.String(), "\tserving")
	if answering < 0 || serving < answering {
		t.Errorf("it did not answer callers before it served:\n%s", log.String())
	}
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

// TestHTTPFlood: idle connections are closed for others, the oldest first, so a
// probe is answered.
func TestHTTPFlood(t *testing.T) {
	address, _ := startServer(t, probes(prometheus.NewRegistry(), func() httpState { return httpState{} }))
	var idle []net.Conn
	for range 2 * httpConnections {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(httpIdleTimeout / 2)) // before it is closed anyway
		if _, err := fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		idle = append(idle, conn)
	}
	if fetch(address, "/healthz") != "ok\n" {
		t.Error("a probe is not answered")
	}
	for n, conn := range idle[:httpConnections] {
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d is open", n)
		}
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

// TestNotReadyWhileStopping: a load balancer drops a process that stops, while
// it still answers.
func TestNotReadyWhileStopping(t *testing.T) {
	d := newDaemon(serverConfig{})
	d.serving.Store(true)
	d.stopping.Store(true)
	if got := d.state().NotReady; !errors.Is(got, errStopping) {
		t.Errorf("%v, want %v", got, errStopping)
	}
}
