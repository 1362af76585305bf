package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"
	"go.uber.org/zap"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/snowflake/lease"
)

// The names under which workers appear in the NATS services API.
const (
	ServiceName          = "idworker"
	snowflakeServiceName = "idworker-snowflake" // while there is a worker ID
)

// startTimeout is how long NATS and its JetStream may take until a worker serves.
const startTimeout = 30 * time.Second

// Worker is a running process of any role.
type Worker struct {
	cfg      Config
	instance string // names this process, anew at each start
	js       jetstream.JetStream

	alloc  *allocator.Allocator // nil in a mere loader
	asker  *asker
	grants *grantee
	loader *loader // nil in a mere worker

	lease                        atomic.Pointer[lease.State] // what is known of the worker ID; nil at first
	manager                      *lease.Manager              // nil in a mere loader
	segmentGroup, snowflakeGroup membership
	overloads                    atomic.Int64       // times that it left them because of an overload
	stopShedding                 context.CancelFunc // nil before it was in
	shedding                     sync.WaitGroup

	stopLease context.CancelFunc // nil if there is no lease
	leasing   sync.WaitGroup

	segments, snowflakes requestFigures
	line                 waitingLine // of both

	grantSub *nats.Subscription
	plainSub *nats.Subscription

	stopLoading, stopAnswering context.CancelFunc
	loading, answering         sync.WaitGroup

	stopping atomic.Bool
	stopOnce sync.Once
	stopErr  error
}

// Start starts a process and returns when it does its work: a worker has then
// joined the queue group. It fails if that is not so within startTimeout, or before
// ctx ends, and leaves nothing behind then.
func Start(ctx context.Context, cfg Config) (*Worker, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.loads() && cfg.Store == nil {
		return nil, fmt.Errorf("%w: role %s needs a store", ErrConfig, cfg.Role)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	js := cfg.JetStream
	if js == nil {
		var err error
		if js, err = jetstream.New(cfg.Control); err != nil {
			return nil, err
		}
	}
	if err := Provision(ctx, js, cfg.Prefix, cfg.Replicas); err != nil {
		return nil, err
	}
	if cfg.loads() {
		if err := ClaimStore(ctx, js, cfg.Prefix, cfg.StoreName); err != nil {
			return nil, err
		}
	}
	directory, err := OpenDirectory(ctx, js, cfg.Prefix, cfg.Log)
	if err != nil {
		return nil, err
	}
	w := &Worker{cfg: cfg, instance: nuid.Next(), js: js}
	w.cfg.Log = cfg.Log.With(zap.String("instance", w.instance))
	if err := w.start(ctx, directory); err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	return w, nil
}

// Instance is the process's name in load events and STATS.
func (w *Worker) Instance() string { return w.instance }

func (w *Worker) start(ctx context.Context, directory *Directory) error {
	if w.cfg.loads() {
		if err := w.startLoading(directory); err != nil {
			return err
		}
	}
	if w.cfg.answers() {
		return w.startAnswering(ctx, directory)
	}
	return nil
}

// startLoading starts the loader role.
func (w *Worker) startLoading(directory *Directory) error {
	w.loader = newLoader(w.cfg)
	ctx, cancel := context.WithCancel(context.Background())
	w.stopLoading = cancel
	var err error
	w.plainSub, err = w.cfg.Control.QueueSubscribe(loads.ReserveSubject(w.cfg.Prefix), w.cfg.Prefix.QueueGroup(), w.loader.plain)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", loads.ReserveSubject(w.cfg.Prefix), err)
	}
	m := &mirror{
		store:     w.cfg.Store,
		directory: directory,
		provision: func(ctx context.Context) error { return Provision(ctx, w.js, w.cfg.Prefix, w.cfg.Replicas) },
		outage:    w.loader.outage,
		log:       w.cfg.Log,
	}
	w.loading.Go(func() { w.loader.run(ctx, w.js, w.cfg.Replicas) })
	w.loading.Go(func() { m.run(ctx, w.cfg.TagRefresh) })
	return nil
}

// startAnswering starts the worker role. The queue group comes last.
func (w *Worker) startAnswering(ctx context.Context, directory *Directory) error {
	background, cancel := context.WithCancel(context.Background())
	w.stopAnswering = cancel
	w.newAllocator(background)

	var err error
	w.grantSub, err = w.cfg.Control.Subscribe(loads.GrantSubject(w.cfg.Prefix, w.instance), w.grants.take)
	if err != nil {
		return fmt.Errorf("subscribe to grants: %w", err)
	}
	known := make(chan struct{})
	w.answering.Go(func() {
		directory.follow(background, w.alloc, w.cfg.TagRefresh, sync.OnceFunc(func() { close(known) }))
	})
	w.answering.Go(func() { w.tick(background) })
	w.answering.Go(func() { w.line.run(background, w.cfg.Requests) })
	select {
	case <-known:
	case <-ctx.Done():
		return fmt.Errorf("read the tag directory: %w", ctx.Err())
	}
	if err := w.cfg.Control.FlushWithContext(ctx); err != nil {
		return err
	}
	return w.join(ctx)
}

// newAllocator makes the allocator and what connects it with the loaders.
func (w *Worker) newAllocator(ctx context.Context) {
	start := time.Now()
	w.asker = &asker{
		js:       w.js,
		prefix:   w.cfg.Prefix,
		instance: w.instance,
		direct:   w.loadDirectly,
		asking:   func(tag string, seq uint64) bool { return w.alloc.IsLoading(tag, seq) },
		log:      w.cfg.Log,
		ctx:      ctx,
	}
	w.alloc = allocator.New(allocator.Config{
		Clock:   func() time.Duration { return time.Since(start) },
		Load:    w.asker.ask,
		MaxStep: w.cfg.MaxStep,
		Wait:    w.cfg.Wait,
	})
	w.grants = &grantee{alloc: w.alloc, instance: w.instance, maxStep: w.cfg.MaxStep, log: w.cfg.Log}
}

// ticksPerWait is how exact deadlines are kept.
const ticksPerWait = 40

// tick drives the allocator's deadlines until ctx ends.
func (w *Worker) tick(ctx context.Context) {
	ticker := time.NewTicker(w.cfg.Wait / ticksPerWait)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.alloc.Tick()
		}
	}
}

// join enters the queue groups, and returns when the server knows. That of the
// snowflake requests is entered as soon as there is a worker ID.
func (w *Worker) join(ctx context.Context) error {
	var err error
	if w.manager, err = w.openLease(ctx); err != nil {
		return err
	}
	background, cancel := context.WithCancel(context.Background())
	w.stopLease = cancel
	w.leasing.Go(func() { w.holdLease(background, w.manager) })

	err = w.segmentGroup.join(func() (micro.Service, error) {
		return w.addService(ServiceName, "segment", w.cfg.Prefix.Segment(">"), newSegmentEndpoint(w.cfg, w.alloc, &w.segments, &w.line))
	})
	if err != nil {
		return err
	}
	shedding, cancel := context.WithCancel(context.Background())
	w.stopShedding = cancel
	w.shedding.Go(func() { w.shed(shedding) })
	return w.cfg.Requests.FlushWithContext(ctx)
}

// addService registers a micro service with one endpoint.
func (w *Worker) addService(name, endpoint, subject string, handler micro.Handler) (micro.Service, error) {
	service, err := micro.AddService(w.cfg.Requests, micro.Config{
		Name:        name,
		Version:     w.cfg.Version,
		Description: "unique 64-bit IDs",
		QueueGroup:  w.cfg.Prefix.QueueGroup(),
		Metadata: map[string]string{
			"instance": w.instance,
			"role":     string(w.cfg.Role),
			"store":    w.cfg.StoreName,
			"prefix":   string(w.cfg.Prefix),
			"layout":   w.cfg.Lease.Layout.String(),
		},
		StatsHandler: func(*micro.Endpoint) any { return w.stats() },
	})
	if err != nil {
		return nil, fmt.Errorf("register the service: %w", err)
	}
	limits := micro.WithEndpointPendingLimits(maxQueuedRequests, maxQueuedBytes)
	if err := service.AddEndpoint(endpoint, handler, micro.WithEndpointSubject(subject), limits); err != nil {
		return service, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return service, nil
}

// Stop leaves the queue group, answers every request that was delivered, and
// returns when all that Start started has ended. It takes at most about Config.Wait
// and the time that the store needs for what is under way, and some seconds more if
// the NATS server does not answer. An error says what NATS
// could not be told. A second call waits for the first and returns the same.
func (w *Worker) Stop() error {
	w.stopOnce.Do(func() { w.stopErr = w.stop() })
	return w.stopErr
}

func (w *Worker) stop() error {
	w.stopping.Store(true)
	err := w.leave()
	if w.stopLease != nil {
		w.stopLease()
		w.leasing.Wait()
	}
	if w.alloc != nil {
		w.drain()
	}
	if w.loader != nil {
		err = errors.Join(err, unsubscribe(w.plainSub))
		w.stopLoading()
		w.loading.Wait()
		w.loader.wait()
	}
	if w.alloc != nil {
		err = errors.Join(err, unsubscribe(w.grantSub))
		w.stopAnswering()
		w.answering.Wait()
		w.asker.wg.Wait()
	}
	return errors.Join(err, flush(w.cfg.Control), flush(w.cfg.Requests))
}

// leave takes the process out of the queue groups, and returns when all requests
// that were delivered have been handled.
func (w *Worker) leave() error {
	w.snowflakeGroup.close()
	w.segmentGroup.close()
	if w.stopShedding == nil {
		return nil // was never in
	}
	w.stopShedding()
	w.shedding.Wait()
	// After the flush the server sends no more, and the barrier lies behind all
	// that it has sent. A server that is away sends no more either.
	flushErr := flush(w.cfg.Requests)
	handled := make(chan struct{})
	if err := w.cfg.Requests.Barrier(func() { close(handled) }); err != nil {
		return errors.Join(flushErr, err)
	}
	<-handled
	return flushErr
}

// drain waits until no request is parked. They end at their deadlines at the
// latest.
func (w *Worker) drain() {
	for w.alloc.Parked() > 0 {
		time.Sleep(w.cfg.Wait / ticksPerWait)
	}
}

// flushTimeout is how long a server may take to answer at the end.
const flushTimeout = 2 * time.Second

// flush waits until the server has all that was sent. A closed connection has
// nothing to flush.
func flush(conn *nats.Conn) error {
	if err := conn.FlushTimeout(flushTimeout); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return err
	}
	return nil
}

func unsubscribe(sub *nats.Subscription) error {
	if sub == nil {
		return nil
	}
	if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return err
	}
	return nil
}

// loadDirectly loads without the stream: by the loader in this process, or by any.
func (w *Worker) loadDirectly(event loads.Event) {
	if w.loader != nil {
		w.loader.direct(event)
		return
	}
	// If no loader hears it, the allocator asks again.
	_ = w.cfg.Control.Publish(loads.ReserveSubject(w.cfg.Prefix), event.Encode())
}
