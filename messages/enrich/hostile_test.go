package enrich

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/idworker/idworker/testing/tier"
)

// natsHeaders are headers that a server or a client interprets.
var natsHeaders = []string{
	"Nats-Msg-Id", "Nats-Expected-Stream", "Nats-Expected-Last-Sequence", "Nats-Expected-Last-Subject-Sequence",
	"Nats-Expected-Last-Subject-Sequence-Subject", "Nats-Expected-Last-Msg-Id", "Nats-Rollup", "Nats-TTL", "Nats-Incr",
	"Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit", "Nats-Schedule", "Nats-Schedule-Target", "Nats-Schedule-TTL",
	"Nats-Schedule-Source", "Nats-Scheduler", "Nats-Schedule-Next", "Nats-Required-Api-Level", "Nats-Marker-Reason", "Nats-Trace-Dest",
	"Nats-Trace-Only", "Nats-Stream", "Nats-Sequence", "Nats-Subject", "Nats-Time-Stamp", "Nats-Last-Sequence", "Nats-Num-Pending",
	"Nats-Msg-Size", "Nats-Stream-Source", "Nats-Response-Type", "Nats-Pin-Id", "Nats-Pending-Messages", "Nats-Pending-Bytes",
	"Nats-Last-Consumer", "Nats-Last-Stream", "Nats-Consumer-Stalled", "Nats-UpTo-Sequence", "Nats-Request-Info", "Nats-Counter-Sources",
	"Nats-Service-Error", "Nats-Service-Error-Code", "KV-Operation", "Status", "Description", "Accept-Encoding", "traceparent",
	HeaderID, HeaderSource, HeaderError, HeaderSubject,
}

// hostileHeaders are headers, as bytes, that a producer may send to do harm.
func hostileHeaders() (all [][]byte) {
	add := func(format string, args ...any) { all = append(all, fmt.Appendf(nil, format, args...)) }
	for _, name := range natsHeaders {
		for _, value := range []string{"1", "0", "all", "sub", "ORDERS 1", "503", "99999999999999999999", "-1", "", "\x00\xff"} {
			for _, spelling := range []string{name, strings.ToLower(name), strings.ToUpper(name), name + " ", " " + name} {
				// A header that the source itself obeys would keep the event
				// out of it.
				if spelling == name && strings.HasPrefix(name, "Nats-") {
					continue
				}
				add("NATS/1.0\r\n%s: %s\r\n\r\n", spelling, value)
			}
		}
	}
	for _, name := range []string{"X", "Status"} {
		add("NATS/1.0\r\n%s: %s\r\n\r\n", name, strings.Repeat("v", 65_000))
		add("NATS/1.0\r\n%s: %s\r\n\r\n", name, strings.Repeat("v", 65_535-len("NATS/1.0\r\n: \r\n\r\n")-len(name)))
		add("NATS/1.0\r\n%s\r\n", strings.Repeat(name+": v\r\n", 5000))
		add("NATS/1.0\r\n%s: v\r\n\r\n", strings.Repeat(name, 5000))
	}
	for _, status := range []string{"100", "100 Idle Heartbeat", "404 No Messages", "408 Request Timeout", "409 Consumer Deleted", "503"} {
		add("NATS/1.0 %s\r\n\r\n", status)
		add("NATS/1.0 %s\r\nNats-Pending-Messages: 1000\r\n\r\n", status)
	}
	add("NATS/1.0\r\n\r\n")
	add("NATS/1.0\r\nno colon\r\n\r\n")
	add("NATS/1.0\r\n: no name\r\n\r\n")
	add("NATS/9.9\r\nX: y\r\n\r\n")
	add("\r\n\r\n")
	add("x")
	add("NATS/1.0\r\nX: y\r\n folded\r\n\r\nNats-Batch-Id: x\r\n\r\n")
	return all
}

// mutated changes some bytes of a header.
func mutated(r *rand.Rand, all [][]byte) []byte {
	out := bytes.Clone(all[r.IntN(len(all))])
	out = out[:min(len(out), 300)]
	for range 1 + r.IntN(5) {
		switch at := r.IntN(len(out)); r.IntN(4) {
		case 0:
			out[at] = byte(r.IntN(256))
		case 1:
			out = append(out[:at], out[min(at+r.IntN(8), len(out)-1):]...)
		case 2:
			out = append(out[:at:at], append([]byte("\r\n"), out[at:]...)...)
		case 3:
			other := all[r.IntN(len(all))]
			out = append(out[:at:at], other[:min(len(other), 200)]...)
		}
	}
	return out
}

// For any input of a producer, each event that the source accepted is in the
// target once, in order, with its own ID, or is a dead letter.
func TestHostileProducer(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(o *server.Options) { o.MaxPayload = 1 << 20 })
	seed, err := strconv.ParseUint(os.Getenv("IDWORKER_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("IDWORKER_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	headers := hostileHeaders()
	for all := hostileHeaders(); len(headers) < tier.Pick(5000, 100_000); {
		headers = append(headers, mutated(r, all))
	}
	bodies := make([][]byte, len(headers))
	for i := range bodies {
		switch r.IntN(4) {
		case 0:
			bodies[i] = []byte(`{"id":{"id":[`)
		case 1: // empty
		default:
			bodies[i] = []byte("{}")
		}
	}
	target := readyConfig
	target.AllowBatchPublish = true
	b.stream(target)
	cfg := b.config()
	cfg.JSON, cfg.Existing, cfg.Log = "id", Refuse, zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))
	e, _ := b.start(cfg)
	for i := 0; i < len(headers); i += 1000 {
		end := min(i+1000, len(headers))
		b.rawPublish("orders.raw.1", headers[i:end], bodies[i:end])
	}
	for _, size := range []int{1 << 20, 1<<20 - 1, 1<<20 - 200, 1<<20 - 300, 1 << 19} {
		b.rawPublish("orders.raw.1", [][]byte{nil}, [][]byte{bytes.Repeat([]byte("{"), size)})
	}
	b.rawPublish("orders.raw."+strings.Repeat("s", 4050), [][]byte{[]byte("NATS/1.0\r\n\r\n")}, [][]byte{[]byte("{}")})
	b.event("orders.raw.1", "{}", nats.Header{"The": {"end"}})
	<-b.js.PublishAsyncComplete()
	n := b.count("ORDERS")
	b.await(n)
	b.expectOrigins("READY", int(n))
	f := e.Figures()
	t.Logf("%d of %d events were taken, %d are dead letters, %d turns", n, len(headers)+7, f.DeadLetters, f.Turns)
	if dead := f.DeadLetters; int(n) < len(headers)/2 || dead < int64(n)/10 || dead > int64(n)*9/10 {
		t.Errorf("%d events with %d dead letters are no test", n, f.DeadLetters)
	}
}

// FuzzEvent searches for events that are stamped in a way that a server or a
// client would misinterpret.
func FuzzEvent(f *testing.F) {
	for i, header := range hostileHeaders() {
		if i%40 == 0 || len(header) < 30 {
			f.Add(header, []byte("{}"))
		}
	}
	m, err := newMapping("raw.>", "ready.>")
	if err != nil {
		f.Fatal(err)
	}
	at := time.Unix(0, 8)
	s := stamper{source: "S", chain: "T chain", mapping: m, json: jsonPath{keys: "order.id"}, existing: Keep, limit: 1 << 20, letterLimit: 1 << 20}
	f.Fuzz(func(t *testing.T, header, data []byte) {
		decoded, err := nats.DecodeHeadersMsg(header)
		msg, keeps, err := s.draft(event{Sequence: 7, Time: at, Subject: "raw.x", Header: decoded, Data: data, Malformed: err != nil})
		if err == nil && !keeps {
			err = s.putID(msg, 4711)
		}
		if err != nil {
			msg = s.makeDeadLetter("dead", event{Sequence: 7, Time: at, Subject: "raw.x", Header: decoded, Data: data}, err)
		}
		for name := range msg.Header {
			if lower := strings.ToLower(name); strings.HasPrefix(strings.TrimSpace(lower), "nats-") {
				t.Errorf("header %q is passed on", name)
			}
		}
		if o := parseOrigin(msg.Header); o != (origin{"S", 7, "T chain", at, err != nil}) {
			t.Errorf("origin %+v, with the error %v", o, err)
		}
		if checkSize(msg, s.limit) != nil {
			t.Error("too large")
		}
	})
}
