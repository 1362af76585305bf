package enrich

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// record is what enrichers of one enrichment share. See the package comment.
type record struct {
	// When the streams were made. Other ones of the same name are other streams.
	Source time.Time `json:"source"`
	Target time.Time `json:"target"`

	// What decides which events are enriched, and where they go: the same for all.
	Filter string `json:"filter"`
	To     string `json:"to"`

	Done  uint64 `json:"done"` // source sequence through which all is in the target
	Last  uint64 `json:"last"` // the target's last sequence then
	Plan  *plan  `json:"plan,omitempty"`
	Owner string `json:"owner"` // whose turn it is; nobody's if empty
}

// errLost says that the record is not as it was read: somebody else moved it.
var errLost = errors.New("another enricher has taken over")

// book is the record as one enricher knows it.
type book struct {
	kv  jetstream.KeyValue
	key string

	record
	revision uint64    // of the record; 0 if there is none yet
	written  time.Time // when this enricher last saved it
}

// load reads the record. What was read may be old: only [book.save] finds out.
func (b *book) load(ctx context.Context) error {
	b.record, b.revision = record{}, 0
	entry, err := b.kv.Get(ctx, b.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read key %s of bucket %s: %w", b.key, b.kv.Bucket(), err)
	}
	if err := json.Unmarshal(entry.Value(), &b.record); err != nil {
		return fmt.Errorf("key %s of bucket %s is no record of an enrichment: %w", b.key, b.kv.Bucket(), err)
	}
	b.revision = entry.Revision()
	return nil
}

// save writes the record, unless it was moved since it was read or saved.
func (b *book) save(ctx context.Context) error {
	value, err := json.Marshal(b.record)
	if err != nil {
		return err
	}
	var revision uint64
	if b.revision == 0 {
		revision, err = b.kv.Create(ctx, b.key, value)
	} else {
		revision, err = b.kv.Update(ctx, b.key, value, b.revision)
	}
	switch {
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return errLost
	case err != nil:
		return fmt.Errorf("write key %s of bucket %s: %w", b.key, b.kv.Bucket(), err)
	}
	b.revision, b.written = revision, time.Now()
	return nil
}
