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

	"github.com/idworker/idworker/internal/boottime"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
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
	bucket string
	remote remote
	log    *zap.Logger
	now    func() time.Time // includes the time in suspend

	steps   steps
	polling chan struct{} // holds a token while a poll is in flight
	noting  sync.Mutex    // held from reading evidence until the witness is written

	granted, burnt atomic.Int64 // ranges
	moves          moves        // of the table

	mu       sync.Mutex
	cache    map[string]storedEntry // latest entries read or written; never lower
	record   record
	polled   permit // the last good poll
	doubts   int    // incremented by each event after which a write needs a fresh poll
	epoch    int    // incremented by each event that discards the writes in flight
	decided  int    // the epoch in which the latest decision was accepted
	stopped  *store.RegressionError
	proven   bool                 // only a decision ends stopped
	short    int64                // by how much the latest raise was too small; 0 if it was not
	suspect  time.Time            // since when something looks wrong
	lower    map[string]time.Time // since when entries read lower than cached
	replicas int                  // of the stream
	full     bool                 // the stream is nearly
	deciding bool                 // by [Register.RaiseAll]
	born     string               // the mark with which [Decide] has created the register; or empty
	rowsBack map[string]bool
	figures  store.Figures
}

var _ store.Reserver = (*Register)(nil)

// Open opens the register, which has to exist. It fails with a
// [*store.RegressionError] if the register regressed. Other errors:
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
	if w := cfg.Witness; w != nil {
		if err := w.Compare(ctx, cfg.JetStream, cfg.Prefix, cfg.Beside...); err != nil {
			return nil, err
		}
		s.record = w.record(s.bucket)
	}
	s.record.ID = want
	if err := s.start(ctx); err != nil {
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
	s := newStore(cfg, bucketOf{cfg.JetStream, bucket, cfg.Lists})
	s.now = boottime.Clock()
	return s, nil
}

func newStore(cfg Config, r remote) *Register {
	return &Register{
		moves: moves{since: time.Now()},
		cfg:   cfg, bucket: BucketName(cfg.Prefix), remote: r, log: cfg.Log, now: time.Now, polling: make(chan struct{}, 1),
		cache: make(map[string]storedEntry), rowsBack: make(map[string]bool), lower: make(map[string]time.Time), replicas: 1,
	}
}

// start adopts the register's present state, if nothing contradicts it. A
// register that is being raised is accepted later.
func (s *Register) start(ctx context.Context) error {
	found, err := s.remote.poll(ctx)
	if err != nil {
		return err
	}
	s.replicas = max(1, found.replicas)
	decided, wrong := s.record.assess(s.bucket, found, s.record.Last)
	switch {
	case decided && wrong == nil:
		s.record.adopt(found)
		return s.acceptWitness(ctx, s.record.clone())
	case wrong != nil && found.raising:
		_ = s.stop(wrong, false)
		return nil
	case wrong != nil:
		return wrong
	}
	s.record.adopt(found)
	return s.note(ctx)
}

func (s *Register) acceptWitness(ctx context.Context, e record) error {
	if s.cfg.Witness == nil {
		return nil
	}
	return s.cfg.Witness.accept(ctx, s.cfg.JetStream, s.bucket, e, s.cfg.Beside...)
}

// Close writes the witness. Call it once nothing reserves any more.
func (s *Register) Close() error {
	return s.note(context.Background())
}

// Figures implements [store.Reserver].
func (s *Register) Figures() store.Figures {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.figures
	f.Granted, f.Burnt = s.granted.Load(), s.burnt.Load()
	if s.cfg.Table != nil {
		f.Server, f.Moves = s.cfg.Table.Server(), s.moves.figures()
	}
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped == nil {
		return nil // not a nil *store.RegressionError
	}
	wrong := *s.stopped
	wrong.Short = s.short
	return &wrong
}

// live reports whether an entry is that of a tag. An entry without a step was
// written in front of a table, and is no tag without that table. In front of a
// table there has to be a row as well.
func (s *Register) live(r storedEntry) bool {
	return r.exists() && !r.Removed && (r.Step > 0 || s.cfg.Table != nil)
}

// Known implements [store.Reserver].
func (s *Register) Known(tag string) bool { return s.live(s.cached(tag)) }

func (s *Register) cached(tag string) storedEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cache[tag]
}

// remember caches an entry that was read or written since an epoch, unless a
// newer entry is cached.
func (s *Register) remember(epoch int, tag string, r storedEntry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != epoch {
		return errOvertaken
	}
	s.record.Last = max(s.record.Last, r.revision)
	if r.exists() && r.revision > s.cache[tag].revision {
		s.cache[tag] = r
	}
	return nil
}

var (
	// errStale means that nothing was written: the entry has another revision,
	// or an event since the permit requires a poll first.
	errStale = errors.New("the entry has changed")

	// errLate means that a reply came too long after the poll that preceded the
	// write.
	errLate = errors.New("write confirmed too late")

	// errOvertaken means that the loader stopped, compared its entries, or
	// accepted a decision while a request was in flight.
	errOvertaken = errors.New("granting stopped while the request was in flight")
)

// permit is the state under which a poll or a write was sent.
type permit struct {
	at         time.Time
	reconnects uint64
	doubts     int
	epoch      int
	seen       kv.Position
	floor      int64 // lowest first ID of new tags
}

// sending returns the present state. The caller holds the lock.
func (s *Register) sending() permit {
	return permit{s.now(), s.remote.reconnects(), s.doubts, s.epoch, s.record.Position, max(1, s.record.First)}
}

// permit returns the state in which a write may be sent. The last poll returned
// at least as much as had been seen, is recent, and nothing has happened since
// that requires another poll. The caller must read or compute its write after
// that.
func (s *Register) permit(ctx context.Context) (permit, error) {
	// A permit right after its own poll may be older: that poll may have been
	// slow.
	for age := pollEvery; ; age = pollAge / 2 {
		s.mu.Lock()
		now := s.polled
		now.seen, now.floor = s.record.Position, max(1, s.record.First)
		valid := s.permits(now, age)
		wrong, proven := s.stopped, s.proven
		s.mu.Unlock()
		if wrong != nil && proven {
			return now, wrong
		}
		if valid {
			return now, nil
		}
		if err := s.poll(ctx, false); err != nil {
			return now, err
		}
	}
}

// permits reports whether a write may be sent after a poll: it is younger than
// age, and nothing has happened since that requires another. The caller holds
// the lock.
func (s *Register) permits(p permit, age time.Duration) bool {
	return s.since(p.at) < age && p.doubts == s.doubts && p.reconnects == s.remote.reconnects()
}

// write replaces the entry of a tag, if its revision is still that of r, and
// caches it. The permit is from before r was read. The entry counts as written,
// in the line that it returns, only if the error is nil. After errStale nothing was written; after any other
// error the outcome is unknown.
//
// Many writes may be in flight when a restore ends. They lift the sequence, so
// only the first answers prove the regression. The later ones are discarded.
func (s *Register) write(ctx context.Context, p permit, tag string, r storedEntry) (store.Line, error) {
	s.mu.Lock()
	p.seen = s.record.Position
	doubted := p.doubts != s.doubts
	s.mu.Unlock()
	if doubted {
		return store.Line{}, errStale
	}
	revision, err := s.remote.update(ctx, tag, r.encode(), r.revision)
	switch {
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return store.Line{}, errStale
	case err != nil:
		s.doubt()
		return store.Line{}, err
	}
	if err := s.confirm(p, revision); err != nil {
		return store.Line{}, err
	}
	r.revision = revision
	return store.Line{Floor: p.floor, Sequence: revision}, s.remember(p.epoch, tag, r)
}

// confirm judges the reply to a write, which was sent under a permit: its
// revision. After an error the write counts for nothing.
func (s *Register) confirm(p permit, revision uint64) error {
	switch {
	case !p.seen.Confirms(revision):
		return s.prove(p.epoch, &store.RegressionError{Bucket: s.bucket, Seen: p.seen.Last, Found: revision})
	case s.late(p):
		s.doubt()
		return errLate
	}
	return s.remember(p.epoch, "", storedEntry{revision: revision}) // the revision alone
}

// late reports whether an answer came too long after the permit of its write.
func (s *Register) late(p permit) bool {
	return s.since(p.at) > pollAge || s.remote.reconnects() != p.reconnects
}

func (s *Register) since(t time.Time) time.Duration { return s.now().Sub(t) }

// errBehind reports a server that returned more before.
var errBehind = errors.New("the server lags behind its earlier replies")

// read reads the entry of a tag from the leader. If it is below the cached
// entry, the register regressed; on a replicated stream, only if it stays
// lower.
func (s *Register) read(ctx context.Context, tag string) (storedEntry, error) {
	for {
		r, err := s.readOnce(ctx, tag)
		if !errors.Is(err, errOvertaken) {
			return r, err
		}
	}
}

func (s *Register) readOnce(ctx context.Context, tag string) (storedEntry, error) {
	s.mu.Lock()
	epoch, had := s.epoch, s.cache[tag]
	s.mu.Unlock()
	r, err := s.remote.read(ctx, tag)
	if err != nil {
		return r, err
	}
	switch lower := s.isLower(tag, r.Next < had.Next); {
	case lower == 0:
	case lower < suspicion && s.copies() > 1:
		s.doubt()
		return r, fmt.Errorf("%w: next was %d, now %d", errBehind, had.Next, r.Next)
	case r.exists():
		return r, s.prove(epoch, &store.RegressionError{Bucket: s.bucket, Reason: fmt.Sprintf("has tag %s at %d, was granted up to %d", tag, r.Next, had.Next)})
	default:
		return r, fmt.Errorf("%w: deleted by hand, was granted up to %d", store.ErrCorrupt, had.Next)
	}
	return r, s.remember(epoch, tag, r)
}

// isLower returns the time since which the entry of a tag reads lower than
// cached, 0 if it does not.
func (s *Register) isLower(tag string, lower bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !lower {
		delete(s.lower, tag)
		return 0
	}
	if s.lower[tag].IsZero() {
		s.lower[tag] = s.now()
	}
	return max(1, s.since(s.lower[tag]))
}

func (s *Register) copies() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replicas
}

// tagError adds the bucket and the tag to err, unless it is of the table behind
// the bucket, and names both itself; nil stays nil.
func (s *Register) tagError(tag string, err error) error {
	if table, ok := errors.AsType[*store.TableError](err); err == nil || ok && table.Tag == tag {
		return err
	}
	return fmt.Errorf("bucket %s, tag %s: %w", s.bucket, tag, err)
}
