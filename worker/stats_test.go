package worker_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// serviceStats requests the STATS of the only worker, as `nats micro stats`
// does.
func serviceStats(t testing.TB, c client) worker.Stats {
	t.Helper()
	reply, err := c.conn.Request("$SRV.STATS."+worker.ServiceName, nil, natstest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	var stats micro.Stats
	if err := json.Unmarshal(reply.Data, &stats); err != nil {
		t.Fatal(err)
	}
	var data worker.Stats
	if err := json.Unmarshal(stats.Endpoints[0].Data, &data); err != nil {
		t.Fatalf("%v in %s", err, reply.Data)
	}
	return data
}

func parkedRequests(t testing.TB, c client) int { return serviceStats(t, c).Parked }

// leftOf is the number of buffered IDs of a tag.
func leftOf(t testing.TB, c client, tag string) int64 {
	t.Helper()
	for _, stats := range serviceStats(t, c).Tags {
		if stats.Tag == tag {
			return stats.Left
		}
	}
	return 0
}

// TestInfoAndStats: the service that gets requests describes its process in
// INFO and STATS.
func TestInfoAndStats(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	w := startWorker(t, net, worker.Config{Store: s, StoreName: "jetstream"})
	createTags(t, s, 100, "order", "idle")
	c := newClient(t, net)
	c.must("order")
	reply, err := c.conn.Request("$SRV.INFO."+worker.ServiceName, nil, natstest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(reply.Data, &info); err != nil {
		t.Fatal(err)
	}
	if m, e := info.Metadata, info.Endpoints[0]; m["store"] != "jetstream" || m["instance"] != w.Instance() ||
		m["installation"] != w.Installation() || e.Subject != "ids.segment.>" || e.QueueGroup != "ids" {
		t.Errorf("INFO is %+v", info)
	}
	var stats worker.Stats
	natstest.Eventually(t, "all granted segments are there", func() bool {
		stats = serviceStats(t, c)
		n := stats.Grants.Installed // the first load may be sent twice
		return n >= 1 && len(stats.Tags) == 1 && stats.Tags[0].Left == 100*n-1
	})
	if stats.Active != 1 || stats.LeftFor != "" || stats.Installation != w.Installation() || stats.Instance != w.Instance() || stats.Loads.Writes < 1 {
		t.Errorf("STATS are %+v", stats)
	}
}

// TestInfoDescribesEndpoints: the INFO of each endpoint has what to send, what comes
// back, and a section of a page that exists.
func TestInfoDescribesEndpoints(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	startWorker(t, net, worker.Config{Store: newStore(t, net, 1), MaxBatch: 77})
	conn := newClient(t, net).conn
	for service, request := range map[string]string{
		worker.ServiceName:        "empty for one ID, or a decimal count, 1 to 77; the subject ends in the tag",
		"idworker-snowflake":      "empty for one ID, or a decimal count, 1 to 77",
		worker.ProcessServiceName: "empty",
	} {
		var reply *nats.Msg
		natstest.Eventually(t, service+" is there", func() (ok bool) {
			var err error
			reply, err = conn.Request("$SRV.INFO."+service, nil, natstest.Patience)
			return err == nil
		})
		var info micro.Info
		if err := json.Unmarshal(reply.Data, &info); err != nil {
			t.Fatal(err)
		}
		if len(info.Endpoints) != 1 {
			t.Fatalf("%s: %+v", service, info)
		}
		m := info.Endpoints[0].Metadata
		if m["request"] != request || m["reply"] == "" || len(m) != 3 {
			t.Errorf("%s: %q", service, m)
		}
		file, section, _ := strings.Cut(strings.TrimPrefix(m["page"], "https://github.com/idworker/idworker/blob/main/"), "#")
		page, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
		heading := "\n## " + strings.ReplaceAll(section, "-", " ") + "\n"
		if err != nil || !strings.Contains(strings.ToLower(string(page)), heading) {
			t.Errorf("%s: no section %s, %v", service, m["page"], err)
		}
	}
}
