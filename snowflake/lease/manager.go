package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store/agreement"
)

// State is a report of a [Manager]: the worker ID that it holds, or why it
// holds none.
type State struct {
	// Generator makes IDs with the held worker ID; nil without a worker ID.
	Generator *snowflake.Generator

	Datacenter, Worker int64 // of the generator

	// Err is the reason why there is no generator. It wraps one of the
	// package's errors or is snowflake.ErrExhausted; any other error means that
	// JetStream is unreachable.
	Err error
}

// Manager leases a worker ID for a process: it seeks a free worker ID, keeps
// the hold, and reports changes. [Open] creates it; Run does the work.
type Manager struct {
	cfg     Config
	host    string
	workers bucket
	clocks  bucket
	config  agreed
	server  server
	others  others
	uses    useLog

	clockDiff atomic.Int64           // nanoseconds
	current   atomic.Pointer[holder] // nil while no worker ID is held, or it is suspended

	// The rest belongs to one goroutine.
	previous  int64         // the latest worker ID; -1 before the first
	holder    holderWatch   // of the worker ID that was given
	outage    OutageSetting // Longest never falls
	fences    fences        // of all holders
	sightings sightings     // of leases
	known     knowledge     // of the clock bucket with the identity, in all its life
	identity  string
	lost      Lost // as seen by this process alone
	regressed bool // the clock bucket, at the latest look
}

// Open opens the buckets, which must exist, and makes the checks of a claim. It
// claims no worker ID, so it succeeds even if all of them are taken. It also
// succeeds while the clock is off or before the epoch, after the clock bucket
// regressed, and if an entry is unreadable: Run reports that.
//
// Errors: ErrConfig, ErrUnsafeBucket, ErrForeignLayout, ErrClockLost,
// jetstream.ErrBucketNotFound, and a [*NewEpochError]; any other error means
// that JetStream is unreachable.
func Open(ctx context.Context, cfg Config) (*Manager, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.JS.Conn().Opts.NoEcho {
		return nil, fmt.Errorf("%w: the NATS connection must not use NoEcho", ErrConfig)
	}
	config, err := agreement.Open(ctx, cfg.JS, cfg.Prefix)
	if err != nil {
		return nil, err
	}
	clocks, err := kv.Open(ctx, cfg.JS, ClockBucketName(cfg.Prefix))
	if err != nil {
		return nil, err
	}
	workers, err := kv.OpenLeases(ctx, cfg.JS, WorkersBucketName(cfg.Prefix))
	if err != nil {
		return nil, err
	}
	m := newManager(cfg, kvBucket{cfg.JS, workers}, kvBucket{cfg.JS, clocks}, config, streamServer{clocks.Stream(), workers.Stream()}, &connected{conn: cfg.JS.Conn(), prefix: cfg.Prefix})
	return m, m.tryAdmission(ctx)
}

// tryAdmission returns the error of an admission for which a process should not
// start.
func (m *Manager) tryAdmission(ctx context.Context) error {
	_, err := m.admit(ctx, m.newClock())
	var made *NewEpochError
	var back *ClockBackError
	if errors.Is(err, ErrClockSkew) || errors.Is(err, ErrCorrupt) || errors.As(err, &back) || errors.Is(err, snowflake.ErrEpoch) && !errors.As(err, &made) {
		return nil
	}
	return err
}

func newManager(cfg Config, workers, clocks bucket, config agreed, server server, others others) *Manager {
	host, _ := os.Hostname() // only informs readers of the leases
	m := &Manager{cfg: cfg, host: host, config: config, server: server, others: others, previous: -1}
	m.uses.all, m.known = make(map[string]holdUse), make(knowledge)
	m.workers, m.clocks = bounded{workers, &m.cfg}, bounded{clocks, &m.cfg}
	return m
}

// Run claims a worker ID and keeps it until ctx ends; if it is lost, it claims
// another. Then it releases the worker ID. It returns an error if the release
// failed, which delays a successor and does no other harm.
//
// If another live process holds the configured worker ID, Run returns a
// [*HeldError], after it has called notify. A dead process does not renew its
// lease; Run waits until that has expired.
//
// Run calls notify with each change and each failed claim, but not when ctx
// ends; the generator is revoked then. A generator that is suspended, because the
// clock jumped ahead while JetStream is away, is reported as missing meanwhile.
// There are no heartbeats while notify runs, so it should return soon. Run must
// not be called again before it has returned.
func (m *Manager) Run(ctx context.Context, notify func(State)) error {
	stop, err := m.others.serve(&m.uses)
	if err != nil {
		return err
	}
	defer stop()
	m.holder = holderWatch{}
	for attempt := 0; ctx.Err() == nil; attempt++ {
		h, err := m.seek(ctx)
		if err == nil {
			attempt = -1
			if err = m.keep(ctx, h, notify); ctx.Err() != nil {
				return err
			}
		} else if ctx.Err() == nil {
			if attempt == 0 {
				m.cfg.Log.Warn("no worker ID yet, retrying", zap.Error(err))
			}
			notify(State{Err: err})
			var held *HeldError
			if errors.As(err, &held) && held.Alive {
				return err
			}
			pause.For(ctx, m.seekPause(attempt))
		}
	}
	return nil
}

// errSuspended: the machine may have been resumed beside a copy of this process;
// the next heartbeat decides which of the two goes on.
var errSuspended = errors.New("lease: the clock jumped ahead, and JetStream has not confirmed the worker ID since")

// keep keeps a hold until it is lost or ctx ends, reports its beginning and its
// loss, and returns an error if its release failed.
func (m *Manager) keep(ctx context.Context, h *holder, notify func(State)) error {
	log := m.cfg.Log.With(zap.String("worker_id", h.lease.key))
	log.Info("worker ID claimed")
	m.current.Store(h)
	held := State{Generator: h.gen, Datacenter: m.cfg.Datacenter, Worker: h.worker}
	notify(held)
	lost := h.renewUntilLost(ctx, func(suspended bool) {
		if suspended {
			log.Warn("no IDs until a heartbeat succeeds", zap.Error(errSuspended))
			m.current.Store(nil)
			notify(State{Err: errSuspended})
		} else {
			m.current.Store(h)
			notify(held)
		}
	})
	m.current.Store(nil)
	if ctx.Err() != nil {
		return h.release()
	}
	h.revoke()
	log.Warn("worker ID given up", zap.Error(lost))
	notify(State{Err: lost})
	if !errors.Is(lost, ErrClockSkew) {
		return nil // another's, or its time is over
	}
	// The fence is still ours. Its unused time would block the next claim of the
	// worker ID, perhaps by this process.
	err := h.release()
	if err != nil && !errors.Is(err, ErrLost) {
		log.Warn("worker ID not released, will expire", zap.Error(err))
	}
	return err
}

// adoptTTL adopts the TTL of the bucket of leases: for the next claim, or for a
// hold whose lease expired too early.
func (m *Manager) adoptTTL(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ttl, err := m.server.leaseTTL(ctx)
	if err != nil {
		return err
	}
	if err := checkTTL(ttl, m.cfg.Layout); err != nil {
		return fmt.Errorf("bucket %s: %w", WorkersBucketName(m.cfg.Prefix), err)
	}
	if ttl != m.cfg.TTL {
		m.cfg.Log.Warn("using the lease bucket's TTL", zap.Duration("ttl", ttl), zap.Duration("before", m.cfg.TTL))
		m.cfg.TTL = ttl
	}
	m.fences.lower = max(m.fences.lower, fenceLength(ttl))
	return nil
}

// noteTTL takes in the length of fences that others claim now.
func (m *Manager) noteTTL(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ttl, err := m.server.leaseTTL(ctx)
	m.fences.lower = max(m.fences.lower, fenceLength(ttl))
	return err
}

// Frequencies of seeking a worker ID, per TTL.
const (
	firstSeeksPerTTL = 30
	laterSeeksPerTTL = 6
)

// seekPause is random, so that processes that wait for a worker ID do not all
// come at once.
func (m *Manager) seekPause(attempt int) time.Duration {
	longest := min(m.cfg.TTL/firstSeeksPerTTL<<min(attempt, 10), m.cfg.TTL/laterSeeksPerTTL)
	return longest/2 + rand.N(longest/2)
}

// Figures are the figures of a [Manager].
type Figures struct {
	// ClockDiff is the lead of this clock over the server's at the latest
	// comparison: at a heartbeat, or before a claim.
	ClockDiff time.Duration

	// Reserved is the time from now to the end of the fence: after a heartbeat
	// about the TTL, at least 15 s, or the declared outage. It is negative if
	// heartbeats have failed for too long, and 0 without a worker ID.
	Reserved time.Duration

	// Unconfirmed is the time since the latest heartbeat that succeeded, 0 if
	// that was less than a TTL ago, and without a worker ID.
	Unconfirmed time.Duration
}

// Figures returns the present figures. It may be called from any goroutine.
func (m *Manager) Figures() Figures {
	f := Figures{ClockDiff: time.Duration(m.clockDiff.Load())}
	if h := m.current.Load(); h != nil {
		f.Reserved = m.cfg.Layout.TimeAt(h.hi.Load()).Sub(h.clock.time())
		f.Unconfirmed = h.unconfirmed()
	}
	return f
}
