package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/store"
)

// Tags implements [store.Store]. All values arrive in one stream, without a request per
// tag: 100,000 tags take about a second.
//
// Entries that cannot be read do not hide the others: Tags then returns the tags that
// can be read, and an error that wraps ErrCorrupt and names each of the rest.
func (s *Store) Tags(ctx context.Context) ([]store.Tag, error) {
	tags, _, err := s.list(ctx)
	return tags, err
}

// Removed implements [store.Remembering]: the tombstones. What cannot be read is an error of Tags.
func (s *Store) Removed(ctx context.Context) ([]store.Tag, error) {
	_, removed, err := s.list(ctx)
	if errors.Is(err, store.ErrCorrupt) {
		err = nil
	}
	return removed, err
}

// list lists the tags, and the removed ones. Errors as for Tags.
func (s *Store) list(ctx context.Context) (tags, removed []store.Tag, err error) {
	values, err := s.readFreshValues(ctx)
	if err == nil {
		err = s.addMissedValues(ctx, values)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("bucket %s: list tags: %w", s.bucket, err)
	}
	tags = make([]store.Tag, 0, len(values))
	var corrupt []error
	for key, value := range values {
		if value == nil {
			continue
		}
		c, err := decodeCounter(value)
		if err == nil && checkName(key) != nil {
			err = fmt.Errorf("%w: %w", store.ErrCorrupt, checkName(key))
		}
		if err != nil {
			corrupt = append(corrupt, &store.EntryError{Tag: key, Err: s.keyError(key, err)})
			continue
		}
		if c.Removed {
			removed = append(removed, store.Tag{Name: key, Next: c.MaxID})
			continue
		}
		tags = append(tags, store.Tag{Name: key, Step: c.Step, Next: c.MaxID})
	}
	return tags, removed, errors.Join(corrupt...)
}

// listAttempts bounds readFreshValues. A replica lags by milliseconds; if the newest
// message was removed, as happens when old delete markers are purged, no waiting helps.
const listAttempts = 4

// readFreshValues reads the values again until they are at least as new as the call: the
// watcher's messages may come from a replica that lags behind what the leader has
// acknowledged.
func (s *Store) readFreshValues(ctx context.Context) (map[string][]byte, error) {
	info, err := s.stream.Info(ctx) // only the leader answers
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		values, newest, err := s.readValues(ctx)
		if err != nil || newest >= info.State.LastSeq || attempt == listAttempts {
			return values, err
		}
		if err := backOff(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

// readValues reads the value of every key, nil for one that was deleted, and the newest
// revision among them. While others write it may miss a key, see addMissedValues.
func (s *Store) readValues(ctx context.Context) (values map[string][]byte, newest uint64, err error) {
	w, err := kvwatch.Open(ctx, s.kv)
	if err != nil {
		return nil, 0, err
	}
	defer w.Close()
	values = make(map[string][]byte)
	for {
		entry, err := w.Next(ctx)
		switch {
		case err != nil:
			return nil, 0, err
		case entry == nil:
			return values, newest, nil
		case entry.Operation() == natsjs.KeyValuePut:
			values[entry.Key()] = append([]byte{}, entry.Value()...) // not nil, even if empty
		default:
			values[entry.Key()] = nil
		}
		newest = entry.Revision()
	}
}

// addMissedValues adds the keys that readValues missed. A watcher counts messages until
// it has seen as many as there were keys. A key that is written twice in the meantime
// counts twice, and another one, rewritten before its turn came, is left out.
func (s *Store) addMissedValues(ctx context.Context, values map[string][]byte) error {
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
