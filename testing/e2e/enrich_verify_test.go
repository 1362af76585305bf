package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/enriched"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// TestVerifyManyEvents has enrich verify look at many events, in which a few are wrong, beside
// the plain checker. It needs little memory.
func TestVerifyManyEvents(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	n := tier.Pick(100_000, 1_000_000)
	js := startPlainServer(t)
	dropped, doubled, swapped, shared := n/3, n/2, n-2, 7*n/10
	id := func(i int) int {
		if i == shared {
			return 4
		}
		return i
	}
	source, target := publisher{t, js}, publisher{t, js}
	for i := 1; i <= n; i++ {
		source.publish(fmt.Sprintf("orders.raw.%d", i%100), "", 0, i)
		switch i {
		case dropped:
		case swapped:
			target.stamped(i+1, id(i+1))
			target.stamped(i, id(i))
		case swapped + 1:
		default:
			target.stamped(i, id(i))
		}
		if i == doubled+999 {
			target.stamped(doubled, id(doubled))
		}
	}
	source.flush()
	target.flush()
	want := []enriched.Problem{
		{Kind: "missing", Source: uint64(dropped)}, {Kind: "doubled", Source: uint64(doubled)},
		{Kind: "shared-id", Source: uint64(shared)}, {Kind: "out-of-order", Source: uint64(swapped)},
	}

	began := time.Now()
	r, code, memory := runVerify(t, js.Conn().ConnectedUrl())
	took := time.Since(began)
	if code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	var got []enriched.Problem
	for _, f := range r.Findings {
		got = append(got, enriched.Problem{Kind: string(f.Kind), Source: f.Source})
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if memory > 250<<20 {
		t.Errorf("it took %d MB", memory>>20)
	}
	t.Logf("verified %d events in %v, %.0f/s, with at most %d MB", r.Events, took, float64(r.Events)/took.Seconds(), memory>>20)
	began = time.Now()
	plain, _, _ := enriched.Enrichment{
		JetStream: js, From: "ORDERS", Filter: "orders.raw.>", To: "READY",
		Subject: func(s string) string { return strings.Replace(s, "raw", "ready", 1) },
	}.Problems(t)
	if !slices.Equal(plain, want) {
		t.Errorf("the plain checker finds %v, want %v", plain, want)
	}
	t.Logf("the plain checker took %v", time.Since(began))
}

// startPlainServer runs nats-server, without the race detector, and creates source and target.
func startPlainServer(t *testing.T) jetstream.JetStream {
	t.Helper()
	bin, err := natsServer()
	if err != nil {
		t.Fatalf("build nats-server: %v\n%s", err, bin)
	}
	address := freeAddress(t)
	host, port, _ := strings.Cut(address, ":")
	server := settings{binary: bin}.launch(t, "-js", "-sd", t.TempDir(), "-a", host, "-p", port)
	natstest.Eventually(t, "nats-server is ready", func() bool {
		return server.hasEnded() || strings.Contains(server.stderr.String(), "Server is ready")
	})
	js, err := jetstream.New(connect(t, "nats://"+address), jetstream.WithPublishAsyncMaxPending(20_000), jetstream.WithPublishAsyncTimeout(natstest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []jetstream.StreamConfig{sourceConfig, targetConfig} {
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	return js
}

// publisher publishes messages without waiting for each, in order.
type publisher struct {
	t  *testing.T
	js jetstream.JetStream
}

func (p publisher) stamped(event, id int) {
	p.publish(fmt.Sprintf("orders.ready.%d", event%100), strconv.Itoa(id), event, event)
}

func (p publisher) publish(subject, id string, origin, number int) {
	msg := &nats.Msg{Subject: subject, Data: []byte(strconv.Itoa(number))}
	if id != "" {
		msg.Header = nats.Header{headerID: {id}, "Ids-Source": {fmt.Sprintf("ORDERS %d", origin)}}
	}
	for {
		_, err := p.js.PublishMsgAsync(msg)
		if err == nil {
			return
		}
		<-p.js.PublishAsyncComplete() // too many are under way
	}
}

func (p publisher) flush() {
	select {
	case <-p.js.PublishAsyncComplete():
	case <-time.After(natstest.Patience):
		p.t.Fatal("messages are not acknowledged")
	}
}
