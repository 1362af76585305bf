package register

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Config is where the register is.
type Config struct {
	// JetStream is on a connection without a reconnect buffer, nats.ReconnectBufSize(-1): a
	// write that was sent before the register went back must not arrive after it.
	JetStream jetstream.JetStream

	Prefix messages.Prefix

	// Table proposes the ranges. Without one the register does so itself.
	Table     store.Table
	TableName string // for the log

	// Witness, if there is one, keeps what was seen for the next start: of the register, and of
	// the buckets in Beside.
	Witness *Witness
	Beside  []string

	Log *zap.Logger
}

// ErrReconnectBuffer says that the connection could send a write after a reconnect.
var ErrReconnectBuffer = errors.New("the register needs a connection without a reconnect buffer")

// Store counts in the register.
type Store struct {
	cfg    Config
	bucket string
	remote remote
	log    *zap.Logger

	turns   turns
	polling chan struct{} // holds a token while a poll is in flight

	mu       sync.Mutex
	cache    map[string]record // the latest that this process knows; never lower
	evidence evidence
	first    int64 // lowest first ID of a tag that is created
	polled   sent  // the last good poll
	doubts   int   // raised by whatever a poll has to follow before the next write
	stopped  *store.RegressionError
	proven   bool // what stopped it does not pass by itself
	rowsBack map[string]bool
	figures  store.Figures
}

// sent is the state in which something was sent.
type sent struct {
	at         time.Time
	reconnects uint64
	doubts     int
	seen       uint64
}

var _ store.Store = (*Store)(nil)

// Open opens the register, which has to exist. It fails with a [*store.RegressionError] if
// the register went back. Other errors: messages.ErrPrefix, jetstream.ErrBucketNotFound,
// durability.ErrUnsafe, [ErrReconnectBuffer]; anything else means that JetStream is away.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Prefix.Check(); err != nil {
		return nil, err
	}
	want, _, err := agreement.Lookup(ctx, cfg.JetStream, cfg.Prefix, ConfigKey)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, cfg)
	if errors.Is(err, jetstream.ErrBucketNotFound) && want != "" {
		return nil, &store.RegressionError{Bucket: BucketName(cfg.Prefix), Reason: "is missing"}
	}
	if err != nil {
		return nil, err
	}
	if w := cfg.Witness; w != nil {
		if err := w.Compare(ctx, cfg.JetStream, cfg.Prefix, cfg.Beside...); err != nil {
			return nil, err
		}
		s.evidence = w.evidence(s.bucket)
	}
	s.evidence.ID = want
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.JetStream.Conn().Opts.ReconnectBufSize > 0 {
		return nil, ErrReconnectBuffer
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	kv, _, err := resource.OpenBucket(ctx, cfg.JetStream, BucketName(cfg.Prefix))
	if err != nil {
		return nil, err
	}
	return newStore(cfg, bucketOf{cfg.JetStream, kv}), nil
}

func newStore(cfg Config, r remote) *Store {
	return &Store{
		cfg: cfg, bucket: BucketName(cfg.Prefix), remote: r, log: cfg.Log, polling: make(chan struct{}, 1),
		cache: make(map[string]record), first: 1, rowsBack: make(map[string]bool),
	}
}

// remote is the bucket, as a server has it.
type remote interface {
	// poll asks the leader of the stream how far it is.
	poll(ctx context.Context) (poll, error)

	// update writes an entry if its revision is still that, and returns the new one. After
	// jetstream.ErrKeyRevisionMismatch nothing was written; after other errors that is unknown.
	update(ctx context.Context, tag string, value []byte, revision uint64) (uint64, error)

	// read reads an entry from the leader.
	read(ctx context.Context, tag string) (record, error)

	// list reads all entries.
	list(ctx context.Context) (map[string]listed, error)

	// reconnects is how often the connection was made again.
	reconnects() uint64
}

// bucketOf is a [remote].
type bucketOf struct {
	js jetstream.JetStream
	kv jetstream.KeyValue
}

func (b bucketOf) poll(ctx context.Context) (poll, error) { return ask(ctx, b.js, b.kv.Bucket()) }

func (b bucketOf) update(ctx context.Context, tag string, value []byte, revision uint64) (uint64, error) {
	return b.kv.Update(ctx, tag, value, revision)
}

func (b bucketOf) read(ctx context.Context, tag string) (record, error) {
	m, err := leader.Last(ctx, b.js, resource.BucketStream(b.kv.Bucket()), "$KV."+b.kv.Bucket()+"."+tag)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return record{}, nil
	}
	if err != nil || m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != "" {
		return record{revision: m.Sequence}, err
	}
	e, err := decode(m.Data)
	return record{e, m.Sequence}, err
}

func (b bucketOf) reconnects() uint64 { return b.js.Conn().Stats().Reconnects }

// start takes the register for what it is now, if nothing contradicts.
func (s *Store) start(ctx context.Context) error {
	found, err := s.remote.poll(ctx)
	if err != nil {
		return err
	}
	decided := s.evidence.decided(found)
	if decided {
		s.evidence.Seen, s.evidence.Entries = 0, 0
	}
	if wrong := s.evidence.check(s.bucket, found, s.evidence.Seen); wrong != nil {
		return wrong
	}
	s.evidence.adopt(found)
	s.first = found.first
	if decided {
		return s.acceptWitness(ctx)
	}
	return s.note(ctx)
}

// Close notes what was seen. It is for when nothing reserves any more.
func (s *Store) Close() error {
	return s.note(context.Background())
}

// Figures implements [store.Loader].
func (s *Store) Figures() store.Figures {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.figures
}

// Stopped implements [store.Loader].
func (s *Store) Stopped() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped == nil {
		return nil // not a nil *store.RegressionError
	}
	return s.stopped
}

// Known implements [store.Loader].
func (s *Store) Known(tag string) bool { return s.cached(tag).exists() }

func (s *Store) cached(tag string) record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cache[tag]
}

// remember caches a record, unless a newer one is there.
func (s *Store) remember(tag string, r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evidence.Seen = max(s.evidence.Seen, r.revision)
	if r.exists() && r.revision > s.cache[tag].revision {
		s.cache[tag] = r
	}
}

// How often the register is polled, at least, and how old the poll may be behind which a
// range is granted: no restore of a stream is as short. A connection that is paused for
// longer has to begin again.
const (
	pollEvery  = time.Second
	pollAge    = 5 * time.Second
	askTimeout = 5 * time.Second

	// lookTwice is after how long a server that shows less is asked again: one that has just
	// become the leader of a replicated stream may not have applied all of it.
	lookTwice = 300 * time.Millisecond
)

// Run implements [store.Loader]: it polls the register once a second, so that little was
// written that this process has not seen when the register goes back, and has that noted.
func (s *Store) Run(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		err := s.poll(ctx, true)
		if err == nil {
			err = s.note(ctx)
		}
		wrong := errors.Is(err, store.ErrRegressed) || ctx.Err() != nil // which is logged
		switch {
		case err == nil || wrong || failing:
		case errors.Is(err, ErrWitness):
			s.log.Error("witness cannot be written", zap.Error(err))
		default:
			s.log.Warn("register cannot be polled", zap.Error(err))
		}
		failing = err != nil && !wrong
		pause.For(ctx, pollEvery)
	}
}

// note writes what was seen to the witness.
func (s *Store) note(ctx context.Context) error {
	if s.cfg.Witness == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all := make(map[string]evidence)
	for _, bucket := range s.cfg.Beside {
		found, err := ask(ctx, s.cfg.JetStream, bucket)
		if err != nil {
			return err
		}
		all[bucket] = evidence{Seen: max(found.last, s.cfg.Witness.evidence(bucket).Seen)}
	}
	s.mu.Lock()
	all[s.bucket] = s.evidence.clone()
	s.mu.Unlock()
	return s.cfg.Witness.note(all)
}

// permit returns the state in which a write may be sent: the last poll showed at least
// what had been seen when it was sent, and is young; and nothing has happened since that
// a poll has to follow.
func (s *Store) permit(ctx context.Context) (sent, error) {
	for {
		s.mu.Lock()
		now := sent{s.polled.at, s.remote.reconnects(), s.doubts, s.evidence.Seen}
		young := time.Since(s.polled.at) < pollEvery && s.polled.reconnects == now.reconnects && s.polled.doubts == now.doubts
		wrong := s.stopped
		proven := s.proven
		s.mu.Unlock()
		if wrong != nil && proven {
			return now, wrong
		}
		if young {
			return now, nil
		}
		if err := s.poll(ctx, false); err != nil {
			return now, err
		}
	}
}

// doubt has a poll precede the next write.
func (s *Store) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubts++
}

// poll asks the leader how far the register is. Unless it is forced, a caller makes do with
// a poll that was sent after it came.
func (s *Store) poll(ctx context.Context, force bool) error {
	came := time.Now()
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	select {
	case s.polling <- struct{}{}:
	case <-asking.Done():
		return asking.Err()
	}
	defer func() { <-s.polling }()
	s.mu.Lock()
	p := sent{time.Now(), s.remote.reconnects(), s.doubts, s.evidence.Seen}
	done := s.stopped == nil && s.polled.at.After(came) && s.polled.doubts == p.doubts
	s.mu.Unlock()
	if done && !force {
		return nil
	}
	found, err := s.remote.poll(asking)
	if err == nil && found.replicas > 1 && s.evidenceCheck(found, p) != nil {
		pause.For(asking, lookTwice)
		found, err = s.remote.poll(asking)
	}
	if err != nil {
		return err
	}
	return s.judge(ctx, found, p)
}

func (s *Store) evidenceCheck(found poll, p sent) *store.RegressionError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.evidence.check(s.bucket, found, p.seen)
}

// judge draws the conclusion from a poll. Nothing but a decision ends what is proven.
func (s *Store) judge(ctx context.Context, found poll, p sent) error {
	s.mu.Lock()
	wrong := s.evidence.check(s.bucket, found, p.seen)
	decided := s.evidence.decided(found) && !s.evidence.foreign(found)
	if s.proven && wrong == nil {
		wrong = s.stopped
	}
	s.mu.Unlock()
	switch {
	case decided && wrong != nil:
		return s.accept(ctx, found, p)
	case wrong != nil:
		return s.stop(wrong, !found.missing)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if decided {
		s.evidence.Decisions = append(s.evidence.Decisions, found.decision)
	}
	s.evidence.ID, s.evidence.Seen, s.evidence.Entries = found.id, max(s.evidence.Seen, found.last), found.entries
	s.first = found.first
	s.polled = p
	s.resume()
	return nil
}

// stop ends granting. It logs and counts once.
func (s *Store) stop(wrong *store.RegressionError, proven bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubts++
	if s.stopped == nil {
		s.figures.Regressions++
		s.log.Error("register went back, granting stopped", zap.Error(wrong))
	}
	if s.stopped == nil || !s.proven {
		s.stopped, s.proven = wrong, proven
	}
	return s.stopped
}

// resume goes on granting. The caller holds the lock.
func (s *Store) resume() {
	if s.stopped != nil {
		s.stopped, s.proven = nil, false
		s.log.Info("register is complete again, granting goes on")
	}
}

// accept goes on with a register that was decided upon, if it holds at least what this
// process has cached. Tags that it lacks come back at the lowest first ID of new ones,
// where no table says which tags there are.
func (s *Store) accept(ctx context.Context, found poll, p sent) error {
	entries, err := s.remote.list(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	cache := maps.Clone(s.cache)
	s.mu.Unlock()
	for tag, had := range cache {
		has, there := entries[tag]
		next := has.Next
		if !there || has.err != nil {
			next = found.first
		}
		if next < had.Next {
			s.mu.Lock()
			s.evidence.Decisions = append(s.evidence.Decisions, found.decision)
			s.proven = true
			s.stopped = &store.RegressionError{Bucket: s.bucket, Reason: fmt.Sprintf("was raised by too little: tag %s is at %d, and was granted up to %d", tag, next, had.Next)}
			err := s.stopped
			s.mu.Unlock()
			s.log.Error("register was raised by too little", zap.Error(err))
			return err
		}
	}
	s.mu.Lock()
	s.cache = make(map[string]record)
	s.evidence.adopt(found)
	s.first, s.polled = found.first, p
	s.polled.doubts = s.doubts
	s.resume()
	s.mu.Unlock()
	for tag, had := range cache {
		if _, there := entries[tag]; !there && s.cfg.Table == nil {
			had.Next = found.first
			_, err := s.remote.update(ctx, tag, had.encode(), 0)
			if err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
				return s.tagError(tag, err)
			}
		}
	}
	return s.acceptWitness(ctx)
}

func (s *Store) acceptWitness(ctx context.Context) error {
	if s.cfg.Witness == nil {
		return nil
	}
	return s.cfg.Witness.Accept(ctx, s.cfg.JetStream, s.cfg.Prefix, s.cfg.Beside...)
}

var (
	// errStale says that an entry has another revision, and nothing was written.
	errStale = errors.New("the entry has another revision")

	// errLate says that an answer came too long after the poll behind the write.
	errLate = errors.New("the answer to the write came too late")
)

// write replaces the entry of a tag, if its revision is still that of r, and caches it. The
// entry counts as written only if the error is nil. After errStale nothing was written;
// after any other error that is unknown.
func (s *Store) write(ctx context.Context, tag string, r record) error {
	p, err := s.permit(ctx)
	if err != nil {
		return err
	}
	revision, err := s.remote.update(ctx, tag, r.encode(), r.revision)
	switch {
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return errStale
	case err != nil:
		s.doubt()
		return err
	case revision <= p.seen:
		return s.stop(&store.RegressionError{Bucket: s.bucket, Seen: p.seen, Found: revision}, true)
	case time.Since(p.at) > pollAge || s.remote.reconnects() != p.reconnects:
		s.doubt()
		return errLate
	}
	r.revision = revision
	s.remember(tag, r)
	return nil
}

// read reads the entry of a tag from the leader. One below the cached entry of that tag
// proves that the register went back.
func (s *Store) read(ctx context.Context, tag string) (record, error) {
	had := s.cached(tag)
	r, err := s.remote.read(ctx, tag)
	if err == nil && r.Next < had.Next {
		pause.For(ctx, lookTwice)
		r, err = s.remote.read(ctx, tag)
	}
	switch {
	case err != nil:
		return r, err
	case r.exists() && r.Next < had.Next:
		return r, s.stop(&store.RegressionError{Bucket: s.bucket, Reason: fmt.Sprintf("has tag %s at %d, which was granted up to %d", tag, r.Next, had.Next)}, true)
	case !r.exists() && had.exists():
		return r, fmt.Errorf("%w: it was deleted by hand, and had been granted up to %d", store.ErrCorrupt, had.Next)
	}
	s.remember(tag, r)
	return r, nil
}

// find returns the cached record of a tag, or reads it.
func (s *Store) find(ctx context.Context, tag string) (record, error) {
	if r := s.cached(tag); r.exists() {
		return r, nil
	}
	return s.read(ctx, tag)
}

// tagError adds the bucket and the tag to err; nil stays nil.
func (s *Store) tagError(tag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bucket %s, tag %s: %w", s.bucket, tag, err)
}
