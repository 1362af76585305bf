package loader

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/worker/loadmsg"
)

// Consumer is the name of the durable consumer that all loaders share.
const Consumer = "loader"

// eventAge bounds the time that a load event waits for a loader. Older events
// are useless: their requests have been answered long ago, and workers retry.
const eventAge = 30 * time.Second

// Stream is the load stream, a work queue of load events. It refuses a second
// message per subject, which limits it to one load at a time per worker and
// tag. Events are short-lived, but the stream and its consumer are on disk:
// they must survive a restart of the server, because loaders may lack the right
// to recreate them. Replicas are 1 to 5.
func Stream(prefix messages.Prefix, replicas int) kv.Resource {
	return kv.Stream(jetstream.StreamConfig{
		Name:                 loadmsg.StreamName(prefix),
		Description:          "idworker: load events of workers, one per worker and tag",
		Subjects:             []string{loadmsg.Subject(prefix, "*", ">")},
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
	return kv.Consumer(loadmsg.StreamName(prefix), jetstream.ConsumerConfig{
		Durable:       Consumer,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       DefaultTimeout + 2*time.Second,
		MaxDeliver:    -1, // a used-up message would block its subject
		MaxAckPending: -1,
	})
}

// Rights returns the rights that a role needs for the work of loaders.
func Rights(p messages.Prefix, role rights.Duty) rights.Rights {
	stream := loadmsg.StreamName(p)
	consumer := stream + "." + Consumer
	switch role {
	case rights.Loader:
		return rights.Join(
			rights.Publish(rights.StreamInfo(stream), rights.ConsumerInfo(stream, Consumer),
				rights.API("CONSUMER.MSG.NEXT."+consumer), "$JS.ACK."+consumer+".>"),
			rights.Subscribe(rights.InQueue(loadmsg.ReserveSubject(p), p.QueueGroup())),
			rights.Publish(loadmsg.GrantSubject(p, "*")),
		)
	case rights.Monitor:
		return rights.Publish(rights.StreamInfo(stream), rights.ConsumerInfo(stream, Consumer))
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
	// consumeAgain is the pause before consuming the stream again.
	consumeAgain = 500 * time.Millisecond

	// Pull requests are short, so that a missing stream is detected soon.
	pullExpiry    = 5 * time.Second
	pullHeartbeat = time.Second
	pullBatch     = 256

	// ackMargin is the time reserved for an ack in flight.
	ackMargin = time.Second
)

// consume consumes the load stream until ctx ends. If the stream or its
// consumer is missing, it recreates them.
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

// openConsumer returns the loaders' consumer. It creates consumer and stream if
// they are missing.
func (l *Loader) openConsumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	if err := kv.Ensure(ctx, l.cfg.JS, Resources(l.cfg.Prefix, l.cfg.Replicas)...); err != nil {
		return nil, err
	}
	return l.cfg.JS.Consumer(ctx, loadmsg.StreamName(l.cfg.Prefix), Consumer)
}

// pullAll pulls as many events as there is room for, until ctx ends or an error
// occurs. The others stay in the stream.
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

// pull pulls events, and submits those that arrive in the next seconds. While
// they are held, the stream does not redeliver them.
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
		l.submit(event, hold{time.Now().Add(held), msg})
	}
	if err := batch.Error(); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// hold is a loader's hold on a load event, which ends at a time: then the
// stream gives the event to another loader, and a plain event is useless.
type hold struct {
	until time.Time
	msg   jetstream.Msg // nil for a plain event
}

func (h hold) inStream() bool { return h.msg != nil }

// claim takes the event for good, and acks it in the stream. It returns false
// if the hold has ended. If the ack is lost, the event comes again, which costs
// a range.
func (h hold) claim() bool {
	if !time.Now().Before(h.until) {
		return false
	}
	if h.msg != nil {
		_ = h.msg.Ack()
	}
	return true
}

// release makes the stream redeliver the event to another loader at once.
func (h hold) release() {
	if h.msg != nil {
		_ = h.msg.Nak()
	}
}
