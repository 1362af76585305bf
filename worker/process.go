package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker/internal/answer"
	"github.com/idworker/idworker/worker/internal/load"
	"github.com/idworker/idworker/worker/internal/supply"
)

// Process is a running process of any role.
type Process struct {
	cfg     Config
	timing  timing
	self    ProcessIdentity
	started time.Time

	foreign *loads.Foreign
	watch   *installationWatch
	loader  *load.Loader   // nil if the role does not load
	supply  *supply.Supply // nil if the role does not answer; so are the next two
	answers *answer.Answerer
	groups  *queueGroups
	reports reportCache

	stopping atomic.Bool
	stopOnce sync.Once
	stopErr  error
}

// timing has the durations that tests change.
type timing struct {
	start  time.Duration // bounds each stage of a start
	store  time.Duration // bounds a call of the store
	look   time.Duration // between two looks for other installations
	queued time.Duration // bounds how long requests may queue for their turn
}

var usualTiming = timing{start: 30 * time.Second, store: load.DefaultTimeout, look: 30 * time.Second, queued: time.Second}

// part is a service of the process.
type part interface {
	// Start returns when the part does its work. If it fails it leaves nothing
	// behind.
	Start(ctx context.Context) error

	// Stop finishes what has begun, and returns when all that Start started has
	// ended. It is called at most once, after a Start that succeeded. The part
	// has stopped even if there is an error, which is NATS'.
	Stop() error
}

// New makes a process: it creates the streams and buckets that are missing, and
// checks that configuration and store are those of the installation. It calls
// JetStream, so ctx should have a deadline.
func New(ctx context.Context, cfg Config) (*Process, error) {
	return newProcess(ctx, cfg, usualTiming)
}

func newProcess(ctx context.Context, cfg Config, timing timing) (*Process, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.Role.Loads() && cfg.Store == nil {
		return nil, fmt.Errorf("%w: role %s needs a store", ErrConfig, cfg.Role)
	}
	if cfg.JetStream == nil {
		var err error
		if cfg.JetStream, err = jetstream.New(cfg.Control); err != nil {
			return nil, err
		}
	}
	self, err := joinInstallation(ctx, cfg)
	if err != nil {
		return nil, err
	}
	cfg.Log = cfg.Log.With(zap.String("instance", self.Instance))
	p := &Process{cfg: cfg, timing: timing, self: self, started: time.Now(), foreign: loads.NewForeign(self.Installation, cfg.Log)}
	p.watch = newInstallationWatch(p)
	if cfg.Role.Loads() {
		p.makeLoader()
	}
	if cfg.Role.Answers() {
		return p, p.makeWorker(ctx)
	}
	return p, nil
}

// joinInstallation determines the installation, and checks that it counts in
// the store that this process was given.
func joinInstallation(ctx context.Context, cfg Config) (self ProcessIdentity, err error) {
	if err := Provision(ctx, cfg.JetStream, cfg.Prefix, cfg.Replicas); err != nil {
		return self, err
	}
	agreed, err := agreement.Open(ctx, cfg.JetStream, cfg.Prefix)
	if err != nil {
		return self, err
	}
	host, _ := os.Hostname() // only informs people
	self = ProcessIdentity{Instance: nuid.Next(), Host: host, Role: cfg.Role}
	self.Installation, self.Created, err = agreed.Installation(ctx)
	if err == nil && cfg.Role.Loads() {
		err = agreed.ClaimStore(ctx, cfg.StoreName)
	}
	return self, err
}

func (p *Process) makeLoader() {
	c := &p.cfg
	p.loader = load.New(load.Config{
		Store: c.Store, StoreName: c.StoreName, Control: c.Control, JS: c.JetStream, Prefix: c.Prefix, Installation: p.self.Installation,
		Replicas: c.Replicas, Reservations: c.Reservations, MaxStep: c.MaxStep, Timeout: p.timing.store, Foreign: p.foreign, Log: c.Log,
	})
}

func (p *Process) makeWorker(ctx context.Context) error {
	c := &p.cfg
	cfg := supply.Config{
		Prefix: c.Prefix, Instance: p.self.Instance, Installation: p.self.Installation, Control: c.Control, JS: c.JetStream,
		MaxStep: c.MaxStep, Wait: c.Wait, Foreign: p.foreign, Log: c.Log,
	}
	if p.loader != nil {
		cfg.Own = p.loader
	}
	p.supply = supply.New(cfg)
	p.answers = answer.New(answer.Config{Prefix: c.Prefix, MaxBatch: c.MaxBatch, Requests: c.Requests}, p.supply.Allocator())
	id, err := openWorkerID(ctx, p)
	p.groups = newQueueGroups(p, id)
	return err
}

// parts are those that the role has, in the order in which they start. The
// watch comes first, because nothing serves before another installation was
// looked for. Parked requests need the loader until they are answered. The
// queue groups are joined last and left first.
func (p *Process) parts() []part {
	parts := []part{p.watch}
	if p.loader != nil {
		parts = append(parts, p.loader)
	}
	if p.groups != nil {
		parts = append(parts, p.supply, p.groups)
	}
	return parts
}

// Start returns when the process does its work: a worker has then joined the
// queue group. It fails if nothing moves for 30 seconds, or when ctx ends, and
// then leaves nothing behind.
func (p *Process) Start(ctx context.Context) error {
	parts := p.parts()
	for i, part := range parts {
		if err := part.Start(ctx); err != nil {
			return errors.Join(err, p.stopParts(parts[:i]))
		}
	}
	p.watch.begin()
	return nil
}

// Stop leaves the queue groups, answers every request that was delivered, and
// returns when all that Start started has ended. It takes Config.Wait at most,
// plus the time that the store needs for calls in flight, plus some seconds if
// the NATS server does not answer. An error is NATS'; the process has stopped
// all the same. A second call waits for the first and returns the same.
func (p *Process) Stop() error {
	p.stopOnce.Do(func() {
		p.stopping.Store(true)
		p.watch.end()
		p.stopErr = p.stopParts(p.parts())
	})
	return p.stopErr
}

// flushTimeout bounds how long a server may take to answer while the process
// stops.
const flushTimeout = 2 * time.Second

// stopParts stops parts, the latest first, and returns when the server has all
// that was sent.
func (p *Process) stopParts(started []part) (err error) {
	for _, part := range slices.Backward(started) {
		err = errors.Join(err, part.Stop())
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	for _, conn := range []*nats.Conn{p.cfg.Control, p.cfg.Requests} {
		err = errors.Join(err, unlessClosed(conn.FlushWithContext(ctx)))
	}
	return err
}

// standBy leaves all queue groups to another installation, or comes back.
func (p *Process) standBy(standsBy bool) {
	if p.loader != nil {
		p.loader.StandBy(standsBy)
	}
	if p.groups != nil {
		p.groups.standBy(standsBy)
	}
}

// Instance is the name of the process in load events and STATS. Each start has
// a new one.
func (p *Process) Instance() string { return p.self.Instance }

// Installation is the ID of the installation that the process belongs to.
func (p *Process) Installation() string { return p.self.Installation }

// Ready returns why the process does not do all of its work right now, or nil.
// A store that is away is no reason, since workers live on memory, and neither
// is a register that went back, unless the process only loads. A missing worker
// ID is none either, since only snowflake requests need one.
func (p *Process) Ready() error {
	if p.stopping.Load() {
		return errStopping
	}
	if !p.cfg.Requests.IsConnected() || !p.cfg.Control.IsConnected() {
		return errors.New("not connected to NATS")
	}
	if err := p.watch.ready(); err != nil {
		return err
	}
	if p.groups != nil {
		if err := p.groups.ready(); err != nil {
			return err
		}
	} else if err := p.cfg.Store.Stopped(); err != nil {
		return err
	}
	if p.loader != nil {
		return p.loader.Ready()
	}
	return nil
}

// Degraded returns what is wrong although the process is ready, or nil:
// [Config.Trouble]; a [*store.RegressionError] while its loader grants nothing;
// why loads are not granted; or why the process is not in the queue group of
// snowflake requests although it has a worker ID. The worker lives on memory
// then, or answers other requests, so replacing it gains nothing.
func (p *Process) Degraded() error {
	if p.cfg.Trouble != nil {
		if err := p.cfg.Trouble(); err != nil {
			return err
		}
	}
	if p.loader != nil {
		if err := p.cfg.Store.Stopped(); err != nil {
			return err
		}
	}
	if p.groups == nil {
		return nil
	}
	if err := p.supply.Unanswered(); err != nil {
		return err
	}
	return p.groups.degraded()
}

// claimWithin is how long [Process.AwaitClaim] waits.
const claimWithin = 3 * time.Second

// AwaitClaim returns when the process has claimed a worker ID or cannot claim
// one now, when ctx ends, and after three seconds. A claim takes one second, in
// which other processes may object. Requests for tags are answered then, too.
func (p *Process) AwaitClaim(ctx context.Context) {
	if p.groups == nil {
		return
	}
	select {
	case <-p.groups.workerID.tried:
	case <-time.After(claimWithin):
	case <-ctx.Done():
	}
}

// Failed receives why the process cannot do what it was started for: a
// [*lease.HeldError], if another live process holds the worker ID that this
// process was given. The process answers requests for tags until it is stopped.
func (p *Process) Failed() <-chan error {
	if p.groups == nil {
		return nil
	}
	return p.groups.workerID.failed
}

// DropTag has the workers of an installation drop a tag from memory, as far as
// they can be reached. It is for tags that were removed from the store.
func DropTag(ctx context.Context, conn *nats.Conn, prefix messages.Prefix, tag string) error {
	return supply.Drop(ctx, conn, prefix, tag)
}

// Resources are what workers and loaders need, besides what leases and the store need: the
// load stream with the loaders' consumer. Replicas are 1 to 5, odd.
func Resources(prefix messages.Prefix, replicas int) []kv.Resource {
	return load.Resources(prefix, replicas)
}

// Provision creates the load stream and the config bucket where they are missing. Existing
// ones are left as they are, but checked for what the load path relies on. A config bucket is
// not made a second time: one was there if the register or the clock bucket has entries.
func Provision(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) error {
	config := agreement.Bucket(prefix, replicas,
		kv.HasEntries(register.BucketName(prefix)), kv.HasEntries(lease.ClockBucketName(prefix)))
	return kv.Ensure(ctx, js, load.Stream(prefix, replicas), config)
}

// LoaderConsumer is the name of the durable consumer that all loaders share.
const LoaderConsumer = load.Consumer
