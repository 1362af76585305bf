package health

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
)

// dialAs is a Dial as a user; "" without a login.
func dialAs(t *testing.T, url, user, password string) func() (*nats.Conn, jetstream.JetStream, error) {
	return func() (*nats.Conn, jetstream.JetStream, error) {
		conn, err := nats.Connect(url, append(Options(), nats.UserInfo(user, password))...)
		if err != nil {
			return nil, nil, err
		}
		return conn, natstest.JetStream(t, conn), nil
	}
}

// collectorOf is a collector for a role, at the server of a connection.
func collectorOf(t *testing.T, conn *nats.Conn, role rights.Duty, all ...kv.Resource) *Collector {
	return &Collector{Prefix: messages.DefaultPrefix, Role: role, Resources: all, Dial: dialAs(t, conn.ConnectedUrl(), "", "")}
}

// found returns the diagnoses of some checks.
func found(t *testing.T, c *Collector, whats ...string) (all []Diagnosis) {
	for _, d := range c.Collect(t.Context()).Diagnoses() {
		if slices.Contains(whats, d.What) {
			all = append(all, d)
		}
	}
	return all
}

// copiesOf returns the warnings about the copies of buckets.
func copiesOf(t *testing.T, js jetstream.JetStream, all ...kv.Resource) (copies []string) {
	for _, d := range found(t, collectorOf(t, js.Conn(), rights.Admin, all...), "copies") {
		if d.Severity == Warning && errors.Is(d.err, ErrCopies) {
			copies = append(copies, d.Text)
		}
	}
	return copies
}

func bucketOf(name string, replicas int) kv.Resource {
	return kv.LastingBucket(kv.Lasting{Bucket: name, Replicas: replicas})
}

// TestCopies: buckets with the same missing copies cause a single warning, and
// so does a single copy on a cluster.
func TestCopies(t *testing.T) {
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	js := natstest.JetStream(t, cluster.Connect(t))
	a, b, single := bucketOf("ids_workers", 3), bucketOf("ids_clock", 3), bucketOf("ids_config", 1)
	natstest.Eventually(t, "the buckets are there", func() bool {
		return kv.Ensure(t.Context(), js, a, b, single) == nil
	})
	natstest.Eventually(t, "only the single copy is warned of", func() bool {
		copies := copiesOf(t, js, a, b, single)
		return len(copies) == 1 && strings.Contains(copies[0], "one copy only, on server n") && strings.HasSuffix(copies[0], " of the cluster test: bucket ids_config")
	})
	if did, err := single.Apply(t.Context(), js); err != nil || !strings.HasPrefix(did, "as it should be, but one copy only, on server n") {
		t.Errorf("provisioned: %q, %v", did, err)
	}
	// A server that leads neither, so that both miss it at once.
	var stopped string
	for i, s := range cluster.Servers {
		if s != cluster.StreamLeader("KV_ids_workers") && s != cluster.StreamLeader("KV_ids_clock") {
			stopped = []string{"n1", "n2", "n3"}[i]
			s.Stop()
			break
		}
	}
	natstest.Eventually(t, "a server is missed", func() bool {
		copies := copiesOf(t, js, a, b)
		return len(copies) == 1 && strings.HasSuffix(copies[0], "2 of 3 copies are current, not that of server "+stopped+": bucket ids_workers, bucket ids_clock")
	})
}

// TestCopiesOfOneServer: a single copy is fine on a single server.
func TestCopiesOfOneServer(t *testing.T) {
	t.Parallel()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t))
	single := bucketOf("ids_config", 1)
	if err := kv.Ensure(t.Context(), js, single); err != nil {
		t.Fatal(err)
	}
	if copies := copiesOf(t, js, single); len(copies) > 0 {
		t.Error(copies)
	}
}

// TestSeverity: an uncertain fault is a warning, unless another is certain.
func TestSeverity(t *testing.T) {
	t.Parallel()
	untold, unsafe := fmt.Errorf("%w: fsync", store.ErrSettingUnknown), &store.UnsafeSettingError{Setting: "fsync"}
	for _, c := range []struct {
		err  error
		want Severity
	}{
		{nil, ""},
		{untold, Warning},
		{errors.Join(untold, untold), Warning},
		{unsafe, Error},
		{errors.Join(untold, unsafe), Error},
		{durability.ErrNoSync, Error},
		{fmt.Errorf("%w: %w", durability.ErrSyncUnknown, nats.ErrTimeout), Warning},
		{nats.ErrTimeout, Error},
	} {
		if got := new(Installation).diagnose("it", "is right", c.err); got.Severity != c.want {
			t.Errorf("%v: %+v, want %q", c.err, got, c.want)
		}
	}
}

// TestInterruptedRaise: the mark of a raise that did not end is an error, also
// if no process runs, and a decision from the future is a warning. Roles that may not read the register do not look for it.
func TestInterruptedRaise(t *testing.T) {
	t.Parallel()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t))
	if err := register.Create(t.Context(), js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	look := func(role rights.Duty) []string { return lines(found(t, collectorOf(t, js.Conn(), role), "raise")) }
	if got := look(rights.Admin); len(got) > 0 {
		t.Errorf("%q without a raise", got)
	}
	stream, err := js.Stream(t.Context(), kv.StreamName(register.BucketName(messages.DefaultPrefix)))
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Metadata["idworker_raising"] = "random 1800000000000000"
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for _, role := range []rights.Duty{rights.Admin, rights.Loader} {
		if got := look(role); len(got) != 1 || !strings.HasPrefix(got[0], "error raise: ") || !strings.HasSuffix(got[0], ": idworker tag raise --all") {
			t.Errorf("role %s: %q", role, got)
		}
	}
	if got := look(rights.Worker); len(got) > 0 {
		t.Errorf("a worker: %q", got)
	}
	delete(config.Metadata, "idworker_raising")
	for ahead, warned := range map[time.Duration]bool{-time.Hour: false, 0: false, 24 * time.Hour: true} {
		config.Metadata["idworker_decisions"] = "random"
		config.Metadata["idworker_decided"] = "random " + time.Now().Add(ahead).UTC().Format(time.RFC3339Nano)
		if _, err := js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		if got := look(rights.Admin); len(got) > 0 != warned || warned && !strings.HasPrefix(got[0], "warning raise: the latest decision is of ") {
			t.Errorf("a decision %v ahead of the clock: %q", ahead, got)
		}
	}
}

// TestTemplatesFill: tags count for the most specific template that matches, and
// only templates of dates and a limit are forecast.
func TestTemplatesFill(t *testing.T) {
	t.Parallel()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t))
	if err := register.Create(t.Context(), js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	dated := templates.Dates{Dated: "yyyyMMdd", Ahead: 1}
	for _, template := range []templates.Template{
		{Pattern: "invoice.*", Step: 1, MaxTags: 20, Dates: dated},
		{Pattern: "invoice.>", Step: 1, MaxTags: 3, Dates: dated},
		{Pattern: "bill.*", Step: 1, Dates: dated},
		{Pattern: "chat.*", Step: 1, MaxTags: 1},
	} {
		if err := templates.Create(t.Context(), js, messages.DefaultPrefix, template); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 10 {
		date := time.Now().AddDate(0, 0, -n).UTC().Format("20060102")
		for _, tag := range []string{"invoice." + date, "bill." + date, "chat." + date, "other." + date} {
			if _, err := js.Publish(t.Context(), "$KV.ids_register."+tag, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
	}
	look := func(role rights.Duty) []string {
		return lines(found(t, collectorOf(t, js.Conn(), role), "template invoice.*", "template invoice.>", "template bill.*", "template chat.*"))
	}
	got := look(rights.Admin)
	if len(got) != 2 || !strings.HasPrefix(got[0], "warning template invoice.*: full on ") || !strings.Contains(got[0], ": 10 of 20 tags, 10 of the last 9 days; ") ||
		got[1] != "ok template invoice.>: 0 of 3 tags, too little data for a forecast" {
		t.Errorf("%q", got)
	}
	if got := look(rights.Worker); len(got) > 0 {
		t.Errorf("a worker: %q", got)
	}
}

// TestEnrichments: a target that takes other subjects and removes messages is a
// warning, and one that copies a stream, which enrichers refuse, an error.
func TestEnrichments(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t).Connect(t)
	js := natstest.JetStream(t, conn)
	natstest.CreateStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>"}})
	target := jetstream.StreamConfig{Name: "READY", Subjects: []string{"orders.ready.>", "other"}, AllowAtomicPublish: true}
	natstest.CreateStream(t, js, target)
	cfg := enrich.Config{Conn: conn, JetStream: js, IDs: messages.NewClient(conn, messages.DefaultPrefix), From: "ORDERS", To: "orders.ready.>", ID: "snowflake"}
	e, err := enrich.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); e.Run(ctx) }()
	natstest.Eventually(t, "the enricher has its turn", func() bool { return e.Figures().Turns > 0 })
	cancel()
	<-ended
	for _, c := range []struct {
		change func()
		want   Severity
	}{
		{func() {}, ""},
		{func() { target.MaxAge = time.Hour }, Warning},
		{func() { target.Sources = []*jetstream.StreamSource{{Name: "ORDERS"}} }, Error},
	} {
		c.change()
		if _, err := js.UpdateStream(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		for _, role := range []rights.Duty{RoleAll, rights.Enricher} {
			if found := found(t, collectorOf(t, conn, role), "enrichment ORDERS to READY"); len(found) != 1 || found[0].Severity != c.want {
				t.Errorf("%s: %+v, want one with severity %q", role, found, c.want)
			}
		}
	}
}

// TestStorageOfTiers: of the limits that an account has for each number of
// replicas, the fullest counts.
func TestStorageOfTiers(t *testing.T) {
	tier := func(used uint64, limit int64) (a jetstream.Tier) {
		a.Store, a.Limits.MaxStore = used, limit
		return a
	}
	for _, c := range []struct {
		account jetstream.AccountInfo
		used    uint64
		limit   int64
	}{
		{jetstream.AccountInfo{Tier: tier(3, 10)}, 3, 10},
		{jetstream.AccountInfo{Tier: tier(3, -1)}, 3, -1},
		{jetstream.AccountInfo{Tiers: map[string]jetstream.Tier{"R1": tier(8, 10), "R3": tier(60, 100)}}, 8, 10},
		{jetstream.AccountInfo{Tiers: map[string]jetstream.Tier{"R1": tier(0, 0), "R3": tier(0, 100)}}, 0, 300},
		{jetstream.AccountInfo{Tiers: map[string]jetstream.Tier{"R1": tier(5, -1), "R3": tier(1, 100)}}, 1, 300},
		{jetstream.AccountInfo{Tiers: map[string]jetstream.Tier{"R3": tier(5, -1)}}, 5, -3},
	} {
		if used, limit := storageOf(&c.account); used != c.used || limit != c.limit {
			t.Errorf("%+v: %d of %d bytes, want %d of %d", c.account, used, limit, c.used, c.limit)
		}
	}
}

// TestVersionsOfAllServers: a server whose version loses streams is an error,
// although another one is connected.
func TestVersionsOfAllServers(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t).Connect(t)
	c := collectorOf(t, conn, rights.Monitor)
	all := found(t, c, "versions")
	if len(all) != 1 || all[0].Severity != "" || !strings.Contains(all[0].Text, conn.ConnectedServerVersion()) {
		t.Errorf("a new server: %+v", all)
	}
	sub, err := conn.Subscribe(durability.AskServers, func(msg *nats.Msg) {
		for _, version := range []string{"2.10.20", "2.15.2"} {
			_ = msg.Respond(fmt.Appendf(nil, `{"server":{"name":"of-%s","ver":%q}}`, version, version))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	lost := new(durability.LossError)
	all = found(t, collectorOf(t, conn, rights.Monitor), "versions")
	if len(all) != 1 || all[0].Severity != Error || !errors.As(all[0].err, &lost) || !strings.Contains(all[0].Text, "of-2.10.20") || strings.Contains(all[0].Text, "of-2.15.2") {
		t.Errorf("an old server: %+v", all)
	}
}

// TestVersionsThatAreUnknown: on a cluster, a user that may ask no other server
// is told so.
func TestVersionsThatAreUnknown(t *testing.T) {
	t.Parallel()
	conn := natstest.StartCluster(t, 3, func(o *server.Options) {
		o.Users = []*server.User{{Username: "a", Password: "a", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{durability.AskServers, durability.AskAccount}}}}}
	}).Connect(t, nats.UserInfo("a", "a"))
	c := collectorOf(t, conn, rights.Monitor)
	c.Dial = dialAs(t, conn.ConnectedUrl(), "a", "a")
	if all := found(t, c, "versions"); len(all) != 1 || all[0].Severity != Warning || !errors.Is(all[0].err, ErrVersionsUnknown) {
		t.Errorf("%+v", all)
	}
}
