package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/testing/natstest"
)

// mayAsk is a server configuration in which an account may ask for the servers' settings.
const mayAsk = `
	system_account: SYS
	accounts {
		SYS { exports: [{ service: "$SYS.REQ.SERVER.PING.JSZ", response_type: Stream }] }
		APP { jetstream: enabled, users: [{ user: a, password: a }], imports: [{ service: { account: SYS, subject: "$SYS.REQ.SERVER.PING.JSZ" } }] }
	}`

// connectTo connects to a new server, which says whether it syncs every write if says is set.
func syncingServer(t *testing.T, always, says bool) *nats.Conn {
	t.Helper()
	if !says {
		return natstest.Start(t, func(o *server.Options) { o.SyncAlways = always }).Connect(t)
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(mayAsk), 0o600); err != nil {
		t.Fatal(err)
	}
	conf, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return natstest.Start(t, func(o *server.Options) {
		o.Accounts, o.Users, o.SystemAccount, o.SyncAlways = conf.Accounts, conf.Users, conf.SystemAccount, always
	}).Connect(t, nats.UserInfo("a", "a"))
}

// A server that does not sync every write, and one that does not say so, are warned of once and shown in the metric,
// unless that is allowed.
func TestSyncWatch(t *testing.T) {
	for name, test := range map[string]struct {
		always, says, allowed bool
		warns                 string // why; "" if it does not
	}{
		"syncs":             {true, true, false, ""},
		"does not":          {false, true, false, "sync_interval is not always"},
		"says nothing":      {true, false, false, "no server says"},
		"does not, allowed": {false, true, true, ""},
		"silent, allowed":   {false, false, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			core, logged := observer.New(zapcore.InfoLevel)
			w := newSyncWatch(syncingServer(t, test.always, test.says), test.allowed, zap.New(core))
			if value(t, w.metric) != 0 || w.looked {
				t.Error("something is known before anybody looked")
			}
			w.look(t.Context())
			w.look(t.Context())
			lines := logged.All()
			if test.warns == "" && len(lines) > 0 || test.warns != "" && (len(lines) != 1 || lines[0].Level != zapcore.WarnLevel || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), test.warns)) {
				t.Errorf("logged %v, want one warning that says %q", lines, test.warns)
			}
			want := 0.0
			if test.warns != "" {
				want = 1
			}
			if got := value(t, w.metric); got != want || w.told != test.says || w.synced != (test.says && test.always) {
				t.Errorf("the metric is %v, want %v; %+v", got, want, w)
			}
		})
	}
}

// value is that of the only metric that a collector has.
func value(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	found, err := registry.Gather()
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v; want one metric", found, err)
	}
	return found[0].Metric[0].GetGauge().GetValue()
}

// What is known is not forgotten because a server is away for a moment, and a change is told.
func TestSyncWatchFollows(t *testing.T) {
	core, logged := observer.New(zapcore.InfoLevel)
	w := newSyncWatch(syncingServer(t, false, true), false, zap.New(core))
	w.look(t.Context())
	w.conn = syncingServer(t, true, false)
	w.look(t.Context())
	if !w.told || w.synced || value(t, w.metric) != 1 || logged.Len() != 1 {
		t.Errorf("after servers that say nothing: %+v, logged %v", w, logged.All())
	}
	w.conn = syncingServer(t, true, true)
	w.look(t.Context())
	if lines := logged.All(); value(t, w.metric) != 0 || len(lines) != 2 || lines[1].Level != zapcore.InfoLevel {
		t.Errorf("%+v, logged %v, want that it is well now", w, lines)
	}
}
