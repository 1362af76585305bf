package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idworker/idworker/worker/api"
)

// metrics returns all metrics, by name and the value of the label.
func metrics(t testing.TB, s *api.Server) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "/" + l.GetValue()
			}
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}

// TestFlood: strangers open connections as fast as they can, and send nothing,
// half a header, or no body after announcing one. Every caller keeps its
// connection. A new caller gets in, if not at once then on a retry: many
// strangers between its connection and its request may displace it.
func TestFlood(t *testing.T) {
	const most, evictions = 300, 3_000
	s, _ := start(t, api.Config{Connections: most, Tokens: file(t, goodToken+" order\n")})
	caller := get("/v1/segment/order", "Authorization: Bearer "+goodToken)
	good := make([]client, 20)
	for i := range good {
		good[i] = connect(t, s)
		defer func() { _ = good[i].Close() }()
		good[i].exchange(t, caller)
	}
	var flood sync.WaitGroup
	defer flood.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, sends := range []string{"", "GET /v1/segment/order HTTP/1.1\r\nHost: x\r\nX", ask("POST", "/v1/segment/order", "Content-Length: 1")} {
		flood.Go(func() {
			var open []net.Conn
			for ctx.Err() == nil {
				c, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address())
				if err != nil {
					continue // the test stops, or has no more ports
				}
				_, _ = io.WriteString(c, sends)
				// It fills the room alone.
				if open = append(open, c); len(open) > most {
					_ = open[0].Close()
					open = open[1:]
				}
			}
			for _, c := range open {
				_ = c.Close()
			}
		})
	}
	tries := 0
	for m := metrics(t, s); m["idworker_api_connections_closed_total"] < evictions; m = metrics(t, s) {
		for i, c := range good {
			c.send(t, caller)
			if got, err := c.read(); got.status != 200 {
				t.Fatalf("caller %d has lost its connection: %+v, %v", i, got, err)
			}
		}
		eventually(t, "a new caller gets in", func() bool {
			tries++
			c := connect(t, s)
			defer func() { _ = c.Close() }()
			_, _ = io.WriteString(c, caller)
			got, _ := c.read()
			return got.status == 200
		})
		if m["idworker_api_connections"] > most {
			t.Errorf("%v connections", m["idworker_api_connections"])
		}
	}
	t.Logf("%d tries", tries)
}

// TestStrangersHarmNoCaller: connections without a token do anything, and keep
// the server waiting. Callers keep their connections, even if they send
// requests seldom, and new callers get in.
func TestStrangersHarmNoCaller(t *testing.T) {
	t.Parallel()
	const most, hostile = 40, 200
	long := strings.Repeat("x", 5000)
	caller := get("/v1/segment/order", "Authorization: Bearer "+goodToken)
	for name, sends := range map[string]string{
		"nothing":                   "",
		"part of a header":          "GET /v1/segment/order HTTP/1.1\r\nHost: localhost\r\nX",
		"too long a header":         get("/v1/segment/order", "X: "+long+long+long),
		"no body":                   ask("POST", "/v1/segment/order", "Content-Length: 1"),
		"part of a body":            ask("POST", "/api/segment/get/order", "Content-Length: 4096") + long[:4000],
		"no body, connection close": ask("POST", "/v1/segment/order", "Content-Length: 1", "Connection: close"),
		"no body, another token":    ask("POST", "/v1/segment/order", "Content-Length: 1", "Authorization: Bearer "+otherToken),
		"no body, right for others": ask("POST", "/v1/segment/other", "Content-Length: 1", "Authorization: Bearer "+goodToken),
		"no body, and a right":      ask("POST", "/v1/segment/order", "Content-Length: 1", "Authorization: Bearer "+goodToken),
		"no body, Expect":           ask("POST", "/v1/segment/order", "Content-Length: 1", "Expect: 100-continue"),
		"no body, description":      ask("POST", "/v1/openapi.yaml", "Content-Length: 1"),
		"no body, decode":           ask("POST", "/decodeSnowflakeId?snowflakeId=1", "Content-Length: 1"),
		"no body, no such path":     ask("POST", "/", "Content-Length: 1"),
		"a body without end":        ask("POST", "/v1/segment/order", "Transfer-Encoding: chunked") + "1388\r\n" + long,
		"a huge body":               ask("POST", "/v1/segment/order", "Content-Length: 1000000000000") + long,
		"reads no answer":           strings.Repeat(get("/v1/openapi.yaml"), 100),
		"many requests at once":     strings.Repeat(get("/v1/segment/order"), 50) + ask("POST", "/", "Content-Length: 1"),
	} {
		t.Run(name, func(t *testing.T) {
			s, source := start(t, api.Config{Connections: most, Tokens: file(t, goodToken+" order\n"+otherToken+" other\n")})
			good := make([]client, most/4)
			for i := range good {
				good[i] = connect(t, s)
				defer func() { _ = good[i].Close() }()
				good[i].exchange(t, caller)
			}
			callers := len(good)
			for i := range hostile {
				c := connect(t, s).Conn
				defer func() { _ = c.Close() }()
				_, _ = io.WriteString(c, sends)
				// Most of the earlier connections have been admitted.
				if i%most == most-1 {
					if asked := source.requests(); len(asked) > callers {
						t.Fatalf("%d callers asked, and the source was asked for %v", callers, asked)
					}
					callers = 1
					if fresh := exchange(t, s, caller); fresh.status != 200 {
						t.Fatalf("%d connections, one more caller: %+v", i+1, fresh)
					}
				}
			}
			for i, c := range good {
				c.send(t, caller)
				if got, err := c.read(); got.status != 200 {
					t.Errorf("caller %d has lost its connection: %+v, %v", i, got, err)
				}
			}
		})
	}
}

// TestCallersThatDoNotRead: a caller with a right that does not read its
// answers makes room for others, too.
func TestCallersThatDoNotRead(t *testing.T) {
	t.Parallel()
	const most = 3
	s, _ := startTimed(t, api.Config{Connections: most}, 5*time.Second)
	many := strings.Repeat(get("/v1/segment/order?n=10000"), 10_000)
	var stuck sync.WaitGroup
	for range most {
		c := connect(t, s)
		defer func() { _ = c.Close() }()
		stuck.Go(func() {
			// Until the server stops reading, because it cannot write.
			for err := error(nil); err == nil; {
				_ = c.SetWriteDeadline(time.Now().Add(time.Second))
				_, err = io.WriteString(c, many)
			}
		})
	}
	stuck.Wait()
	eventually(t, "the first of them has made room", func() bool {
		c := connect(t, s)
		defer func() { _ = c.Close() }()
		// It may be refused earlier.
		_, _ = io.WriteString(c, get("/v1/segment/order"))
		got, _ := c.read()
		return got.status == 200
	})
}

// TestIdleCallersMakeRoom: callers that keep all connections without requests
// make room for others, one each, the longest idle first. A stranger in the
// last place blocks no caller.
func TestIdleCallersMakeRoom(t *testing.T) {
	t.Parallel()
	const most = 10
	s, _ := start(t, api.Config{Connections: most, Tokens: file(t, goodToken+" order\n")})
	caller := get("/v1/segment/order", "Authorization: Bearer "+goodToken)
	var all []client
	for range 3 * most {
		c := connect(t, s)
		defer func() { _ = c.Close() }()
		if got := c.exchange(t, caller); got.status != 200 {
			t.Fatalf("caller %d: %+v", len(all)+1, got)
		}
		if all = append(all, c); len(all) == most-1 {
			stranger := connect(t, s)
			defer func() { _ = stranger.Close() }()
		}
	}
	eventually(t, "idle ones count as free", func() bool { return metrics(t, s)["idworker_api_connections_free"] == most })
	for i, c := range all[len(all)-most/2:] {
		if got := c.exchange(t, caller); got.status != 200 {
			t.Errorf("one of the latest callers, %d, has lost its connection: %+v", i, got)
		}
	}
}

// TestNoRoomAtAll: if callers have all connections, the next waits until a
// connection is closed. None of theirs is closed for it.
func TestNoRoomAtAll(t *testing.T) {
	t.Parallel()
	const most = 10
	s, source := start(t, api.Config{Connections: most, Wait: time.Minute})
	var all []client
	for i := range int64(most) {
		c := connect(t, s)
		defer func() { _ = c.Close() }()
		c.send(t, get("/v1/segment/cold"))
		eventually(t, "it is parked", func() bool { return source.parked.Load() == i+1 })
		all = append(all, c)
	}
	c := connect(t, s)
	defer func() { _ = c.Close() }()
	c.send(t, get("/v1/segment/order"))
	if free := metrics(t, s)["idworker_api_connections_free"]; free != 0 {
		t.Errorf("%v are free", free)
	}
	close(source.grant)
	for _, c := range all {
		if got := c.receive(t); got.status != 200 {
			t.Errorf("%+v", got)
		}
	}
	_ = all[0].Close()
	if got := c.receive(t); got.status != 200 {
		t.Errorf("when there is room: %+v", got)
	}
}

// TestSlowSenders: endless headers and late bodies time out.
func TestSlowSenders(t *testing.T) {
	t.Parallel()
	s, source := startTimed(t, api.Config{Wait: 100 * time.Millisecond}, 500*time.Millisecond)
	var all sync.WaitGroup
	for _, begin := range []string{"G", "GET /v1/segment/order HTTP/1.1\r\nHost: x\r\nX: ", get("/v1/segment/order") + "GET /v1/segment/o", ask("POST", "/v1/segment/order", "Content-Length: 4000")} {
		all.Go(func() {
			c := connect(t, s)
			defer func() { _ = c.Close() }()
			c.send(t, begin)
			go func() {
				for {
					if _, err := io.WriteString(c, "x"); err != nil {
						return
					}
					time.Sleep(100 * time.Millisecond)
				}
			}()
			_ = c.SetReadDeadline(time.Now().Add(patience))
			if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%q is still waited for", begin)
			}
		})
	}
	all.Wait()
	if asked := source.requests(); len(asked) > 2 {
		t.Errorf("the source was asked for %v", asked)
	}
}

// TestHugeRequests are refused before they are read.
func TestHugeRequests(t *testing.T) {
	t.Parallel()
	s, source := start(t, api.Config{})
	for _, huge := range []string{
		get("/v1/segment/order", "X: "+strings.Repeat("x", 1<<20)),
		get("/v1/segment/order?n=" + strings.Repeat("1", 1<<20)),
		get("/v1/segment/" + strings.Repeat("x", 1<<20)),
		get("/v1/segment/order", strings.Repeat("X: x\r\n", 1<<18)+"Y: y"),
		ask("POST", "/v1/segment/order", "Content-Length: 1000000000000"),
	} {
		c := connect(t, s)
		// The server may never read it to the end.
		go func() { _, _ = io.WriteString(c, huge) }()
		// The rest of the answer may be lost.
		if got, err := c.read(); got.status != 431 && got.status != 413 {
			t.Errorf("%.60q…: %+v, %v", huge, got, err)
		}
		_ = c.Close()
	}
	if asked := source.requests(); len(asked) > 0 {
		t.Errorf("the source was asked for %v", asked)
	}
}

// TestPipelining: requests sent before the answers are read are answered in
// order, each with its own IDs. A request inside a body is no request.
func TestPipelining(t *testing.T) {
	t.Parallel()
	s, source := start(t, api.Config{})
	c := connect(t, s)
	defer func() { _ = c.Close() }()
	const n = 500
	go func() {
		for i := range n {
			inner := get(fmt.Sprintf("/v1/segment/smuggled%d", i))
			_, _ = io.WriteString(c, ask("POST", "/v1/segment/order?n=2", fmt.Sprintf("Content-Length: %d", len(inner)))+inner)
		}
	}()
	for i := range int64(n) {
		got := c.receive(t)
		if ids := idsOf(t, got.body); got.status != 200 || ids[0] != 2*i+1 || ids[1] != 2*i+2 {
			t.Fatalf("answer %d: %+v", i, got)
		}
	}
	for _, tag := range source.requests() {
		if tag != "order" {
			t.Errorf("the source was asked for %s", tag)
		}
	}
	for _, twice := range []string{
		ask("POST", "/v1/segment/order", "Content-Length: 0", "Content-Length: 5") + "GET /",
		ask("POST", "/v1/segment/order", "Content-Length: 5", "Transfer-Encoding: chunked") + "0\r\n\r\n" + get("/v1/segment/smuggled"),
		"GET /v1/segment/order HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET /v1/segment/or der HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /v1/segment/order HTTP/1.1\r\nHost : a\r\n\r\n",
		"GET /v1/segment/order HTTP/1.1\r\n\r\n",
		"GET /v1/segment/order HTTP/3.0\r\nHost: a\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		c := connect(t, s)
		c.send(t, twice)
		if got, err := c.read(); err == nil && got.status == 200 {
			t.Errorf("%q: %+v", twice, got)
		}
		_ = c.Close()
	}
	if asked := source.requests(); len(asked) > 0 {
		t.Errorf("the source was asked for %v", asked)
	}
}

// TestClientsThatLeave: a parked request is withdrawn when its client leaves.
func TestClientsThatLeave(t *testing.T) {
	t.Parallel()
	s, source := start(t, api.Config{Wait: time.Minute})
	const n = 5
	for range n {
		c := connect(t, s)
		c.send(t, get("/v1/segment/cold"))
		defer func() { _ = c.Close() }()
		eventually(t, "it is parked", func() bool { return source.parked.Load() == 1 })
		_ = c.Close()
		eventually(t, "it is withdrawn", func() bool { return source.parked.Load() == 0 })
	}
	c := connect(t, s) // sends nothing more, but would still read
	defer func() { _ = c.Close() }()
	c.send(t, get("/v1/segment/cold"))
	eventually(t, "it is parked", func() bool { return source.parked.Load() == 1 })
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	if got, err := c.read(); err == nil {
		t.Errorf("got %+v, want no answer rather than one without an ID", got)
	}
	if gone := source.gone.Load(); gone != n+1 {
		t.Errorf("%d were withdrawn", gone)
	}
	eventually(t, "they are counted", func() bool { return metrics(t, s)["idworker_api_abandoned_total"] == n+1 })
}

// TestStop: requests in flight are answered, despite silent clients, and none
// after that.
func TestStop(t *testing.T) {
	t.Parallel()
	s, source := start(t, api.Drained(api.Config{Wait: 10 * time.Second}, time.Millisecond))
	var parked, silent []client
	for _, sends := range []string{"", "GET", get("/v1/segment/order") + "GET /", get("/v1/segment/order")} {
		c := connect(t, s)
		defer func() { _ = c.Close() }()
		c.send(t, sends)
		silent = append(silent, c)
	}
	for range 10 {
		c := connect(t, s)
		defer func() { _ = c.Close() }()
		c.send(t, get("/v1/segment/cold"))
		parked = append(parked, c)
	}
	eventually(t, "they are parked", func() bool { return source.parked.Load() == 10 })
	stopped := stopping(t, s)
	close(source.grant)
	for _, c := range parked {
		if got := c.receive(t); got.status != 200 || !got.closed {
			t.Errorf("%+v", got)
		}
	}
	select {
	case <-stopped:
	case <-time.After(patience / 2): // otherwise it would take all of it
		t.Error("it still waits for clients that send nothing")
	}
	for _, c := range silent {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadAll(c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Error("a silent client is still connected")
		}
	}
}

// stopping begins to stop a server, and waits until its answers end their
// connections. The channel is closed when it has stopped.
func stopping(t testing.TB, s *api.Server) (stopped chan struct{}) {
	t.Helper()
	caller := connect(t, s)
	defer func() { _ = caller.Close() }()
	caller.exchange(t, get("/v1/openapi.yaml"))
	stopped = make(chan struct{})
	go func() { defer close(stopped); s.Stop() }()
	eventually(t, "connections end", func() bool {
		if _, err := io.WriteString(caller, get("/v1/openapi.yaml")); err != nil {
			return true
		}
		got, err := caller.read()
		return err != nil || got.closed
	})
	if c, err := net.Dial("tcp", s.Address()); err == nil {
		_ = c.Close()
		t.Error("it still listens")
	}
	return stopped
}

// TestStopAnswersOpenConnections: a caller with an open connection may still
// send a request while the server stops. The answer ends the connection, also
// that to a request from before the stop.
func TestStopAnswersOpenConnections(t *testing.T) {
	t.Parallel()
	s, source := start(t, api.Drained(api.Config{}, patience))
	requests := []string{get("/v1/segment/order"), get("/api/segment/get/order"), ask("POST", "/v1/segment/nosuch", "Content-Length: 1") + "x"}
	var callers []client
	for range requests {
		c := connect(t, s)
		defer func() { _ = c.Close() }()
		if got := c.exchange(t, get("/v1/segment/order")); got.closed {
			t.Errorf("before the stop: %+v", got)
		}
		callers = append(callers, c)
	}
	parked := connect(t, s)
	defer func() { _ = parked.Close() }()
	parked.send(t, get("/v1/segment/cold"))
	eventually(t, "it is parked", func() bool { return source.parked.Load() == 1 })
	stopped := stopping(t, s)
	close(source.grant)
	if got := parked.receive(t); got.status != 200 || !got.closed {
		t.Errorf("parked: %+v", got)
	}
	for i, c := range callers {
		if got := c.exchange(t, requests[i]); got.status == 0 || got.status == 503 || !got.closed {
			t.Errorf("%q during the stop: %+v", requests[i], got)
		}
	}
	<-stopped // as all callers have left
}

// TestStopBreaksNoConnection: callers that send requests all the time, on
// connections that they keep, see only refused connections when a server stops.
func TestStopBreaksNoConnection(t *testing.T) {
	t.Parallel()
	for range 8 {
		s, _ := start(t, api.Drained(api.Config{}, patience))
		var calling sync.WaitGroup
		var ready sync.WaitGroup
		for range 12 {
			ready.Add(1)
			calling.Go(func() {
				transport := &http.Transport{}
				defer transport.CloseIdleConnections()
				caller := &http.Client{Transport: transport, Timeout: patience}
				warm := sync.OnceFunc(ready.Done)
				defer warm()
				for n := 0; ; n++ {
					if n == 50 {
						warm()
					}
					// The transport repeats a GET itself if its connection broke.
					r, err := caller.Post("http://"+s.Address()+"/v1/segment/order", "text/plain", strings.NewReader("x"))
					if errors.Is(err, syscall.ECONNREFUSED) {
						return
					}
					if err != nil {
						t.Errorf("after %d answers: %v", n, err)
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					_ = r.Body.Close()
				}
			})
		}
		ready.Wait()
		s.Stop()
		calling.Wait()
	}
}
