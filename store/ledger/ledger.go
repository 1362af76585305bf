package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/register"
)

// Mode is what happens while JetStream cannot take a write to the ledger.
type Mode string

// The modes.
const (
	Require    Mode = "require"     // nothing is granted
	BestEffort Mode = "best-effort" // ranges are granted all the same
)

// Config says where the ledger is.
type Config struct {
	JetStream jetstream.JetStream
	Prefix    messages.Prefix
	Mode      Mode   // the default is Require
	StoreName string // for the log
	Server    string // where the store is, for the log of this loader and of others; no secret
	Log       *zap.Logger
}

// Store is a store with a ledger. What is not said here is that of the store within.
type Store struct {
	store.Store
	book  book
	bound *bound // the same book, for what a reservation does not need

	turns    turns
	mode     Mode
	away     away
	log      *zap.Logger
	figures  figures
	episodes register.Episodes

	mu    sync.Mutex
	known map[string]mark // the latest that this process knows
}

// mark is the entry of a tag: the end of everything that was granted, and the revision of the
// entry. Both are 0 if there is none.
type mark struct {
	high     int64
	revision uint64
}

// book is what a reservation needs of the ledger.
type book interface {
	// read returns the mark of a tag, as new as can be; one that is old does no harm.
	read(ctx context.Context, tag string) (mark, error)

	// write moves high to that value if the entry has that revision, and returns its new one.
	// After errStale nothing was written; after any other error that is not known.
	write(ctx context.Context, tag string, high int64, revision uint64) (uint64, error)

	// servers says where this loader's store is, and that of the loader which wrote the mark of
	// a tag last, as far as that is known. They inform people.
	servers(ctx context.Context, tag string) (own, last string)
}

var (
	_ store.Remembering = (*Store)(nil)
	_ store.Register    = (*Store)(nil)
)

// New puts a ledger in front of a store. Nothing is asked of JetStream yet.
func New(inner store.Store, cfg Config) *Store {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	b := &bound{js: cfg.JetStream, prefix: cfg.Prefix, server: cfg.Server}
	return newStore(inner, b, b, cfg)
}

func newStore(inner store.Store, b book, whole *bound, cfg Config) *Store {
	log := cfg.Log.With(zap.String("store", cfg.StoreName))
	return &Store{Store: inner, book: b, bound: whole, mode: cfg.Mode, away: away{log: log}, log: log, known: make(map[string]mark)}
}

// reserveAttempts bounds how often a range that lies below is burnt in one call. Of several
// loaders that race one wins each time, and the others pause for longer each time they lose.
const reserveAttempts = 256

// Reserve implements [store.Store], see the package's doc. The ranges that it burns are gaps.
func (s *Store) Reserve(ctx context.Context, tag string, step int64) (store.Segment, error) {
	done, err := s.turns.take(ctx, tag)
	if err != nil {
		return store.Segment{}, fmt.Errorf("ledger, tag %s: %w", tag, err)
	}
	defer done()
	for attempt := range reserveAttempts {
		before := s.latest(tag).high
		seg, err := s.Store.Reserve(ctx, tag, step)
		if err != nil {
			return store.Segment{}, err
		}
		if err = s.record(ctx, tag, seg, false); err == nil {
			s.figures.granted.Add(1)
			return seg, nil
		}
		s.figures.burnt.Add(1)
		if !errors.Is(err, errBelow) {
			return store.Segment{}, fmt.Errorf("ledger, tag %s: %w", tag, err)
		}
		if before > seg.First { // known before the store was asked, so this is no race
			if err := s.raiseStore(ctx, tag, seg, before); err != nil {
				return store.Segment{}, err
			}
			continue
		}
		if attempt > 0 {
			pause.For(ctx, backoff(attempt))
		}
	}
	return store.Segment{}, fmt.Errorf("ledger, tag %s: %w, %d times in a row", tag, errBelow, reserveAttempts)
}

// claim moves the mark of a tag to the end of seg. The range may be granted only if the error
// is nil; errBelow says that it lies below what was granted. Of a new tag nothing is read first:
// that there is no entry is the condition of the write.
func (s *Store) claim(ctx context.Context, tag string, seg store.Segment, isNew bool) error {
	m := s.latest(tag)
	if m.revision == 0 && !isNew {
		var err error
		if m, err = s.read(ctx, tag); err != nil {
			return err
		}
	}
	for attempt := 0; ; attempt++ {
		if m.high > seg.First {
			return errBelow
		}
		revision, err := s.book.write(ctx, tag, seg.End, m.revision)
		if err == nil {
			s.remember(tag, mark{seg.End, revision})
			return nil
		}
		if !errors.Is(err, errStale) {
			return err
		}
		pause.For(ctx, backoff(attempt))
		if m, err = s.read(ctx, tag); err != nil {
			return err
		}
	}
}

// read reads a mark and remembers it.
func (s *Store) read(ctx context.Context, tag string) (mark, error) {
	m, err := s.book.read(ctx, tag)
	if err == nil {
		s.remember(tag, m)
	}
	return m, err
}

// latest is the mark of a tag as this process knows it.
func (s *Store) latest(tag string) mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[tag]
}

func (s *Store) remember(tag string, m mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[tag] = m
}

// raiseStore raises a store that returned seg although everything below high was granted, as
// was known before it was asked: it has gone back.
func (s *Store) raiseStore(ctx context.Context, tag string, seg store.Segment, high int64) error {
	s.figures.wentBack.Add(1)
	if s.episodes.Begins(tag) {
		own, last := s.book.servers(ctx, tag)
		s.log.Error("the store went back: it returned IDs that were granted before; they are not granted again, and it is being raised",
			zap.String("tag", tag), zap.Stringer("returned", seg), zap.String("returned_by", own),
			zap.Int64("granted_below", high), zap.String("granted_from", last))
	}
	if err := s.Store.Raise(ctx, tag, high); err != nil {
		return fmt.Errorf("tag %s: the store returned %v, and all below %d was granted; raise it: %w", tag, seg, high, err)
	}
	s.figures.raised.Add(1)
	return nil
}
