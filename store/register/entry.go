package register

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register/internal/guard"
)

// entry is the value of a key: the granted IDs of a tag.
type entry struct {
	Next int64 `json:"next"` // first ID that was not granted, at least 1

	// Step is the configured step, or 0 for the tags of a table, whose rows
	// have steps.
	Step int64 `json:"step,omitempty"`

	// Order is "" for store.Trend. It never changes.
	Order store.Order `json:"order,omitempty"`

	// Removed entries keep Next and Order for a tag that is created again. In
	// front of a table the mark means that no row is expected; if there is a
	// row, the tag exists.
	Removed bool `json:"removed,omitempty"`
}

// order returns the order of the tag.
func (e entry) order() store.Order { return cmp.Or(e.Order, store.Trend) }

// stored returns an order in the form of entries.
func stored(o store.Order) store.Order {
	if o == store.Trend {
		return ""
	}
	return o
}

func (e entry) encode() []byte {
	data, err := json.Marshal(e)
	if err != nil { // numbers and a bool always marshal
		panic(err)
	}
	return data
}

// decode reads an entry. Anything else is ErrCorrupt, unknown fields included:
// a guess could grant IDs a second time.
func decode(value []byte) (e entry, err error) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return entry{}, fmt.Errorf("%w: %.100q: %w", store.ErrCorrupt, value, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return entry{}, fmt.Errorf("%w: %.100q: more than one value", store.ErrCorrupt, value)
	}
	if e.Next < 1 || e.Step < 0 || e.Order.Check() != nil {
		return entry{}, fmt.Errorf("%w: %.100q: next must be 1 or more, step 0 or more, order %s or %s", store.ErrCorrupt, value, store.Trend, store.Strict)
	}
	e.Order = stored(e.Order)
	return e, nil
}

// storedEntry is an entry with its revision. Revision 0 means that the key
// never existed; a revision without an entry is the marker of a key that was
// deleted by hand.
type storedEntry struct {
	entry
	revision uint64
}

// exists reports whether there is an entry.
func (r storedEntry) exists() bool { return r.Next > 0 }

// deleted reports whether the entry was deleted by hand.
func (r storedEntry) deleted() bool { return !r.exists() && r.revision > 0 }

// listed is an entry in a list, or the reason why it is unreadable.
type listed struct {
	storedEntry
	err error
}

// remote is the bucket on a server.
type remote interface {
	// poll reads the state of the stream from its leader.
	poll(ctx context.Context) (guard.Poll, error)

	// update writes an entry if its revision is unchanged, and returns the new
	// revision. After jetstream.ErrKeyRevisionMismatch nothing was written;
	// after other errors the outcome is unknown.
	update(ctx context.Context, tag string, value []byte, revision uint64) (uint64, error)

	// read reads an entry from the leader.
	read(ctx context.Context, tag string) (storedEntry, error)

	// updateMany is update for up to [kv.MaxBatch] entries of different tags.
	updateMany(ctx context.Context, changes []kv.Write) []kv.Written

	// each passes all entries to visit, and when each was written, until visit
	// returns false. The name may be a part of a longer string. An entry that is
	// written during that may be passed twice, the later one last.
	each(ctx context.Context, visit func(tag string, e listed, written time.Time) bool) error

	// proof returns the proof that another loader has left, or nil. leave leaves
	// some.
	proof(ctx context.Context) (*guard.Proof, error)
	leave(ctx context.Context, p leftProof) error

	// reconnects returns the number of reconnects.
	reconnects() uint64
}

// bucketOf implements [remote].
type bucketOf struct {
	js     jetstream.JetStream
	prefix messages.Prefix
	*kv.Bucket
	lists kv.Way
}

func (b bucketOf) poll(ctx context.Context) (guard.Poll, error) {
	return pollLeader(ctx, b.js, b.Name())
}

func (b bucketOf) update(ctx context.Context, tag string, value []byte, revision uint64) (uint64, error) {
	revision, err := b.Update(ctx, tag, value, revision)
	return revision, errors.Unwrap(err) // tagError adds the bucket
}

func (b bucketOf) updateMany(ctx context.Context, changes []kv.Write) []kv.Written {
	written := b.UpdateMany(ctx, changes)
	for i, w := range written {
		written[i].Err = errors.Unwrap(w.Err) // tagError adds the bucket
	}
	return written
}

func (b bucketOf) read(ctx context.Context, tag string) (storedEntry, error) {
	e, err := b.Get(ctx, tag)
	if err != nil || !e.Exists() {
		return storedEntry{revision: e.Revision}, errors.Unwrap(err) // tagError adds the bucket
	}
	decoded, err := decode(e.Value)
	return storedEntry{decoded, e.Revision}, err
}

func (b bucketOf) reconnects() uint64 { return b.js.Conn().Stats().Reconnects }

// each reads all entries, see [kv.ListAll].
func (b bucketOf) each(ctx context.Context, visit func(tag string, e listed, written time.Time) bool) error {
	err := kv.ListAll(ctx, b.js, b.Name(), b.lists, func(e kv.Entry) bool { return visit(e.Key, decodeListed(e), e.Created) })
	if err != nil {
		err = fmt.Errorf("bucket %s: list: %w", b.Name(), err)
	}
	return err
}

// list reads all entries.
func (s *Register) list(ctx context.Context) (map[string]listed, error) {
	entries := make(map[string]listed)
	err := s.remote.each(ctx, func(tag string, e listed, _ time.Time) bool {
		entries[strings.Clone(tag)] = e
		return true
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

func decodeListed(e kv.Entry) listed {
	if e.Deleted {
		return listed{storedEntry: storedEntry{revision: e.Revision}}
	}
	decoded, err := decode(e.Value)
	if bad := checkName(e.Key); bad != nil {
		err = fmt.Errorf("%w: %w", store.ErrCorrupt, bad)
	}
	return listed{storedEntry{decoded, e.Revision}, err}
}
