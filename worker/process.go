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
	"github.com/nats-io/nuid"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker/internal/answer"
	"github.com/idworker/idworker/worker/internal/loader"
	"github.com/idworker/idworker/worker/internal/supply"
	"github.com/idworker/idworker/worker/loadmsg"
)

// Process is a running process of any role.
type Process struct {
	cfg     Config
	timing  timing
	self    ProcessIdentity
	started time.Time

	foreign *loadmsg.Foreign
	watch   *installationWatch
	loader  *loader.Loader // nil if the role does not load
	asker   *asker         // nil if the role neither loads nor issues segments
	// The next three are nil if the role does not issue segments.
	supply    *supply.Supply
	decisions *decisions
	barrier   answer.Barrier // of direct requests
	// The next two are nil if the role does not answer.
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
	dial   time.Duration // a worker takes that long to try to reach a server
	store  time.Duration // bounds a call of the store
	look   time.Duration // between two looks for other installations
	quiet  time.Duration // without another answer, ends such a look
	queued time.Duration // bounds the time that requests may queue
	lost   time.Duration // without a PONG or a message, the server is lost
	learn  time.Duration // bounds a look for decisions: the longest round trip
	pass   time.Duration // bounds the time that requests wait for such a look
}

// lookQuiet bounds the round trip to another installation that is detected:
// links by satellite take 600 ms.
const lookQuiet = time.Second

// slowShare is the part of Wait that a request may wait for a segment without a
// line in the log.
const slowShare = 4

var usualTiming = timing{
	start: 30 * time.Second, dial: dialTime, store: loader.DefaultTimeout, look: 30 * time.Second, quiet: lookQuiet, queued: time.Second,
	lost: 2 * time.Second, learn: 2 * time.Second, pass: time.Second,
}

// part is a service of the process.
type part interface {
	// Start returns when the part works. After an error it leaves nothing
	// behind.
	Start(ctx context.Context) error

	// Stop finishes work in progress, and returns when all that Start started
	// has ended. It is called at most once, after a successful Start. An error
	// comes from NATS; the part has stopped anyway.
	Stop() error
}

// Provision creates the streams and buckets that a role lacks. It does not
// change existing ones, but checks the settings that the process relies on. It
// does not recreate a bucket that other buckets prove to have existed. It
// checks Config.Installation before it creates anything. It reports whether it has
// made the installation, for Config.Made, also with an error.
//
// The installation gets its ID before it has a register. So a register with entries
// and no ID has lost it.
func Provision(ctx context.Context, cfg Config) (made bool, err error) {
	if cfg, err = cfg.complete(); err != nil {
		return false, err
	}
	if err := checkPin(ctx, &cfg); err != nil {
		return false, err
	}
	err = kv.Ensure(ctx, cfg.JetStream, agreement.NewBucket(cfg.Prefix, cfg.Replicas,
		kv.HasEntries(register.BucketName(cfg.Prefix)), kv.HasEntries(lease.ClockBucketName(cfg.Prefix))))
	if err != nil {
		return false, err
	}
	var needs []kv.Resource
	if cfg.Role != RoleSnowflake {
		needs = append(needs, loader.Stream(cfg.Prefix, cfg.Replicas))
	}
	if cfg.Role.Loads() {
		needs = append(needs, register.Bucket(cfg.Prefix, cfg.Replicas))
	}
	if cfg.Role.Answers() { // the first of the three is the config bucket
		needs = append(needs, lease.Resources(cfg.Prefix, cfg.Lease.TTL, cfg.Replicas)[1:]...)
	}
	agreed, err := agreement.Open(ctx, cfg.JetStream, cfg.Prefix)
	if err != nil {
		return false, err
	}
	if _, found, err := agreed.Find(ctx, agreement.InstallationKey); err != nil {
		return false, err
	} else if !found { // nor is it made where a bucket is missing that was in use
		for _, r := range needs {
			if _, err := r.Look(ctx, cfg.JetStream); errors.As(err, new(*kv.OlderError)) {
				return false, err
			}
		}
	}
	if _, _, made, err = agreed.Join(ctx, traces(cfg)...); err != nil {
		return false, err
	}
	err = kv.Ensure(ctx, cfg.JetStream, needs...)
	if err == nil && cfg.Outage > 0 && (made || cfg.Made) {
		err = lease.BeginOutage(ctx, cfg.JetStream, cfg.Prefix, cfg.Outage)
	}
	if err == nil && cfg.Role.Loads() {
		err = register.Record(ctx, cfg.JetStream, cfg.Prefix)
	}
	return made, err
}

// traces are those of an installation whose ID is lost, as far as the role may look
// for them.
func traces(cfg Config) (older []kv.Trace) {
	if cfg.Role.Loads() {
		older = append(older, kv.HasEntries(register.BucketName(cfg.Prefix)))
	}
	if cfg.Role.Answers() {
		older = append(older, kv.HasEntries(lease.ClockBucketName(cfg.Prefix)))
	}
	return older
}

// New makes a process. It checks that configuration and store match the
// installation, which [Provision] has created. It calls JetStream, so ctx
// should have a deadline.
func New(ctx context.Context, cfg Config) (*Process, error) {
	return newProcess(ctx, cfg, usualTiming)
}

func newProcess(ctx context.Context, cfg Config, timing timing) (*Process, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if cfg.Role.Loads() && cfg.Store == nil {
		return nil, fmt.Errorf("%w: role %s needs a store", ErrConfig, cfg.Role)
	}
	self, made, err := joinInstallation(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	cfg.Log = cfg.Log.With(zap.String("instance", self.Instance))
	p := &Process{cfg: cfg, timing: timing, self: self, started: time.Now(), foreign: &loadmsg.Foreign{Installation: self.Installation, Log: cfg.Log}}
	p.watch = &installationWatch{cfg: &p.cfg, timing: timing, self: self, register: p.register, leave: p.standBy, background: goroutines.New()}
	if cfg.Role != RoleSnowflake {
		p.asker = &asker{
			conn: cfg.Control, prefix: cfg.Prefix, self: self, timing: timing, log: cfg.Log, claims: p.claims,
			background: goroutines.New(), complains: rate.Sometimes{First: 1, Interval: time.Minute},
		}
	}
	if cfg.Role.Loads() {
		p.asker.store = cfg.Store
		p.asker.alone.Store(made || cfg.Made)
		p.loader = loader.New(loader.Config{
			Store: cfg.Store, StoreName: cfg.StoreName, Control: cfg.Control, JS: cfg.JetStream, Prefix: cfg.Prefix,
			Instance: self.Instance, Installation: self.Installation,
			Replicas: cfg.Replicas, Reservations: cfg.Reservations, MaxStep: cfg.MaxStep, Timeout: timing.store, Ask: p.asker.ask,
			Foreign: p.foreign, Log: cfg.Log,
		})
	}
	if cfg.Role.Answers() {
		return p, p.makeWorker(ctx)
	}
	return p, nil
}

// joinInstallation determines the installation, and checks that it uses the
// configured store. It reports whether this call has made the installation: then no
// other process has been part of it.
func joinInstallation(ctx context.Context, cfg *Config) (self ProcessIdentity, made bool, err error) {
	if err := checkPin(ctx, cfg); err != nil {
		return self, false, err
	}
	agreed, err := agreement.Open(ctx, cfg.JetStream, cfg.Prefix)
	if err != nil {
		return self, false, err
	}
	host, _ := os.Hostname() // only informs people
	self = ProcessIdentity{Instance: nuid.Next(), Host: host, Role: cfg.Role}
	if cfg.Role.Answers() {
		self.Layout, self.Datacenter = cfg.Lease.Layout, cfg.Lease.Datacenter
	}
	self.Installation, self.Created, made, err = agreed.Join(ctx, traces(*cfg)...)
	if err == nil && cfg.Role.Loads() {
		err = agreed.ClaimStore(ctx, cfg.StoreName)
	}
	return self, made, err
}

func checkPin(ctx context.Context, cfg *Config) error {
	if cfg.Installation == "" {
		return nil
	}
	return agreement.CheckPin(ctx, cfg.JetStream, cfg.Prefix, cfg.Installation)
}

// makeWorker makes the parts that answer requests.
func (p *Process) makeWorker(ctx context.Context) error {
	c := &p.cfg
	g := &queueGroups{timeout: p.timing.start}
	if c.Role.AnswersSegments() {
		cfg := supply.Config{
			Prefix: c.Prefix, Instance: p.self.Instance, Installation: p.self.Installation, Control: c.Control, JS: c.JetStream,
			MaxStep: c.MaxStep, Wait: c.Wait, Foreign: p.foreign, Log: c.Log,
		}
		if p.loader != nil {
			cfg.Own = p.loader.Load
		}
		p.supply = supply.New(cfg)
		p.decisions = newDecisions(c, p.self, p.supply, p.timing)
		g.alloc = p.supply.Allocator()
		g.segments = newQueueGroup(c.Log.With(zap.String("group", "segment")))
	}
	p.answers = answer.New(answer.Config{
		Prefix: c.Prefix, MaxBatch: c.MaxBatch, Requests: c.Requests, Slow: c.Wait / slowShare, Log: c.Log,
	}, g.alloc)
	g.entrance = &entrance{requests: c.Requests, prefix: c.Prefix, answers: p.answers, queued: p.timing.queued, lost: p.timing.lost, maxBatch: c.MaxBatch, service: p.service}
	if p.decisions != nil {
		g.entrance.watch, p.barrier = p.decisions.watch, p.decisions.watch
	}
	p.groups = g
	var err error
	g.workerID, err = openWorkerID(ctx, c, p.self, g.entrance)
	return err
}

// parts are the parts that the role has, in starting order. The watch comes
// first, because nothing may serve before it has looked for other
// installations. Parked requests need the loader until they are answered. The
// queue groups are joined last and left first.
func (p *Process) parts() []part {
	parts := []part{p.watch}
	if p.asker != nil {
		parts = append(parts, p.asker)
	}
	if p.loader != nil {
		parts = append(parts, p.loader)
	}
	if p.supply != nil {
		parts = append(parts, p.supply, p.decisions)
	}
	if p.groups != nil {
		parts = append(parts, p.groups)
	}
	return parts
}

// Start returns when the process works: a worker has then joined the queue
// group, and a process for snowflake IDs only has tried to. It fails after 30
// seconds without progress, or when ctx ends, and then leaves nothing behind.
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

// Stop leaves the queue groups, answers every delivered request, and returns
// when all that Start started has ended. It takes Config.Wait at most, plus the
// time of store calls in flight, plus some seconds if the NATS server does not
// answer; fewer once the connections are closed. An error comes from NATS; the
// process has stopped anyway. A second call waits for the first and returns the
// same.
func (p *Process) Stop() error {
	p.stopOnce.Do(func() {
		p.stopping.Store(true)
		p.watch.end()
		p.stopErr = p.stopParts(p.parts())
	})
	return p.stopErr
}

// flushTimeout bounds the flushes of a stop.
const flushTimeout = 3 * time.Second

var errUnflushed = errors.New("the NATS server does not answer; the last messages may be lost")

// stopParts stops parts in reverse order, and returns when the server has
// received everything sent.
func (p *Process) stopParts(started []part) (err error) {
	for _, part := range slices.Backward(started) {
		err = errors.Join(err, part.Stop())
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	for _, conn := range []*nats.Conn{p.cfg.Control, p.cfg.Requests} {
		if unlessClosed(conn.FlushWithContext(ctx)) != nil {
			return errors.Join(err, errUnflushed)
		}
	}
	return err
}

// standBy leaves all queue groups to another installation, or rejoins them.
func (p *Process) standBy(standsBy bool) {
	if p.loader != nil {
		p.loader.StandBy(standsBy)
	}
	if p.groups != nil {
		p.groups.standBy(standsBy)
	}
}

// Instance is the name of the process in load events and STATS. Each start has
// a new name.
func (p *Process) Instance() string { return p.self.Instance }

// Installation is the ID of the installation that the process belongs to.
func (p *Process) Installation() string { return p.self.Installation }

// Ready returns why the process does not do all of its work right now, or nil.
// An unreachable store does not count, because workers live on their buffers.
// Neither does a regressed register, unless the process only loads, nor a
// missing worker ID, unless the process only answers snowflake requests.
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

// Degraded returns a problem of a process that is ready, or nil:
// [Config.Trouble]; that NATS has no installation any more; a [*store.RegressionError] while its loader grants nothing;
// why loads are not granted; or why the process is not in the queue group of
// snowflake requests although it holds a worker ID. The worker lives on its
// buffers then, or answers other requests, so replacing it gains nothing.
func (p *Process) Degraded() error {
	if p.cfg.Trouble != nil {
		if err := p.cfg.Trouble(); err != nil {
			return err
		}
	}
	if err := p.watch.lost(); err != nil {
		return err
	}
	if p.loader != nil {
		if err := p.cfg.Store.Stopped(); err != nil {
			return err
		}
	}
	if p.groups == nil {
		return nil
	}
	if p.supply != nil {
		if err := p.supply.Unanswered(); err != nil {
			return err
		}
	}
	return p.groups.degraded()
}

// claimWithin bounds [Process.AwaitClaim].
const claimWithin = 3 * time.Second

// AwaitClaim returns when the process has claimed a worker ID or cannot claim
// one now, when ctx ends, or after three seconds. A claim takes a second, in
// which other processes may object. The process answers requests for tags
// during that time.
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

// Failed receives a fatal error of the process: a [*lease.HeldError], if
// another live process holds the configured worker ID. The process answers
// requests for tags until it is stopped.
func (p *Process) Failed() <-chan error {
	if p.groups == nil {
		return nil
	}
	return p.groups.workerID.failed
}

// Supplied reports whether a loader has ever granted or refused a load of this
// process.
func (p *Process) Supplied() bool {
	if p.supply == nil {
		return false
	}
	g := p.supply.Figures(0).Grants
	return g.Installed+g.Burnt+g.Below+g.Refused > 0
}

// DropTag makes the reachable workers of an installation drop the buffer of a tag
// that was removed from the store.
func DropTag(ctx context.Context, conn *nats.Conn, prefix messages.Prefix, tag string) error {
	return supply.Drop(ctx, conn, prefix, tag)
}

// Resources are the load stream and the loaders' consumer. Leases and stores
// list their own resources. Replicas are 1 to 5, odd.
func Resources(prefix messages.Prefix, replicas int) []kv.Resource {
	return loader.Resources(prefix, replicas)
}

// LoaderConsumer is the name of the durable consumer that all loaders share.
const LoaderConsumer = loader.Consumer
