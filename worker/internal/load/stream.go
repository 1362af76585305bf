package load

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// Consumer is the name of the durable consumer that all loaders share.
const Consumer = "loader"

// eventAge is how long a load event may wait for a loader. Older ones are of no use:
// their requests have long been answered, and workers ask again.
const eventAge = 30 * time.Second

// Stream is the load stream, a work queue of load events. One message per subject, and
// a second refused, is what keeps it to one load at a time per worker and tag. It is
// kept on disk, and its consumer too, although events are soon forgotten: it must be
// there after a restart of the server, for loaders may lack the right to create it
// anew. Replicas are 1 to 5.
func Stream(prefix messages.Prefix, replicas int) kv.Resource {
	return kv.Stream(jetstream.StreamConfig{
		Name:                 loads.StreamName(prefix),
		Description:          "idworker: load events of workers, one per worker and tag",
		Subjects:             []string{loads.Subject(prefix, "*", ">")},
		Retention:            jetstream.WorkQueuePolicy,
		Storage:              jetstream.FileStorage,
		Replicas:             replicas,
		MaxAge:               eventAge,
		MaxMsgsPerSubject:    1,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
	}, checkStream)
}

func checkStream(got jetstream.StreamConfig) error {
	if got.MaxMsgsPerSubject != 1 || !got.DiscardNewPerSubject || got.Retention != jetstream.WorkQueuePolicy {
		return errors.New("not a work queue with one message per subject; delete it to have it recreated")
	}
	return nil
}

// Resources are the load stream and the loaders' consumer.
func Resources(prefix messages.Prefix, replicas int) []kv.Resource {
	return []kv.Resource{Stream(prefix, replicas), consumer(prefix)}
}

func consumer(prefix messages.Prefix) kv.Resource {
	return kv.Consumer(loads.StreamName(prefix), jetstream.ConsumerConfig{
		Durable:       Consumer,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       DefaultTimeout + 2*time.Second,
		MaxDeliver:    -1, // a used-up message would block its subject
		MaxAckPending: -1,
	})
}

// Rights are those that a role needs for loaders' work.
func Rights(p messages.Prefix, role rights.Role) rights.Rights {
	stream := loads.StreamName(p)
	consumer := stream + "." + Consumer
	switch role {
	case rights.Loader:
		return rights.Join(
			rights.Publish(rights.StreamInfo(stream), rights.ConsumerInfo(stream, Consumer),
				rights.API("CONSUMER.MSG.NEXT."+consumer), "$JS.ACK."+consumer+".>"),
			rights.Subscribe(rights.InQueue(loads.ReserveSubject(p), p.QueueGroup())),
			rights.Publish(loads.GrantSubject(p, "*")),
		)
	case rights.Admin:
		return rights.Join(
			rights.ProvisionStream(stream),
			rights.Publish(rights.ConsumerInfo(stream, Consumer),
				rights.API("CONSUMER.CREATE."+consumer), rights.API("CONSUMER.DURABLE.CREATE."+consumer)),
		)
	}
	return rights.Rights{}
}

const (
	// consumeAgain is the pause before the stream is consumed again.
	consumeAgain = 500 * time.Millisecond

	// Pull requests are short, so that a missing stream is noticed soon.
	pullExpiry    = 5 * time.Second
	pullHeartbeat = time.Second
	pullBatch     = 256

	// ackMargin is how long an ack may be under way.
	ackMargin = time.Second
)

// consume consumes the load stream until ctx ends. If the stream or its consumer is
// gone, it creates them again.
func (l *Loader) consume(ctx context.Context) {
	for failing := false; ctx.Err() == nil; failing = true {
		consumer, err := l.openConsumer(ctx)
		if err == nil {
			if failing {
				l.cfg.Log.Info("consuming load events again")
			}
			failing = false
			l.consuming.Store(true)
			err = l.pullAll(ctx, consumer)
			l.consuming.Store(false)
		}
		if ctx.Err() == nil && !failing {
			l.cfg.Log.Warn("cannot consume load events, retrying", zap.Error(err))
		}
		pause.For(ctx, consumeAgain)
	}
}

// openConsumer returns the loaders' consumer. It and its stream are created if they are
// missing.
func (l *Loader) openConsumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	if err := kv.Ensure(ctx, l.cfg.JS, Resources(l.cfg.Prefix, l.cfg.Replicas)...); err != nil {
		return nil, err
	}
	return l.cfg.JS.Consumer(ctx, loads.StreamName(l.cfg.Prefix), Consumer)
}

// pullAll asks the stream for as many events as there is room for, until ctx ends or
// something breaks. The others stay in the stream.
func (l *Loader) pullAll(ctx context.Context, consumer jetstream.Consumer) error {
	for ctx.Err() == nil {
		n := l.schedule.room()
		if n == 0 {
			pause.For(ctx, lookAgain)
		} else if err := l.pull(ctx, consumer, n); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// pull asks the stream for events, and submits those that come in the next seconds. The
// stream gives them to nobody else while they are held.
func (l *Loader) pull(ctx context.Context, consumer jetstream.Consumer, n int) error {
	ctx, cancel := context.WithTimeout(ctx, pullExpiry)
	defer cancel()
	held := consumer.CachedInfo().Config.AckWait - ackMargin
	batch, err := consumer.Fetch(n, jetstream.FetchContext(ctx), jetstream.FetchHeartbeat(pullHeartbeat))
	if err != nil {
		return err
	}
	for msg := range batch.Messages() {
		event, err := l.decode(msg.Data())
		if err != nil {
			_ = msg.TermWithReason(err.Error())
			continue
		}
		l.submit(job{event: event, msg: msg, until: time.Now().Add(held)})
	}
	if err := batch.Error(); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
