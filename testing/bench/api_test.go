package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/api"
)

const (
	apiConnections = 64
	apiRounds      = 25
	apiRateBar     = 0.90 // × the bare handler's
	apiTailBar     = 1.11 // × the bare handler's
)

// BenchmarkAPI measures requests by HTTP, on 64 connections that stay open,
// beside a bare net/http handler without any limit that answers with the same
// bytes. It also compares an ID's CPU time with that of an ID by NATS,
// including server, worker and caller.
func BenchmarkAPI(b *testing.B) {
	srv := natstest.Start(b, syncAlways)
	d := startDirect(b, srv, "api")
	leaf, ours := openAPI(b, d, api.Config{}), openAPI(b, d, api.Config{})
	guarded := openAPI(b, d, api.Config{Tokens: tokensFile(b)})
	bare := startBare(b)

	call := newCaller(b, srv.Connect(b), apiConnections)
	byHTTP := func(address, path, headers string) func() costed {
		return func() costed { return measureHTTP(b, address, path, headers) }
	}
	figures := inTurns(apiRounds,
		byHTTP(bare, "/api/segment/get/"+busyTag, ""),
		byHTTP(leaf, "/api/segment/get/"+busyTag, ""),
		byHTTP(ours, "/v1/segment/"+busyTag, ""),
		byHTTP(guarded, "/v1/segment/"+busyTag, "Authorization: Bearer "+benchToken+"\r\n"),
		func() costed {
			return cost(func() measured { return call.round(b, messages.Prefix("api").Segment(busyTag), requestRound) })
		},
	)
	rate := func(c costed) float64 { return c.rate }
	p999 := func(c costed) float64 { return c.p999 }
	cpu := func(c costed) float64 { return c.cpu }
	add := func(side int, what string, field func(costed) float64, unit string, beside int, than string, bar bar) {
		ratio := medianRatio(column(figures[side], field), column(figures[beside], field))
		table.add(row{
			what: "HTTP, 64 connections, " + what, unit: unit, beside: than, ratio: ratio, bar: bar,
			subject: median(column(figures[side], field)), baseline: median(column(figures[beside], field)),
		})
	}
	for side, name := range []string{1: "Leaf's path", 2: "JSON"} {
		if name != "" {
			add(side, name+": throughput", rate, "/s", 0, "bare", atLeast(apiRateBar))
			add(side, name+": p99.9", p999, "µs", 0, "bare", atMost(apiTailBar))
			add(side, name+": CPU per ID", cpu, "µs", 0, "bare", atMost(apiTailBar))
		}
	}
	add(3, "JSON with a token: throughput", rate, "/s", 0, "bare", bar{}) // which reads no such header
	add(3, "JSON with a token: CPU per ID", cpu, "µs", 0, "bare", bar{})
	add(2, "JSON: CPU per ID", cpu, "µs", 4, "by NATS", bar{})
	b.ReportMetric(0, "ns/op")
}

// startBare runs the plainest server that net/http allows.
func startBare(b *testing.B) (address string) {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
		_, _ = io.WriteString(w, payload)
	})}
	go func() { _ = s.Serve(listener) }()
	b.Cleanup(func() { _ = s.Close() })
	return listener.Addr().String()
}

// startDirect runs a worker that has IDs for ever, and returns its own way to
// them.
func startDirect(b *testing.B, srv *natstest.Node, prefix messages.Prefix) *worker.Direct {
	b.Helper()
	w, _ := startWorker(b, srv, prefix, 1<<33, 1)
	d, err := w.Direct()
	if err != nil {
		b.Fatal(err)
	}
	natstest.Eventually(b, "IDs", func() bool { _, err := d.Segment(b.Context(), busyTag, nil, false, ""); return err == nil })
	return d
}

func openAPI(b *testing.B, source api.Source, cfg api.Config) (address string) {
	b.Helper()
	cfg.Address = "127.0.0.1:0"
	s, err := api.Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Stop)
	s.Answer(source)
	return s.Address()
}

const benchToken = "a-token-of-the-benchmark-0"

// tokensFile has a thousand tokens.
func tokensFile(b *testing.B) string {
	b.Helper()
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s %s\n", benchToken, busyTag)
	for i := range 1000 {
		fmt.Fprintf(&text, "another-token-%010d other.*\n", i)
	}
	path := filepath.Join(b.TempDir(), "tokens")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// costed is measured, with the CPU time of the whole process for each request,
// in microseconds.
type costed struct {
	measured
	cpu float64
}

// cost runs a round.
func cost(round func() measured) costed {
	runtime.GC()
	before, began := cpuTime(), time.Now()
	m := round()
	return costed{m, micros(cpuTime()-before) / (m.rate * time.Since(began).Seconds())}
}

func cpuTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // cannot fail
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// measureHTTP sends requests on connections of their own, each after the answer
// to the last. It reads no more of the answers than necessary, so that the
// caller costs little.
func measureHTTP(b *testing.B, address, path, headers string) costed {
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n")
	conns := make([]net.Conn, apiConnections)
	for i := range conns {
		c, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		conns[i] = c
	}
	return cost(func() measured {
		took := make([][]time.Duration, len(conns))
		began := time.Now()
		var all sync.WaitGroup
		for i, c := range conns {
			all.Go(func() {
				from := bufio.NewReader(c)
				for now := time.Now(); now.Sub(began) < requestRound; {
					if _, err := c.Write(request); err != nil {
						b.Error(err)
						return
					}
					if err := skipAnswer(from); err != nil {
						b.Error(err)
						return
					}
					took[i] = append(took[i], time.Since(now))
					now = time.Now()
				}
			})
		}
		all.Wait()
		seconds := time.Since(began).Seconds()
		samples := slices.Concat(took...)
		slices.Sort(samples)
		return measured{
			rate: float64(len(samples)) / seconds,
			p50:  micros(percentile(samples, 0.5)),
			p99:  micros(percentile(samples, 0.99)),
			p999: micros(percentile(samples, 0.999)),
		}
	})
}

// skipAnswer reads an answer with an ID.
func skipAnswer(from *bufio.Reader) error {
	length := 0
	for first := true; ; first = false {
		line, err := from.ReadSlice('\n')
		switch value, isLength := bytes.CutPrefix(line, []byte("Content-Length: ")); {
		case err != nil:
			return err
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")):
			return fmt.Errorf("answered %q", line)
		case isLength:
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		case len(line) == 2:
			_, err := from.Discard(length)
			return err
		}
	}
}
