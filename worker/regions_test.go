package worker_test

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/worker"
)

// regions are a hub and a leaf node, each with a JetStream domain of its own.
type regions struct {
	hub, leaf *natstest.Node
	link      *proxy.Proxy // of the leaf node to its hub, which is refused at first
}

func startRegions(t *testing.T) regions {
	t.Helper()
	port := freeport.Get(t)
	var r regions
	r.hub = natstest.Start(t, func(o *server.Options) {
		o.JetStreamDomain = "hub"
		o.LeafNode.Host, o.LeafNode.Port, o.LeafNode.NoAdvertise = "127.0.0.1", port, true
	})
	r.link = proxy.Start(t, fmt.Sprint("127.0.0.1:", port))
	r.link.Refuse()
	r.leaf = natstest.Start(t, func(o *server.Options) {
		o.JetStreamDomain = "leaf"
		o.LeafNode.ReconnectInterval = 50 * time.Millisecond
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: r.link.Addr()}}}}
	})
	return r
}

// join brings the link up, and waits for it.
func (r regions) join(t *testing.T) {
	t.Helper()
	r.link.Accept()
	natstest.Eventually(t, "the link", func() bool {
		return r.hub.Running().NumLeafNodes() == 1 && r.leaf.Running().NumLeafNodes() == 1
	})
}

// ofDatacenter configures the role snowflake in a datacenter, with a worker ID
// that all datacenters have.
func ofDatacenter(datacenter int64) worker.Config {
	id := int64(5)
	return worker.Config{Role: worker.RoleSnowflake, Lease: lease.Config{Layout: snowflake.Twitter(), Datacenter: datacenter, Worker: &id}}
}

func streamNames(t *testing.T, s *natstest.Node) (names []string) {
	t.Helper()
	list := newJetStream(t, s).StreamNames(t.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestRegions: installations with different datacenters serve side by side,
// with equal worker IDs. The region without a register makes no stream for
// segments; the other region answers requests for tags.
func TestRegions(t *testing.T) {
	t.Parallel()
	r := startRegions(t)
	r.join(t)
	s := newStore(t, r.hub, 1)
	createTags(t, s, 10, "order")
	cfg := ofDatacenter(0)
	cfg.Role, cfg.Store = worker.RoleAll, s
	hub := startWorker(t, r.hub, cfg)
	edge := startWorker(t, r.leaf, ofDatacenter(1))
	var both []worker.ProcessIdentity
	conn := r.leaf.Connect(t)
	natstest.Eventually(t, "both processes see each other", func() bool {
		both, _ = worker.ListProcesses(t.Context(), conn, messages.DefaultPrefix)
		return len(both) == 2
	})
	natstest.Eventually(t, "both hold a worker ID, and are ready", func() bool {
		return hub.Report(0).Stats.WorkerID != nil && edge.Report(0).Stats.WorkerID != nil && hub.Ready() == nil && edge.Ready() == nil
	})
	for _, w := range []*worker.Process{hub, edge} {
		if m := scrape(t, w); m["foreign_processes_met_total"] != 0 || m["installation_conflict"] != 0 {
			t.Errorf("a compatible installation counts: %v", m)
		}
	}
	if d := edge.Report(0).Datacenter; d == nil || *d != 1 {
		t.Errorf("reports datacenter %v", d)
	}
	if names := streamNames(t, r.leaf); !slices.Equal(names, []string{"KV_ids_clock", "KV_ids_config", "KV_ids_workers"}) {
		t.Errorf("streams of the region: %v", names)
	}
	newClient(t, r.leaf).must("order")
	stop(t, edge)
	natstest.Eventually(t, "the hub answers for the edge", func() bool {
		ranges, err := newClient(t, r.leaf).snowflake(1)
		return err == nil && snowflake.Twitter().Datacenter(snowflake.ID(ranges[0].First)) == 0
	})
}

// TestDatacenterIsTaken: a process does not start beside another installation
// with its datacenter or with another layout, and states which.
func TestDatacenterIsTaken(t *testing.T) {
	t.Parallel()
	r := startRegions(t)
	r.join(t)
	startWorker(t, r.hub, ofDatacenter(1))
	otherEpoch := ofDatacenter(2)
	otherEpoch.Lease.Layout = snowflake.Discord()
	for want, cfg := range map[string]worker.Config{
		"datacenter 1 is taken by another installation": ofDatacenter(1),
		"has the layout 41:1ms/d5/w5/s12@1288834974657": otherEpoch,
	} {
		err := startRefused(t, configure(t, r.leaf, cfg))
		if !errors.Is(err, worker.ErrForeign) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if err := newJetStream(t, r.leaf).DeleteKeyValue(t.Context(), "ids_config"); err != nil {
			t.Fatal(err)
		}
		if err := newJetStream(t, r.leaf).DeleteKeyValue(t.Context(), "ids_clock"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLinkComesLater: of two installations with the same datacenter, the
// younger stands by while they are linked. Different datacenters keep serving.
func TestLinkComesLater(t *testing.T) {
	t.Parallel()
	r := startRegions(t)
	watch := func(net network, datacenter int64, prefix messages.Prefix) *worker.Process {
		cfg := configure(t, net, ofDatacenter(datacenter))
		cfg.Prefix = prefix
		w, err := start(t.Context(), cfg, worker.NewWatchful)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, w) })
		return w
	}
	older, younger := watch(r.hub, 1, "ids"), watch(r.leaf, 1, "ids")
	others := []*worker.Process{older, watch(r.hub, 1, "b"), watch(r.leaf, 2, "b")}
	for _, w := range append(others, younger) { // a first claim may fail
		natstest.Eventually(t, "all are ready", func() bool { return w.Ready() == nil })
	}
	r.join(t)
	natstest.Eventually(t, "the younger installation stands by", func() bool { return errors.Is(younger.Ready(), worker.ErrForeign) })
	if left := younger.Report(0).Stats.LeftFor; !strings.Contains(left, "datacenter 1 is taken") {
		t.Errorf("left for %q", left)
	}
	if _, err := younger.Direct(); err != nil {
		t.Error(err)
	}
	for _, w := range others {
		if err := w.Ready(); err != nil {
			t.Error(err)
		}
	}
	r.link.Refuse()
	natstest.Eventually(t, "the younger installation is back", func() bool { return younger.Ready() == nil })
}

// TestFrozenLink: a process claims a worker ID although the link to another
// region carries nothing.
func TestFrozenLink(t *testing.T) {
	t.Parallel()
	r := startRegions(t)
	r.join(t)
	startWorker(t, r.hub, ofDatacenter(0))
	r.link.Hold()
	defer r.link.Release()
	edge := startWorker(t, r.leaf, ofDatacenter(1))
	natstest.Eventually(t, "the region serves alone", func() bool { return edge.Ready() == nil })
}

// TestSnowflakeOnly: a process of the role snowflake answers requests for
// snowflake IDs, and no others. It is not ready without a worker ID.
func TestSnowflakeOnly(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	one := worker.Config{Role: worker.RoleSnowflake, Lease: lease.Config{Layout: narrow(t)}}
	first, second := startWorker(t, net, one), startWorker(t, net, one)
	c := newClient(t, net)
	natstest.Eventually(t, "two are ready", func() bool { return first.Ready() == nil && second.Ready() == nil })
	third := startWorker(t, net, one)
	if err := third.Ready(); err == nil || !strings.Contains(err.Error(), "no worker ID") {
		t.Errorf("ready without a worker ID: %v", err)
	}
	if _, err := c.snowflake(10); err != nil {
		t.Error(err)
	}
	if _, err := c.ask("order", 1); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("a request for a tag: %v", err)
	}
	direct, err := first.Direct()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Snowflake(t.Context(), nil, ""); err != nil {
		t.Error(err)
	}
	if _, err := direct.Segment(t.Context(), "order", nil, false, ""); !errors.Is(err, messages.ErrUnavailable) || !strings.Contains(err.Error(), "snowflake IDs only") {
		t.Errorf("a direct request for a tag: %v", err)
	}
	natstest.Eventually(t, "no process passes for a loader", func() bool {
		listens, err := worker.LoaderListens(t.Context(), c.conn, messages.DefaultPrefix)
		return err == nil && !listens // silence counts as a loader
	})
	js := newJetStream(t, net)
	for _, name := range []string{"IDS_LOAD", "KV_ids_register"} {
		if _, err := js.Stream(t.Context(), name); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("%s: %v, want no such stream", name, err)
		}
	}
	_ = scrape(t, first)
	stop(t, first)
	natstest.Eventually(t, "the third process gets the worker ID", func() bool { return third.Ready() == nil })
}
