package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// TestDoctorFindsNothingWrong: every role of nats.conf passes once an administrator has
// provisioned, and none does before.
func TestDoctorFindsNothingWrong(t *testing.T) {
	t.Parallel()
	net := startProduction(t, natsConf)
	for _, role := range []string{"worker", "loader", "admin"} {
		sick(t, net.as(role), role, "an administrator creates it: idworker provision")
	}
	net.provision()
	// What runs is counted where the user may ask.
	counts := func(role string, want ...string) {
		t.Helper()
		r := net.as(role).run(t, "doctor", "--role", role)
		for _, line := range want {
			if r.code != 0 || !strings.Contains(r.stdout, line+"\n") {
				t.Errorf("%s (%d): no line %q in\n%s", role, r.code, line, r.stdout)
			}
		}
	}
	noWorkers, noLoaders := "warn  workers: none is running: nobody answers requests", "warn  loaders: none is running: nobody reserves segments"
	counts("admin", noWorkers, noLoaders)
	counts("loader", noLoaders)
	net.serve("worker", "--role", "worker")
	counts("admin", "ok    workers: 1 running", noLoaders)
	net.serve("loader", "--role", "loader")
	counts("admin", "ok    workers: 1 running", "ok    loaders: 1 running")
	counts("loader", "ok    loaders: 1 running")
	for _, role := range []string{"worker", "loader", "admin", "enricher", "auditor"} {
		if r := net.as(userOf(role)).run(t, "doctor", "--role", role); r.code != 0 || strings.Contains("\n"+r.stdout, "\nwarn  ") {
			t.Errorf("%s (%d):\n%s%s", role, r.code, r.stdout, r.stderr)
		}
	}
	refusedNothing(t, net)
}

// userOf is the user of nats.conf with a role.
func userOf(role string) string {
	if role == "auditor" {
		return "orders-auditor"
	}
	return role
}

// TestDoctorOfCallers: a caller learns whether its requests are answered, and no ID is lost by that.
func TestDoctorOfCallers(t *testing.T) {
	t.Parallel()
	net := startProduction(t, natsConf)
	net.provision()
	sick(t, net.as("caller"), "caller", "no worker answers")
	net.serve("worker", "--role", "worker")
	net.serve("loader", "--role", "loader")
	if r := net.as("admin").run(t, "tag", "create", "order", "--step", "10"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	before := ids(t, net.as("order").run(t, "get", "order"))
	well := func(user string, args []string, lines ...string) {
		t.Helper()
		var r result
		natstest.Eventually(t, "requests of "+user+" are answered", func() bool { // once there is a worker ID
			r = net.as(user).run(t, append([]string{"doctor", "--role", "caller"}, args...)...)
			return r.code == 0
		})
		for _, line := range lines {
			if !strings.Contains(r.stdout, line+"\n") {
				t.Errorf("%s: no line %q in\n%s", user, line, r.stdout)
			}
		}
	}
	well("caller", nil, "ok    requests for tags: a worker answers, and gives 1 to 10000 IDs at once", "ok    requests for snowflake IDs: a worker answers, and gives 1 to 10000 IDs at once")
	well("order", []string{"--tag", "order"}, "ok    requests for tag order: a worker answers, and gives 1 to 10000 IDs at once")
	sick(t, net.as("order"), "caller", `refuses this user a right: Permissions Violation for Publish to "ids.snowflake"`)
	sick(t, net.as("order"), "caller", `Publish to "ids.segment.other"`, "--tag", "other")
	if after := ids(t, net.as("order").run(t, "get", "order")); after[0] != before[0]+1 {
		t.Errorf("ID %d after %d: doctor lost some", after[0], before[0])
	}
	if r := net.as("caller").run(t, "doctor", "--tag", "order"); r.code != exitUsage {
		t.Errorf("--tag without --role caller: %+v", r)
	}
}

// TestDoctorNamesWhatIsWrong breaks one thing after the other.
func TestDoctorNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	net := startProduction(t, natsConf)
	net.provision()
	net.serve("worker", "--role", "worker")
	sick(t, net.as("caller"), "worker", "Permissions Violation")
	sick(t, net.as("loader"), "worker", "subscribe ids.segment.> ids")
	stranger := net.as("admin")
	stranger.env = stranger.env[:1] // without its inbox prefix
	sick(t, stranger, "admin", "FAIL  inbox: ")
	sick(t, net.as("worker"), "worker", "layout: the installation has", "--layout", "sonyflake")
	sick(t, net.as("loader"), "loader", "store:", "--store", "postgres://127.0.0.1:1/none?connect_timeout=1")
	if r := net.as("admin").run(t, "doctor", "--role", "admin", "--replicas", "3"); !strings.Contains(r.stdout, "replicas 3") {
		t.Errorf("other replicas are not told:\n%s", r.stdout)
	}

	conf, err := os.ReadFile(natsConf)
	if err != nil {
		t.Fatal(err)
	}
	lazy := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(lazy, []byte(strings.Replace(string(conf), "sync_interval: always", "sync_interval: 2m", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	net = startProduction(t, lazy)
	net.provision()
	sick(t, net.as("worker"), "worker", "sync: sync_interval is not always")
	for _, allowed := range []bool{false, true} {
		address := freeAddress(t)
		args := []string{"--role", "worker", "--http", address}
		warnings, value := 1, "1"
		if allowed {
			args = append(args, "--allow-unsynced")
			warnings, value = 0, "0"
		}
		logged := net.serve("worker", args...).stderr.String()
		if strings.Count(logged, "\twarn\tNATS acknowledges writes before they are on disk") != warnings {
			t.Errorf("allowed %v: serve does not warn %d times of a server that does not sync:\n%s", allowed, warnings, logged)
		}
		if _, page := fetch(t, address, "/metrics"); metric(page, "idworker_nats_unsynced") != value {
			t.Errorf("allowed %v: idworker_nats_unsynced is %q, want %s", allowed, metric(page, "idworker_nats_unsynced"), value)
		}
	}
	if r := net.as("loader").run(t, "doctor", "--role", "loader", "--allow-unsynced"); r.code != 0 || !strings.Contains(r.stdout, "ok    sync: sync_interval is not always, which is allowed") {
		t.Errorf("doctor --allow-unsynced (%d):\n%s", r.code, r.stdout)
	}
}

// TestServerThatSaysNothing: of a nats-server as it comes, serve and doctor warn that nobody knows whether it syncs.
func TestServerThatSaysNothing(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	if logged := startWorker(t, srv.URL()).stderr.String(); strings.Count(logged, "\twarn\tNATS does not say whether every write is on disk") != 1 {
		t.Errorf("serve does not warn once:\n%s", logged)
	}
	if r := must(t, "doctor", "--server", srv.URL()); !strings.Contains(r.stdout, "warn  sync: no server says whether it syncs every write") {
		t.Errorf("doctor does not warn:\n%s", r.stdout)
	}
}

// TestAsyncBucketIsRefused: serve and doctor refuse a bucket whose writes are acknowledged
// before they are on disk.
func TestAsyncBucketIsRefused(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, bucket := range []string{"ids_segments", "ids_clock", "ids_config"} {
		_ = js.DeleteKeyValue(t.Context(), bucket) // of the round before
		name := "KV_" + bucket
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: name, Subjects: []string{"$KV." + bucket + ".>"}, MaxMsgsPerSubject: 1, AllowRollup: true, AllowDirect: true,
			DenyDelete: true, Discard: jetstream.DiscardNew, PersistMode: jetstream.AsyncPersistMode,
		})
		if err != nil {
			t.Fatal(err)
		}
		as := settings{env: []string{"NATS_URL=" + srv.URL()}}
		if r := as.run(t, "serve"); r.code == 0 || !strings.Contains(r.stderr, "persist_mode") {
			t.Errorf("%s: serve (%d): %s", bucket, r.code, r.stderr)
		}
		as.run(t, "provision")
		sick(t, as, "all", "persist_mode")
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		as.run(t, "provision")
	}
}

// sick fails the test unless the doctor finds something wrong and says so.
func sick(t *testing.T, as settings, role, want string, args ...string) {
	t.Helper()
	r := as.run(t, append([]string{"doctor", "--role", role}, args...)...)
	if r.code == 0 || !strings.Contains(r.stdout, want) || !strings.Contains(r.stdout, "FAIL") {
		t.Errorf("doctor --role %s (%d) does not say %q:\n%s%s", role, r.code, want, r.stdout, r.stderr)
	}
}
