package verify_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/testing/enriched"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

// bed is a server with a source of some events, and the correct result of an
// enricher.
type bed struct {
	*testing.T
	js       jetstream.JetStream
	orders   jetstream.Stream
	events   int
	source   []*nats.Msg // event n is at n-1
	enriched []*nats.Msg // the correct target
	dead     []*nats.Msg // the correct stream of dead letters

	retention jetstream.RetentionPolicy // of the target
}

// Every twentieth event cannot be stamped, and event 30 already has an ID.
const (
	deadEvery = 20
	keptEvent = 30
	keptID    = "777777"
)

func isDead(n int) bool { return n%deadEvery == 0 }

func newBed(t *testing.T, events int, opts ...func(*server.Options)) *bed {
	t.Helper()
	js := natstest.JetStream(t, natstest.Start(t, opts...).Connect(t), jetstream.WithPublishAsyncMaxPending(200_000))
	b := &bed{T: t, js: js, events: events}
	b.orders = b.stream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>", "orders.test"}})
	counters := map[string]int{}
	for n := 1; n <= events; n++ {
		b.addEvent(n, counters)
	}
	return b
}

// addEvent makes an event, and its result. Two tags have the same numbers.
func (b *bed) addEvent(n int, counters map[string]int) {
	country := []string{"de", "fr"}[n%2]
	e := &nats.Msg{Subject: fmt.Sprintf("orders.raw.%s.%d", country, n), Data: fmt.Appendf(nil, `{"n":%d}`, n), Header: nats.Header{"Trace": {strconv.Itoa(n)}}}
	out := nats.Header{"Trace": e.Header["Trace"], enrich.HeaderSource: {fmt.Sprintf("ORDERS %d", n)}}
	switch {
	case isDead(n):
		e.Data = []byte(`{"n":`)
		out[enrich.HeaderError] = []string{"not JSON"}
		b.dead = append(b.dead, &nats.Msg{Subject: "orders.dead", Header: out, Data: e.Data})
	case n == keptEvent:
		e.Header[enrich.HeaderID] = []string{keptID}
		out[enrich.HeaderID] = []string{keptID}
		b.enriched = append(b.enriched, &nats.Msg{Subject: strings.Replace(e.Subject, "raw", "ready", 1), Header: out, Data: e.Data})
	default:
		counters[country]++
		out[enrich.HeaderID] = []string{strconv.Itoa(counters[country])}
		b.enriched = append(b.enriched, &nats.Msg{Subject: strings.Replace(e.Subject, "raw", "ready", 1), Header: out, Data: fmt.Appendf(nil, `{"n":%d,"id":"%d"}`, n, counters[country])})
	}
	b.source = append(b.source, e)
}

func readyConfig(b *bed) jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: "READY", Subjects: []string{"orders.ready.>", "other"}, Retention: b.retention}
}

// fill creates target and dead letters, and publishes everything.
func (b *bed) fill() {
	b.Helper()
	b.stream(readyConfig(b))
	b.stream(jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"orders.dead"}})
	b.publish(b.source...)
	b.publish(b.dead...)
	b.publish(b.enriched...)
}

const chain = "READY chain1"

// addEvidence adds the evidence to the results, unless they have a value for it
// already or are empty.
func (b *bed) addEvidence(all []*nats.Msg) {
	b.Helper()
	for _, m := range all {
		number, ours := strings.CutPrefix(m.Header.Get(enrich.HeaderSource), "ORDERS ")
		seq, err := strconv.ParseUint(number, 10, 64)
		values, has := m.Header[enrich.HeaderChain]
		switch {
		case !has && ours && err == nil:
			m.Header[enrich.HeaderChain] = []string{b.evidence(chain, seq)}
		case len(values) == 0:
			m.Header.Del(enrich.HeaderChain)
		case strings.Count(values[0], " ") == 1: // only the chain
			m.Header[enrich.HeaderChain] = []string{b.evidence(values[0], seq)}
		}
	}
}

// evidence returns an enricher's evidence about an event of the source.
func (b *bed) evidence(chain string, seq uint64) string {
	b.Helper()
	msg, err := b.orders.GetMsg(b.Context(), max(seq, 1))
	// It was removed for the test.
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return chain + " 1"
	}
	if err != nil {
		b.Fatal(err)
	}
	return fmt.Sprintf("%s %d", chain, msg.Time.UnixNano())
}

// publish publishes messages, with an enricher's evidence.
func (b *bed) publish(all ...*nats.Msg) {
	b.Helper()
	b.addEvidence(all)
	for _, m := range all {
		if _, err := b.js.PublishMsgAsync(m); err != nil {
			b.Fatal(err)
		}
	}
	select {
	case <-b.js.PublishAsyncComplete():
	case <-time.After(natstest.Patience):
		b.Fatal("messages are not acknowledged")
	}
}

func (b *bed) stream(cfg jetstream.StreamConfig) jetstream.Stream {
	b.Helper()
	s, err := b.js.CreateOrUpdateStream(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (b *bed) open(name string) jetstream.Stream {
	b.Helper()
	s, err := b.js.Stream(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (b *bed) config() verify.Config {
	return verify.Config{JetStream: b.js, Enrichment: enrich.Config{
		From: "ORDERS", Filter: "orders.raw.*.*", To: "orders.ready.*.*", ID: "segment:order.{{wildcard(1)}}", JSON: "id", DeadLetter: "orders.dead",
	}}
}

// verify runs a verifier, and fails the test on errors other than faults.
func (b *bed) verify(cfg verify.Config) *verify.Verification {
	b.Helper()
	v, err := verify.Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	r, err := v.Run(b.Context())
	if err != nil && !errors.Is(err, verify.ErrFaults) {
		b.Fatal(err)
	}
	if (err != nil) != (len(r.Faults) > 0) {
		b.Errorf("error %v with the faults %v", err, r.Faults)
	}
	for _, f := range r.Findings {
		b.Log(f)
	}
	return r
}

// expectClean fails the test unless there are no faults, and so many events
// were compared.
func (b *bed) expectClean(r *verify.Verification, events int) {
	b.Helper()
	if len(r.Findings) > 0 || len(r.Faults) > 0 || r.Events != uint64(events) {
		b.Errorf("%+v, want %d events and no findings", r, events)
	}
}

// brute returns the results of the plain checker.
func (b *bed) brute() (problems []enriched.Flaw, events, waiting int) {
	b.Helper()
	return enriched.Streams{
		JetStream: b.js, From: "ORDERS", Filter: "orders.raw.>", To: "READY", DeadLetters: "DEAD", JSON: "id",
		Subject: func(s string) string { return strings.Replace(s, "raw", "ready", 1) }, Elsewhere: func(s string) bool { return s == "other" },
		Tag: func(s string) string { return strings.Split(s, ".")[2] },
	}.Problems(b)
}
