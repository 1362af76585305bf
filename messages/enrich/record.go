package enrich

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// record is what the enrichers of one enrichment share. See the package comment.
type record struct {
	// When the streams were created. Streams of the same name that were created at other
	// times are other streams.
	Source time.Time `json:"source"`
	Target time.Time `json:"target"`

	// What decides which events are enriched and where they go. The same for all enrichers.
	Filter string `json:"filter"`
	To     string `json:"to"`

	Done  uint64 `json:"done"` // all events through this source sequence are in the target
	Last  uint64 `json:"last"` // the target's last sequence at that time
	Plan  *plan  `json:"plan,omitempty"`
	Owner string `json:"owner"` // the enricher whose turn it is; empty if it is nobody's
}

// errRecordMoved says that the record is not what it was when it was read: another enricher
// has changed it.
var errRecordMoved = errors.New("another enricher has taken over")

// recordEntry is the record as one enricher knows it, and the entry of the bucket in which
// it is kept.
type recordEntry struct {
	kv  jetstream.KeyValue
	key string

	record
	revision uint64    // of the entry; 0 if there is none yet
	written  time.Time // when this enricher last saved it
}

// load reads the record. It may be an old one: only [recordEntry.save] finds out.
func (r *recordEntry) load(ctx context.Context) error {
	r.record, r.revision = record{}, 0
	entry, err := r.kv.Get(ctx, r.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read key %s of bucket %s: %w", r.key, r.kv.Bucket(), err)
	}
	if err := json.Unmarshal(entry.Value(), &r.record); err != nil {
		return fmt.Errorf("key %s of bucket %s is not a record of an enrichment: %w", r.key, r.kv.Bucket(), err)
	}
	r.revision = entry.Revision()
	return nil
}

// save writes the record. If somebody else has written it since it was last read or saved,
// nothing is written, and the error is errRecordMoved.
func (r *recordEntry) save(ctx context.Context) error {
	value, err := json.Marshal(r.record)
	if err != nil {
		return err
	}
	var revision uint64
	if r.revision == 0 {
		revision, err = r.kv.Create(ctx, r.key, value)
	} else {
		revision, err = r.kv.Update(ctx, r.key, value, r.revision)
	}
	switch {
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return errRecordMoved
	case err != nil:
		return fmt.Errorf("write key %s of bucket %s: %w", r.key, r.kv.Bucket(), err)
	}
	r.revision, r.written = revision, time.Now()
	return nil
}

// loadRecord reads the record, within exchangeTimeout, and checks that it is about the same
// events as this enricher.
func (e *Enricher) loadRecord(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	if err := e.record.load(ctx); err != nil {
		return err
	}
	return e.checkSameEvents(e.record.record)
}

// saveRecord writes the record, within exchangeTimeout, even if ctx has ended.
func (e *Enricher) saveRecord(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exchangeTimeout)
	defer cancel()
	return e.record.save(ctx)
}
