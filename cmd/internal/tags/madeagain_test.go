package tags_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/loads"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestRaisedWithoutLoaders: where the store was made again, templates make tags once all are raised, and no loader
// runs meanwhile that may not have read from where on.
func TestRaisedWithoutLoaders(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.importText("chat.* 10 trend 0 0 1\n"))
	raise := func() error { return i.tags.RaiseAllBy(t.Context(), 1000, func(tags.Raised) {}) }
	stop := i.runLoader()
	must(t, raise()) // the store is as it was
	must(t, i.js.DeleteKeyValue(t.Context(), jetstreamstore.BucketName(prefix)))
	must(t, jetstreamstore.Create(t.Context(), i.js, prefix, 1))
	before := i.export()
	if err := raise(); !errors.Is(err, tags.ErrLoadersMake) || i.export() != before {
		t.Errorf("%v beside a loader, and there is now\n%s", err, i.export())
	}
	stop()
	natstest.Eventually(t, "all is raised", func() bool { return raise() == nil })
}

// runLoader has a loader wait for load events, until it is stopped.
func (i installation) runLoader() (stop func()) {
	i.Helper()
	consumer, err := i.js.CreateOrUpdateConsumer(i.Context(), loads.StreamName(prefix), jetstream.ConsumerConfig{
		Durable: worker.LoaderConsumer, AckPolicy: jetstream.AckExplicitPolicy,
	})
	must(i.T, err)
	ctx, cancel := context.WithCancel(i.Context())
	_, err = consumer.Fetch(1, jetstream.FetchContext(ctx))
	must(i.T, err)
	natstest.Eventually(i.T, "the loader waits", func() bool {
		info, err := consumer.Info(i.Context())
		return err == nil && info.NumWaiting > 0
	})
	return cancel
}
