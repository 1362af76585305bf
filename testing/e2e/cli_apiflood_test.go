package e2e

import (
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// TestFloodOfConnections: thousands of connections over HTTP that send nothing, a part of a header, or one request
// and then nothing, disturb neither callers by NATS nor those by HTTP; and the process holds only so many of
// them, in bounded memory.
func TestFloodOfConnections(t *testing.T) {
	t.Parallel()
	const most = 512
	flood := tier.Pick(10_000, 100_000)
	address, state := freeAddress(t), freeAddress(t)
	s := startServer(t, t.TempDir(), "--api", address, "--http", state, "--api-connections", strconv.Itoa(most))
	createTag(t, s.url, "order", "--step", "100000")
	createTag(t, s.url, "web", "--step", "100000")
	byNATS := startCallers(t, s.url, load{callers: 2, tags: []string{"order"}, maxBatch: 10, timeout: 5 * time.Second})
	web := newLedgers([]string{"web"})
	byHTTP := startHTTPCallers(t, 4, "http://"+address, "web", web["web"])
	natstest.Eventually(t, "both are served", func() bool { return byNATS.ledgers.ids() > 100 && web.ids() > 100 })
	memory := metricValue(t, state, "process_resident_memory_bytes")

	began := time.Now()
	before := [2]int64{byNATS.ledgers.ids(), web.ids()}
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() { floodWith(t, address, flood/4, part) })
	}
	all.Wait()
	if connections := metricValue(t, state, "idworker_api_connections"); connections > most {
		t.Errorf("%v connections, allowed are %d", connections, most)
	}
	if grown := metricValue(t, state, "process_resident_memory_bytes") - memory; grown > 400<<20 {
		t.Errorf("%.0f MB more in use", grown/(1<<20))
	} else {
		t.Logf("%d connections in %v: %d IDs by NATS and %d by HTTP meanwhile, %.0f MB more in use", flood, time.Since(began).Round(time.Millisecond),
			byNATS.ledgers.ids()-before[0], web.ids()-before[1], grown/(1<<20))
	}
	after := [2]int64{byNATS.ledgers.ids(), web.ids()}
	natstest.Eventually(t, "both are still served", func() bool {
		return byNATS.ledgers.ids() > after[0]+100 && web.ids() > after[1]+100
	})
	byHTTP.stop()
	byNATS.finish()
	byNATS.ledgers.check(t)
	web.check(t)
	if again := byHTTP.again.Load(); again > web.ids()/100 {
		t.Errorf("%d requests were not answered, of %d", again, web.ids())
	}
	s.stop(syscall.SIGTERM)
}

// floodWith opens connections, and keeps some hundreds of them open at a time. A few may be refused.
func floodWith(t *testing.T, address string, n, kind int) {
	var open []net.Conn
	for i := range n {
		c, err := net.DialTimeout("tcp", address, 20*time.Second)
		if err != nil {
			t.Error(err)
			break
		}
		_, _ = io.WriteString(c, []string{"", "GET /v1/segment/web HT", "GET /v1/segment/web HTTP/1.1\r\nHost: x\r\nX: ", "GET /v1/segment/nosuch HTTP/1.1\r\nHost: localhost\r\n\r\n"}[(i+kind)%4])
		if open = append(open, c); len(open) > 400 {
			_ = open[0].Close()
			open = open[1:]
		}
	}
	for _, c := range open {
		_ = c.Close()
	}
}

// metricValue is one of the metrics of a process, without labels.
func metricValue(t *testing.T, address, name string) float64 {
	t.Helper()
	code, body := fetch(t, address, "/metrics")
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(body)
	if code != http.StatusOK || found == nil {
		t.Fatalf("no metric %s", name)
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
