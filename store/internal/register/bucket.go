package register

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Bucket is a register in a KV bucket.
type Bucket struct {
	JS     jetstream.JetStream
	KV     jetstream.KeyValue
	Stream jetstream.Stream // the one beneath the bucket

	// Decode reads the value of an entry.
	Decode func(value []byte) (end, step int64, err error)

	// Deletable says that a deleted entry is one that somebody wanted to be gone.
	Deletable bool

	Echoes *Echoes // of the writes of this process
}

// Watch implements [store.Register]. Entries that cannot be read are left out: they are no
// evidence of anything.
func (b Bucket) Watch(ctx context.Context, see func(store.Mark), current func()) error {
	w, err := kvwatch.OpenLarge(ctx, b.JS.Conn(), b.KV)
	if err != nil {
		return err
	}
	defer w.Close()
	watching, stop := b.Echoes.listen(see)
	defer stop()
	for {
		entry, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if entry == nil {
			current()
			continue
		}
		deleted := entry.Operation() != jetstream.KeyValuePut
		if mark, err := b.mark(entry.Key(), entry.Value(), entry.Revision(), deleted); err == nil {
			b.Echoes.receive(watching, mark)
		}
	}
}

// Mark implements [store.Register].
func (b Bucket) Mark(ctx context.Context, tag string) (store.Mark, error) {
	entry, err := b.Read(ctx, tag)
	if err != nil {
		return store.Mark{}, err
	}
	return b.mark(tag, entry.Value, entry.Revision, entry.Value == nil)
}

func (b Bucket) mark(tag string, value []byte, revision uint64, gone bool) (store.Mark, error) {
	mark := store.Mark{Tag: tag, Revision: revision, Deleted: b.Deletable && gone && revision != 0}
	if err := messages.CheckTag(tag); err != nil || gone {
		return mark, err
	}
	var err error
	mark.End, mark.Step, err = b.Decode(value)
	return mark, err
}

// Entry is the latest entry of a key, with the value nil if there is none. Its revision is
// then that of the marker that says that it was deleted, or 0.
type Entry struct {
	Value    []byte
	Revision uint64
}

// Read reads the entry of a key from the leader of the stream, where it is written.
func (b Bucket) Read(ctx context.Context, key string) (Entry, error) {
	m, err := leader.Last(ctx, b.JS, resource.BucketStream(b.KV.Bucket()), "$KV."+b.KV.Bucket()+"."+key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Entry{}, nil
	}
	if err != nil {
		return Entry{}, err
	}
	if op := m.Header.Get("KV-Operation"); op == "DEL" || op == "PURGE" || m.Header.Get(jetstream.MarkerReasonHeader) != "" {
		return Entry{Revision: m.Sequence}, nil
	}
	return Entry{append([]byte{}, m.Data...), m.Sequence}, nil // not nil, even if empty
}

// Position implements [store.Register].
func (b Bucket) Position(ctx context.Context) (latest uint64, made time.Time, err error) {
	info, err := b.Stream.Info(ctx)
	if err != nil {
		return 0, time.Time{}, err
	}
	return info.State.LastSeq, info.Created, nil
}

// Write writes the entry of a key, if its revision is still the given one; 0 is that of a key
// that never was. It returns the new revision. After jetstream.ErrKeyRevisionMismatch nothing
// was written; after any other error that is not known.
func (b Bucket) Write(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	b.Echoes.begin(key)
	written, err := b.KV.Update(ctx, key, value, revision)
	var wrote store.Mark
	if err == nil {
		wrote, _ = b.mark(key, value, written, false) // it was encoded a moment ago
		wrote.Own, wrote.Answer = true, true
	}
	b.Echoes.end(key, wrote)
	return written, err
}
