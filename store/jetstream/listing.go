package jetstream

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/store"
)

// listing reads the bucket as a whole once, and from then on what has changed. Between two calls the
// changes wait in the server, where a later one of a tag replaces an earlier one.
type listing struct {
	store    *Store
	feed     *kvwatch.Feed // nil while it is not open
	at       kvwatch.Position
	counters map[string]listed

	skip    func(tag string) bool
	skipped map[uint64]struct{} // hashes of the names that are left out, so that they can be counted
	seed    maphash.Seed
}

// listed is what the bucket holds for a key.
type listed struct {
	counter
	deleted bool
	err     error // that it cannot be read
}

// OpenListing implements [store.Lister].
func (s *Store) OpenListing(skip func(tag string) bool) store.Listing {
	return &listing{store: s, skip: skip, seed: maphash.MakeSeed()}
}

// Close implements [store.Listing].
func (l *listing) Close() {
	if l.feed != nil {
		l.feed.Close()
		l.feed = nil
	}
}

// Tags implements [store.Listing].
func (l *listing) Tags(ctx context.Context) (tags []store.Tag, err error) {
	tags, _, err = l.list(ctx)
	return tags, err
}

// list lists the tags, and the removed ones. Errors as for Tags.
func (l *listing) list(ctx context.Context) (tags, removed []store.Tag, err error) {
	if err := l.read(ctx); err != nil {
		l.Close()
		return nil, nil, fmt.Errorf("bucket %s: list tags: %w", l.store.bucket, err)
	}
	tags = make([]store.Tag, 0, len(l.counters))
	var corrupt []error
	for key, c := range l.counters {
		switch {
		case c.deleted:
		case c.err != nil:
			corrupt = append(corrupt, &store.EntryError{Tag: key, Err: l.store.keyError(key, c.err)})
		case c.Removed:
			removed = append(removed, store.Tag{Name: key, Next: c.MaxID})
		default:
			tags = append(tags, store.Tag{Name: key, Step: c.Step, Next: c.MaxID})
		}
	}
	return tags, removed, errors.Join(corrupt...)
}

// Tests have others.
var (
	// maxLag is how long to wait for what the leader has and the replica that is
	// read from lacks, before the leader is asked whether it still has it.
	maxLag = 250 * time.Millisecond

	// maxChase is how long to wait for a replica that lags, and how long to run after
	// tags that are written again before their turn comes.
	maxChase = 5 * time.Second
)

// chaseLook is how long to read on before the tags are counted again.
const chaseLook = 250 * time.Millisecond

var (
	errChase = errors.New("tags are written faster than they can be listed")
	errLag   = errors.New("the replica that is read from lags behind its leader")
)

// read reads what there is that was not read before, up to what was written before the call.
func (l *listing) read(ctx context.Context) error {
	info, err := l.store.stream.Info(ctx) // only the leader answers
	if err != nil {
		return err
	}
	if l.feed == nil {
		if err := l.open(ctx); err != nil {
			return err
		}
	}
	if err := l.readWaiting(); err != nil {
		return err
	}
	for !l.feed.CaughtUp() {
		if err := l.readNext(ctx); err != nil {
			return err
		}
	}
	if err := l.catchUp(ctx, info.State.LastSeq); err != nil {
		return err
	}
	return l.chase(ctx)
}

// catchUp reads on until the replica has shown everything through a message. A
// message that was removed never comes: old delete markers are purged, and each
// write removes the one before it on its subject.
func (l *listing) catchUp(ctx context.Context, last uint64) error {
	for began := time.Now(); time.Since(began) < maxChase; {
		if done, err := l.readUntil(ctx, maxLag, func() bool { return l.at.Revision >= last }); done || err != nil {
			return err
		}
		_, err := leader.At(ctx, l.store.js, "KV_"+l.store.bucket, last)
		if err == nil {
			continue
		}
		if !errors.Is(err, natsjs.ErrMsgNotFound) {
			return err
		}
		info, err := l.store.stream.Info(ctx)
		if err != nil || info.State.LastSeq == last {
			return err
		}
		last = info.State.LastSeq
	}
	return errLag
}

// chase makes sure that no tag is left out that was written again before it was read, again and again:
// there are as many as the bucket has.
func (l *listing) chase(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < maxChase; {
		info, err := l.store.stream.Info(ctx)
		if err != nil {
			return err
		}
		all := func() bool { return uint64(len(l.counters)+len(l.skipped)) >= info.State.NumSubjects }
		if done, err := l.readUntil(ctx, chaseLook, all); done || err != nil {
			return err
		}
	}
	return errChase
}

// readUntil reads on until done, or for some time.
func (l *listing) readUntil(ctx context.Context, d time.Duration, done func() bool) (bool, error) {
	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for !done() {
		if err := l.readNext(short); short.Err() != nil {
			return false, ctx.Err()
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}

// open opens the feed, from where it ended if that is known.
func (l *listing) open(ctx context.Context) (err error) {
	l.feed, err = kvwatch.OpenFeed(ctx, l.store.js, l.store.bucket, l.at)
	if errors.Is(err, kvwatch.ErrOther) {
		l.at = kvwatch.Position{}
		l.feed, err = kvwatch.OpenFeed(ctx, l.store.js, l.store.bucket, l.at)
	}
	if err != nil {
		l.feed = nil
		return err
	}
	if l.at.Revision == 0 {
		l.counters, l.skipped = make(map[string]listed), make(map[uint64]struct{})
	}
	return nil
}

func (l *listing) readNext(ctx context.Context) error {
	entry, err := l.feed.Next(ctx)
	if err == nil {
		l.see(entry)
	}
	return err
}

func (l *listing) readWaiting() error {
	for {
		entry, ok, err := l.feed.NextWaiting()
		if !ok || err != nil {
			return err
		}
		l.see(entry)
	}
}

func (l *listing) see(entry kvwatch.Entry) {
	l.at = entry.Position
	if l.skip != nil && l.skip(entry.Key) {
		if _, listed := l.counters[entry.Key]; !listed {
			l.skipped[maphash.String(l.seed, entry.Key)] = struct{}{}
			return
		}
	}
	key := strings.Clone(entry.Key) // lets go of the whole subject
	if entry.Deleted {
		l.counters[key] = listed{deleted: true}
		return
	}
	c, err := decodeCounter(entry.Value)
	if err == nil && checkName(key) != nil {
		err = fmt.Errorf("%w: %w", store.ErrCorrupt, checkName(key))
	}
	l.counters[key] = listed{counter: c, err: err}
}
