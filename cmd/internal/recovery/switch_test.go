package recovery

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/loadmsg"
)

// TestSwitchStore: an installation switches to a database and back to
// JetStream. It keeps its tags and their orders, and no tag is lower.
func TestSwitchStore(t *testing.T) {
	tier.All(t)
	t.Parallel()
	db := dbtest.Postgres(t)
	db.Exec(t, "CREATE TABLE leaf_alloc (biz_tag VARCHAR(128) NOT NULL PRIMARY KEY, max_id BIGINT NOT NULL DEFAULT 1, step INT NOT NULL)")
	database, err := backend.Parse(db.DSN(), "leaf_alloc")
	must(t, err)
	i := newInstallation(t, options{list: exported})
	jetStream := i.source
	for again := range 2 {
		for _, to := range []backend.Backend{database, jetStream} {
			all := parse(t, i.export())
			must(t, SwitchStore(t.Context(), On(i.js, prefix, to), all, false, func(c tags.Change) {
				if again == 0 && c.Tag == "plain" && to.Kind() != backend.JetStream && c.String() != "moved tag plain: next ID 6" {
					t.Error(c)
				}
			}))
			i.source = to
			if got := i.export(); got != exported {
				t.Errorf("in %s it is\n%s", to.Name(), got)
			}
		}
	}
}

// TestSwitchStoreBesideLoaders: a waiting loader prevents the switch, and so
// does a paused loader. A loader that has ended does not, although it did not
// acknowledge its last event.
func TestSwitchStoreBesideLoaders(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, options{list: exported})
	all := parse(t, i.export())
	switchStore := func() error {
		return SwitchStore(t.Context(), i.Site, all, false, func(tags.Change) {})
	}
	must(t, kv.Ensure(t.Context(), i.js, worker.Resources(prefix, 1)[0]))
	consumer, err := i.js.CreateConsumer(t.Context(), loadmsg.StreamName(prefix), jetstream.ConsumerConfig{
		Durable: worker.LoaderConsumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second,
	})
	must(t, err)
	_, err = i.js.Publish(t.Context(), loadmsg.Subject(prefix, "someone", "order"), nil)
	must(t, err)
	loader, err := consumer.Messages()
	must(t, err)
	if _, err := loader.Next(); err != nil {
		t.Fatal(err)
	}
	if err := switchStore(); !errors.Is(err, ErrLoadersRun) {
		t.Errorf("beside a loader: %v", err)
	}
	loader.Stop()
	connected, err := i.js.Conn().SubscribeSync("ids.process.loader")
	must(t, err)
	if err := switchStore(); !errors.Is(err, ErrLoadersRun) {
		t.Errorf("beside a loader that does nothing: %v", err)
	}
	must(t, connected.Unsubscribe())
	natstest.Eventually(t, "the switch works", func() bool { return switchStore() == nil })
	if info, err := consumer.Info(t.Context()); err != nil || info.NumAckPending != 1 {
		t.Errorf("the event has gone meanwhile: %+v, %v", info, err)
	}
}
