package register

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/idworker/idworker/internal/boottime"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register/internal/guard"
)

// Config configures a [Register].
type Config struct {
	// JetStream is on a connection without a reconnect buffer,
	// nats.ReconnectBufSize(-1): a write that was sent before the register
	// regressed must not arrive after it.
	JetStream jetstream.JetStream

	Prefix messages.Prefix

	// Table proposes the ranges. Without a table the register proposes them.
	Table     store.Table
	TableName string // for the log

	// Witness, if set, keeps evidence for the next start: of the register, and
	// of the buckets in Beside.
	Witness *Witness
	Beside  []string

	// Stands has Open return a register that has stopped, instead of the
	// [*store.RegressionError]: a loader runs it, and takes over the decision.
	Stands bool

	// Lists is how entries are listed: a user without the right to create
	// consumers lists them by requests.
	Lists kv.Way

	Log *zap.Logger
}

// ErrReconnectBuffer reports a connection that could send a write after a
// reconnect.
var ErrReconnectBuffer = errors.New("the register needs a connection without a reconnect buffer")

// Register is the register, which decides which ranges are granted. It
// implements [store.Reserver] for loaders; its other methods are for
// administrators.
type Register struct {
	cfg    Config
	remote remote
	now    func() time.Time // includes the time in suspend

	steps     steps
	asked     chan struct{} // see Asked
	askedOnce sync.Once
	unasked   chan struct{}  // receives when others have to be asked again; capacity 1
	polling   chan struct{}  // holds a token while a poll is in flight
	left      *guard.Proof   // that Run has left
	leaving   time.Time      // the latest attempt at that
	complains rate.Sometimes // about claims that cannot be checked
	noting    sync.Mutex     // held from reading evidence until the witness is written

	granted, burnt atomic.Int64 // ranges
	moves          moves        // of the table

	mu          sync.Mutex
	guard       *guard.Guard
	cache       map[string]storedEntry // latest entries read or written; never lower
	regressions int64

	born string // the mark with which [Decide] has created the register; or empty
}

var _ store.Reserver = (*Register)(nil)

// Open opens the register, which has to exist. It fails with a
// [*store.RegressionError] if the register regressed, unless Config.Stands is
// set; then only a missing register is such an error. Other errors:
// messages.ErrPrefix, jetstream.ErrBucketNotFound, durability.ErrUnsafe,
// [ErrReconnectBuffer]; anything else means that JetStream is unreachable.
func Open(ctx context.Context, cfg Config) (*Register, error) {
	if err := cfg.Prefix.Check(); err != nil {
		return nil, err
	}
	want, had, err := agreement.Lookup(ctx, cfg.JetStream, cfg.Prefix, ConfigKey)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, cfg)
	if errors.Is(err, jetstream.ErrBucketNotFound) && had {
		return nil, &store.RegressionError{Bucket: BucketName(cfg.Prefix), Reason: "is missing"}
	}
	if err != nil {
		return nil, err
	}
	var seen guard.Record
	if w := cfg.Witness; w != nil {
		if seen, err = w.recordOf(want, BucketName(cfg.Prefix)); err != nil {
			return nil, err
		}
	}
	seen.ID = want
	s.guard = guard.New(BucketName(cfg.Prefix), seen)
	if err = s.start(ctx); err == nil && !cfg.Stands {
		if wrong := s.stoppedBy(); wrong != nil && wrong.Reason != guard.BeingRaised {
			err = wrong
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func open(ctx context.Context, cfg Config) (*Register, error) {
	if cfg.JetStream.Conn().Opts.ReconnectBufSize > 0 {
		return nil, ErrReconnectBuffer
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	bucket, err := kv.Open(ctx, cfg.JetStream, BucketName(cfg.Prefix))
	if err != nil {
		return nil, err
	}
	s := newStore(cfg, bucketOf{cfg.JetStream, cfg.Prefix, bucket, cfg.Lists})
	s.now = boottime.Clock()
	return s, nil
}

func newStore(cfg Config, r remote) *Register {
	return &Register{
		cfg: cfg, remote: r, now: time.Now, moves: moves{since: time.Now()}, polling: make(chan struct{}, 1), complains: rate.Sometimes{Interval: time.Minute}, asked: make(chan struct{}), unasked: make(chan struct{}, 1),
		guard: guard.New(BucketName(cfg.Prefix), guard.Record{}), cache: make(map[string]storedEntry),
	}
}

// judge asks the guard, and logs if granting stops or resumes because of that.
func (s *Register) judge(ask func(*guard.Guard)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ask(s.guard)
	for _, wrong := range s.guard.News {
		switch {
		case wrong == nil:
			s.cfg.Log.Info("register complete again; granting resumed")
		case wrong.Reason == guard.BeingRaised:
			s.cfg.Log.Warn("granting paused while tags are raised")
		default:
			s.regressions++
			s.cfg.Log.Error("register regressed; granting stopped", zap.Error(wrong))
		}
	}
	s.guard.News = nil
	if s.guard.Unasked() > 0 {
		select {
		case s.unasked <- struct{}{}:
		default:
		}
	}
}

// moment returns the present. Suspend counts.
func (s *Register) moment() guard.Moment {
	return guard.Moment{Time: s.now(), Reconnects: s.remote.reconnects()}
}

// start adopts the register's present state, if nothing contradicts it. A
// register that is being raised is accepted later.
func (s *Register) start(ctx context.Context) error {
	found, err := s.remote.poll(ctx)
	if err != nil {
		return err
	}
	var decided bool
	var seen guard.Record
	s.judge(func(g *guard.Guard) {
		decided = g.Begin(found, s.moment())
		seen = g.Record()
	})
	switch {
	case s.hasStopped():
		return nil
	case decided:
		err = s.acceptWitness(ctx, seen)
	default:
		err = s.note(ctx)
	}
	if errors.Is(err, ErrWitness) {
		return nil // logged by Run: a full disk keeps no loader from starting
	}
	return err
}

func (s *Register) acceptWitness(ctx context.Context, seen guard.Record) error {
	if s.cfg.Witness == nil {
		return nil
	}
	return s.cfg.Witness.accept(ctx, s.cfg.JetStream, BucketName(s.cfg.Prefix), seen, s.cfg.Beside...)
}

// Close writes the witness. Call it once nothing reserves any more.
func (s *Register) Close() error {
	return s.note(context.Background())
}

// Figures implements [store.Reserver].
func (s *Register) Figures() store.Figures {
	f := store.Figures{Granted: s.granted.Load(), Burnt: s.burnt.Load()}
	if s.cfg.Table != nil {
		f.Server, f.Moves, f.RowsBack = s.cfg.Table.Server(), s.moves.figures(), s.moves.rowsBack()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Regressions = s.regressions
	return f
}

// Limited implements [store.Reserver].
func (s *Register) Limited() int64 {
	if s.cfg.Table != nil {
		return s.cfg.Table.Limited()
	}
	return math.MaxInt64
}

// Stopped implements [store.Reserver].
func (s *Register) Stopped() error {
	if wrong := s.stoppedBy(); wrong != nil {
		return wrong
	}
	return nil // not a nil *store.RegressionError
}

func (s *Register) hasStopped() bool { return s.stoppedBy() != nil }

func (s *Register) stoppedBy() *store.RegressionError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guard.Stopped()
}

// live reports whether an entry is that of a tag. An entry without a step was
// written in front of a table, and is no tag without that table. In front of a
// table there has to be a row as well.
func (s *Register) live(r storedEntry) bool {
	return r.exists() && !r.Removed && (r.Step > 0 || s.cfg.Table != nil)
}

// Known implements [store.Reserver].
func (s *Register) Known(tag string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live(s.cache[tag])
}

// HasEntry implements [store.Reserver].
func (s *Register) HasEntry(tag string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cache[tag].exists()
}

// errStale means that nothing was written: the entry has another revision, or an
// event since the permit requires a poll first.
var errStale = errors.New("the entry has changed")

// permit returns the permit of a write. It polls if it has to. The caller must
// read or compute its write after that.
func (s *Register) permit(ctx context.Context) (p guard.Permit, err error) {
	for polled := false; ; polled = true {
		s.judge(func(g *guard.Guard) { p, err = g.Permit(s.moment(), polled) })
		if !errors.Is(err, guard.ErrUnpolled) {
			return p, err
		}
		if err := s.poll(ctx, false); err != nil {
			return p, err
		}
	}
}

// write replaces the entry of a tag, if its revision is still that of r, and
// caches it. The permit is from before r was read. The entry counts as written,
// in the line that write returns, only if the error is nil. After errStale
// nothing was written; after any other error the outcome is unknown.
func (s *Register) write(ctx context.Context, p guard.Permit, tag string, r storedEntry) (store.Line, error) {
	var ok bool
	if s.judge(func(g *guard.Guard) { p, ok = g.Sending(p) }); !ok {
		return store.Line{}, errStale
	}
	revision, err := s.remote.update(ctx, tag, r.encode(), r.revision)
	switch {
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return store.Line{}, errStale
	case err != nil:
		s.judge((*guard.Guard).Doubt)
		return store.Line{}, err
	}
	r.revision = revision
	s.judge(func(g *guard.Guard) {
		if err = g.Wrote(p, tag, revision, s.moment()); err == nil && s.cache[tag].revision < revision {
			s.cache[tag] = r
		}
	})
	return store.Line{Floor: p.Floor, Sequence: revision}, err
}

// confirm judges the reply to a write that was sent under a permit, and whose
// entry is not cached. After an error the write counts for nothing.
func (s *Register) confirm(p guard.Permit, revision uint64) (err error) {
	s.judge(func(g *guard.Guard) { err = g.Wrote(p, "", revision, s.moment()) })
	return err
}

// read reads the entry of a tag from the leader, and caches it. claim is what was
// heard of the tag, or zero. If granting stopped in the meantime, it reads again.
// Errors are those of [guard.Guard.Read].
func (s *Register) read(ctx context.Context, tag string, claim store.Claim) (r storedEntry, err error) {
	for {
		var epoch int
		var had storedEntry
		s.judge(func(g *guard.Guard) { epoch, had = g.Epoch(), s.cache[tag] })
		if r, err = s.remote.read(ctx, tag); err != nil {
			return r, err
		}
		s.judge(func(g *guard.Guard) {
			err = g.Read(epoch, tag, had.Next, claim, r.Next, r.revision, s.now())
			if err == nil && r.exists() && s.cache[tag].revision < r.revision {
				s.cache[tag] = r
			}
		})
		if !errors.Is(err, guard.ErrOvertaken) {
			return r, err
		}
	}
}

// tagError adds the bucket and the tag to err, unless it is of the table behind
// the bucket, and names both itself; nil stays nil.
func (s *Register) tagError(tag string, err error) error {
	if table, ok := errors.AsType[*store.TableError](err); err == nil || ok && table.Tag == tag {
		return err
	}
	return fmt.Errorf("bucket %s, tag %s: %w", BucketName(s.cfg.Prefix), tag, err)
}
