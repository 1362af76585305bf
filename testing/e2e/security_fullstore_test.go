package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// smallConf is nats.conf with a hundredth of its storage.
func smallConf(t *testing.T) string {
	t.Helper()
	conf, err := os.ReadFile(natsConf)
	if err != nil {
		t.Fatal(err)
	}
	small := strings.ReplaceAll(string(conf), "GB", "0MB")
	if n := strings.Count(small, "0MB"); n < 3 {
		t.Fatalf("%d sizes in nats.conf are in GB, want those of the server and of two accounts", n)
	}
	return write(t, t.TempDir(), filepath.Base(natsConf), small)
}

// TestFullAccountLeavesTheCountersAlone: a service fills the storage of its account until the
// server refuses more. Loads, new tags, new streams of the installation and worker IDs go on.
func TestFullAccountLeavesTheCountersAlone(t *testing.T) {
	t.Parallel()
	net := startProduction(t, smallConf(t))
	net.provision()
	net.serve("loader", "--role", "loader")
	js, err := jetstream.New(net.connect("orders-admin"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>"}}); err != nil {
		t.Fatal(err)
	}
	big, full := make([]byte, 900_000), 0
	for n := 0; full == 0 && n < 200; n++ {
		if _, err := js.Publish(t.Context(), "orders.raw.x", big); err != nil {
			t.Logf("after %d events: %v", n, err)
			full = n
		}
	}
	if full == 0 {
		t.Fatal("the account was never full")
	}

	net.serve("worker", "--role", "worker") // claims a worker ID
	const loads = 20
	for i := range loads {
		tag := fmt.Sprint("tag", i)
		net.must("admin", "tag", "create", tag, "--step", "1")
	}
	client := net.connect("caller")
	for i := range 3 * loads {
		subject := fmt.Sprint("ids.segment.tag", i%loads)
		reply, err := client.RequestMsgWithContext(t.Context(), &nats.Msg{Subject: subject})
		if err != nil || len(reply.Header) > 0 {
			t.Fatalf("request %d: %v, %v", i, err, reply)
		}
	}
	net.must("caller", "get", "--snowflake")
	if _, err := js.Publish(t.Context(), "orders.raw.x", big); err == nil {
		t.Error("the account is not full any more")
	}
	if r := net.must("admin", "doctor", "--role", "admin"); !strings.Contains(r.stdout, "ok    storage: ") {
		t.Errorf("doctor:\n%s", r.stdout)
	}
}

// TestSharedStorageIsTold: the doctor warns where an account has no storage for its own.
func TestSharedStorageIsTold(t *testing.T) {
	t.Parallel()
	conf, err := os.ReadFile(natsConf)
	if err != nil {
		t.Fatal(err)
	}
	shared := strings.Replace(string(conf), "{ max_memory: 128MB, max_file: 3GB }", "enabled", 1)
	net := startProduction(t, write(t, t.TempDir(), "nats.conf", shared))
	net.provision()
	if r := net.must("admin", "doctor", "--role", "admin"); !strings.Contains(r.stdout, "warn  storage: ") || !strings.Contains(r.stdout, "max_file") {
		t.Errorf("doctor:\n%s", r.stdout)
	}
}
