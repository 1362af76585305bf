package worker_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/loadmsg"
)

// startOlder starts a fake process of a much older installation, which serves
// or does not.
func startOlder(t *testing.T, net network, serving bool) (stop func()) {
	t.Helper()
	return startOlderNamed(t, net, "older", serving)
}

func startOlderNamed(t *testing.T, net network, installation string, serving bool) (stop func()) {
	t.Helper()
	service, err := micro.AddService(net.Connect(t), micro.Config{
		Name: worker.ProcessServiceName, Version: "0.0.1",
		Metadata: map[string]string{
			"instance": "W0", "installation": installation, "created": "2001-01-01T00:00:00Z", "host": "away", "role": "worker", "prefix": "ids",
		},
		Endpoint:     &micro.EndpointConfig{Subject: "ids.process.W0", Handler: micro.HandlerFunc(func(micro.Request) {})},
		StatsHandler: func(*micro.Endpoint) any { return worker.Report{Instance: "W0", Serving: serving} },
	})
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { _ = service.Stop() })
	t.Cleanup(stop)
	return stop
}

// TestStandsBy: processes of any role that find an older installation leave the
// queue groups, report the reason, and come back when the other installation is
// gone.
func TestStandsBy(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	var processes []*worker.Process
	for _, role := range []worker.Role{worker.RoleAll, worker.RoleWorker, worker.RoleLoader} {
		w, err := start(t.Context(), configure(t, net, worker.Config{Role: role, Store: s}), worker.NewWatchful)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, w) })
		processes = append(processes, w)
	}
	members := func(n int) {
		t.Helper()
		for _, subject := range []string{"ids.segment.order", "ids.snowflake", loadmsg.ReserveSubject(messages.DefaultPrefix)} {
			natstest.Eventually(t, fmt.Sprint(n, " members at ", subject), func() bool { return worker.QueueMembers(t, net, subject) == n })
		}
	}
	members(2)
	gone := startOlder(t, net, true)
	for _, w := range processes {
		natstest.Eventually(t, "the process to leave", func() bool {
			return errors.Is(w.Ready(), worker.ErrForeign) && !w.Report(0).Serving
		})
		if m := scrape(t, w); m["installation_conflict"] != 1 || m["foreign_processes_met_total"] < 1 {
			t.Errorf("metrics: %v", m)
		}
		if r := w.Report(0); !strings.Contains(r.Stats.LeftFor, "older (since 2001-01-01") {
			t.Errorf("report: %+v", r)
		}
	}
	members(0)
	gone()
	members(2)
	for _, w := range processes {
		natstest.Eventually(t, "the process to be ready", func() bool { return w.Ready() == nil })
	}
}

// TestDistantInstallation: an older installation is detected although its answers
// arrive long after the process's own, as over a link by satellite.
func TestDistantInstallation(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	w, err := start(t.Context(), configure(t, net, worker.Config{Role: worker.RoleWorker}), worker.NewFarsighted)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, w) })
	const roundTrip = 600 * time.Millisecond
	distant := net.Connect(t)
	if _, err := distant.Subscribe("$SRV.PING.idworker-process", func(msg *nats.Msg) {
		time.AfterFunc(roundTrip, func() {
			_ = msg.Respond([]byte(`{"name":"idworker-process","metadata":{"prefix":"ids","instance":"W0","installation":"older",` +
				`"created":"2001-01-01T00:00:00Z","role":"worker"}}`))
		})
	}); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the process to leave", func() bool { return errors.Is(w.Ready(), worker.ErrForeign) })
}

// TestRefusesSameID: nor next to an older installation with the same ID, a name
// that an operator chose twice.
func TestRefusesSameID(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	if err := agreement.Begin(t.Context(), newJetStream(t, net), messages.DefaultPrefix, 1, "shop"); err != nil {
		t.Fatal(err)
	}
	startOlderNamed(t, net, "shop", true)
	err := startRefused(t, configure(t, net, worker.Config{Role: worker.RoleWorker, Installation: "shop"}))
	if !errors.Is(err, worker.ErrForeign) {
		t.Errorf("%v, want a ForeignError", err)
	}
}

// TestRefusesToStart: no process starts next to an older installation, whether
// that serves or not, and it leaves nothing behind.
func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	startOlder(t, net, false)
	for _, role := range []worker.Role{worker.RoleAll, worker.RoleWorker, worker.RoleLoader, worker.RoleSnowflake} {
		cfg := worker.Config{Role: role, Store: s, Requests: net.Connect(t), Control: net.Connect(t), Version: "0.0.1"}
		err := startRefused(t, cfg)
		var foreign *worker.ForeignError
		if !errors.As(err, &foreign) || foreign.Other.Host != "away" {
			t.Errorf("%s: %v, want a ForeignError", role, err)
		}
		for _, conn := range []*nats.Conn{cfg.Requests, cfg.Control} {
			// A connection that has sent requests has a subscription for the
			// replies.
			natstest.Eventually(t, "the end of subscriptions", func() bool { return conn.NumSubscriptions() <= 1 })
		}
	}
}
