package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/store"
)

// errWatchEnded: the connection was closed, or is being drained.
var errWatchEnded = errors.New("the list of keys broke off")

// Tags implements [store.Store]. All values come in one stream, without a request
// per tag: 100,000 tags take about a second.
//
// Entries that cannot be read do not hide the others: Tags then returns those that
// can be, and an error that wraps ErrCorrupt and names each of the rest.
func (s *Store) Tags(ctx context.Context) ([]store.Tag, error) {
	values, err := s.current(ctx)
	if err == nil {
		err = s.complete(ctx, values)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: list tags: %w", s.bucket, err)
	}
	tags := make([]store.Tag, 0, len(values))
	var corrupt []error
	for key, value := range values {
		if value == nil {
			continue
		}
		c, err := decode(value)
		if err == nil && checkName(key) != nil {
			err = fmt.Errorf("%w: %w", store.ErrCorrupt, checkName(key))
		}
		if err != nil {
			corrupt = append(corrupt, s.keyError(key, err))
			continue
		}
		tags = append(tags, store.Tag{Name: key, Step: c.Step, Next: c.MaxID})
	}
	return tags, errors.Join(corrupt...)
}

// listAttempts bounds current. A replica lags by milliseconds; if the newest
// message was removed, as purging old delete markers does, waiting is in vain.
const listAttempts = 4

// current reads values until they are as new as the call: the watcher's messages
// may come from a replica that lags behind what the leader has acknowledged.
func (s *Store) current(ctx context.Context) (map[string][]byte, error) {
	info, err := s.stream.Info(ctx) // only the leader answers
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		values, newest, err := s.values(ctx)
		if err != nil || newest >= info.State.LastSeq || attempt == listAttempts {
			return values, err
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

// values reads the value of every key, nil for one that was deleted, and returns
// the newest revision among them too. While others write it may miss a key, see
// complete.
func (s *Store) values(ctx context.Context) (values map[string][]byte, newest uint64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	watcher, err := s.kv.WatchAll(ctx)
	if err != nil {
		cancel()
		return nil, 0, err
	}
	defer func() {
		// Cancelling is what stops a watcher without waiting for a server that may
		// be away. It may be stuck handing over an entry: take what it still has,
		// up to the end.
		cancel()
		for range watcher.Updates() {
		}
	}()

	values = make(map[string][]byte)
	for {
		select {
		case entry, open := <-watcher.Updates():
			switch {
			case !open && ctx.Err() != nil:
				return nil, 0, ctx.Err()
			case !open: // not to be mistaken for the nil that ends a whole list
				return nil, 0, errWatchEnded
			case entry == nil:
				return values, newest, nil
			case entry.Operation() == natsjs.KeyValuePut:
				values[entry.Key()] = append([]byte{}, entry.Value()...) // not nil, even if empty
				newest = entry.Revision()
			default:
				values[entry.Key()] = nil
				newest = entry.Revision()
			}
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// complete adds the keys that values missed. A watcher counts messages until it has
// seen as many as there were keys; a key that is written twice meanwhile counts
// twice, and another, rewritten before its turn came, is left out.
func (s *Store) complete(ctx context.Context, values map[string][]byte) error {
	info, err := s.stream.Info(ctx)
	if err != nil {
		return err
	}
	if uint64(len(values)) >= info.State.NumSubjects {
		return nil
	}
	prefix := "$KV." + s.bucket + "."
	info, err = s.stream.Info(ctx, natsjs.WithSubjectFilter(prefix+">"))
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		key := strings.TrimPrefix(subject, prefix)
		if _, known := values[key]; known {
			continue
		}
		found, err := s.readLeader(ctx, key)
		switch {
		case errors.Is(err, natsjs.ErrKeyNotFound) || err == nil && found.deleted:
		case err != nil:
			return s.keyError(key, err)
		default:
			values[key] = append([]byte{}, found.value...)
		}
	}
	return nil
}
