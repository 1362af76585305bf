package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/register"
)

// loadEventAge is how long a load event may wait for a loader. Older ones are of
// no use: their requests have long been answered, and workers ask again.
const loadEventAge = 30 * time.Second

// LoaderConsumer is the name of the durable consumer that all loaders share.
const LoaderConsumer = "loader"

// Resources are what workers and loaders need, besides what leases and the store need: the
// load stream with the loaders' consumer. Replicas are 1 to 5, odd.
func Resources(prefix messages.Prefix, replicas int) []resource.Resource {
	return []resource.Resource{loadStream(prefix, replicas), loadConsumer(prefix)}
}

// Provision creates the load stream and the config bucket where they are missing.
// What exists is left as it is, but checked for what the load path relies on. A config bucket
// that has been there, for the register or the clock bucket has entries, is not made a second
// time.
func Provision(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) error {
	config := agreement.Bucket(prefix, replicas,
		resource.HasEntries(register.BucketName(prefix)), resource.HasEntries(lease.ClockBucketName(prefix)))
	return resource.Ensure(ctx, js, loadStream(prefix, replicas), config)
}

// loadStream is the work queue of load events. One message per subject, and a second
// refused, is what keeps it to one load at a time per worker and tag. It is kept on disk,
// its consumer too, although events are soon forgotten: it has to be there after a
// restart of the server, for loaders may lack the right to make it anew.
func loadStream(prefix messages.Prefix, replicas int) resource.Resource {
	return resource.Stream(jetstream.StreamConfig{
		Name:                 loads.StreamName(prefix),
		Description:          "idworker: load events of workers, one per worker and tag",
		Subjects:             []string{loads.Subject(prefix, "*", ">")},
		Retention:            jetstream.WorkQueuePolicy,
		Storage:              jetstream.FileStorage,
		Replicas:             replicas,
		MaxAge:               loadEventAge,
		MaxMsgsPerSubject:    1,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
	}, checkLoadStream)
}

func checkLoadStream(got jetstream.StreamConfig) error {
	if got.MaxMsgsPerSubject != 1 || !got.DiscardNewPerSubject || got.Retention != jetstream.WorkQueuePolicy {
		return fmt.Errorf("it is not a work queue that refuses a second message per subject; delete it, and it will be created again")
	}
	return nil
}

func loadConsumer(prefix messages.Prefix) resource.Resource {
	return resource.Consumer(loads.StreamName(prefix), jetstream.ConsumerConfig{
		Durable:       LoaderConsumer,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       storeTimeout + 2*time.Second,
		MaxDeliver:    -1, // a used-up message would block its subject
		MaxAckPending: -1,
	})
}

// openLoaderConsumer returns the loaders' consumer. It and its stream are created if they
// are missing.
func openLoaderConsumer(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) (jetstream.Consumer, error) {
	if err := resource.Ensure(ctx, js, loadStream(prefix, replicas), loadConsumer(prefix)); err != nil {
		return nil, err
	}
	return js.Consumer(ctx, loads.StreamName(prefix), LoaderConsumer)
}
