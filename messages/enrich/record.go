package enrich

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
)

// settings are what decides which events are enriched, and how. They are the same for all
// enrichers of a target.
type settings struct {
	Installation string `json:"installation,omitempty"` // empty if it is not known
	From         string `json:"from"`
	Filter       string `json:"filter"`
	To           string `json:"to"`
	ID           string `json:"id"`
	JSON         string `json:"json,omitempty"`
	JSONNumber   bool   `json:"json_number,omitempty"`
}

// record is what the enrichers of one target share. See the package comment.
type record struct {
	settings

	Done uint64    `json:"done"` // all events through this one of the source are in the target
	Time time.Time `json:"time"` // when the source stored that event; zero if it is none that was enriched
	Last uint64    `json:"last"` // the target's last sequence at that time

	Plans []plan `json:"plans,omitempty"` // of what follows Last: at most two
	Doubt bool   `json:"doubt,omitempty"` // a plan was given up: positions prove nothing, only headers do

	Owner string `json:"owner"` // the enricher whose turn it is; empty if it is nobody's
}

// planned returns the source sequences of the plans, in the order of the target.
func (r *record) planned() (seqs []uint64) {
	for _, p := range r.Plans {
		seqs = append(seqs, p.sequences()...)
	}
	return seqs
}

// advance moves the record to the source event done and the target's sequence last.
func (r *record) advance(done uint64, at time.Time, last uint64) {
	if done > r.Done {
		r.Done, r.Time = done, at
	}
	r.Last = last
	for len(r.Plans) > 0 {
		p := &r.Plans[0]
		if p.dropThrough(r.Done); len(p.Runs) > 0 {
			return
		}
		if p.Through >= r.Done {
			r.Done, r.Time = p.Through, p.Time
		}
		r.Plans = r.Plans[1:]
	}
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

// openRecord opens the bucket of records, and creates it if it is missing.
func openRecord(ctx context.Context, cfg Config, target string) (recordEntry, error) {
	if err := resource.Ensure(ctx, cfg.JetStream, Bucket(cfg.Prefix, cfg.Replicas)); err != nil {
		return recordEntry{}, err
	}
	kv, _, err := resource.OpenBucket(ctx, cfg.JetStream, BucketName(cfg.Prefix))
	return recordEntry{kv: kv, key: recordKey(target)}, err
}

// readEntry reads an entry of the bucket. The revision is 0 if there is none.
func readEntry(ctx context.Context, kv jetstream.KeyValue, key string, into any) (revision uint64, err error) {
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read key %s of bucket %s: %w", key, kv.Bucket(), err)
	}
	if err := json.Unmarshal(entry.Value(), into); err != nil {
		return 0, fmt.Errorf("key %s of bucket %s is not a record of an enrichment: %w", key, kv.Bucket(), err)
	}
	return entry.Revision(), nil
}

// writeEntry writes an entry of the bucket if it still has that revision. Otherwise the error is
// errRecordMoved.
func writeEntry(ctx context.Context, kv jetstream.KeyValue, key string, v any, revision uint64) (uint64, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	if revision == 0 {
		revision, err = kv.Create(ctx, key, value)
	} else {
		revision, err = kv.Update(ctx, key, value, revision)
	}
	switch {
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return 0, errRecordMoved
	case err != nil:
		return 0, fmt.Errorf("write key %s of bucket %s: %w", key, kv.Bucket(), err)
	}
	return revision, nil
}

// recordKey is the key of a target's record. Bytes that keys must not have become =XX.
func recordKey(target string) string {
	var key strings.Builder
	for _, c := range []byte(target) {
		if strings.IndexByte(pathBytes, c) >= 0 {
			key.WriteByte(c)
		} else {
			fmt.Fprintf(&key, "=%02X", c)
		}
	}
	return key.String()
}

// settings are those of the configuration.
func (c Config) settings() settings {
	return settings{c.Installation, c.From, c.Filter, c.To, c.ID, c.JSON, c.JSONNumber}
}

// checkSettings refuses a record of enrichers with other settings: an enricher that takes
// other events would pass over the rest for good, and one that takes IDs elsewhere would
// give some twice.
func (e *Enricher) checkSettings() error {
	have, want := e.record.settings, e.cfg.settings()
	if have.Installation == "" || want.Installation == "" {
		have.Installation, want.Installation = "", ""
	}
	if e.record.revision == 0 || have == want {
		return nil
	}
	return e.undecided("stream %s is the target of an enrichment with the settings %+v, not %+v; use another target, or resume with the new settings",
		e.targetName(), have, want)
}

// readRecord reads the record. It may be an old one: only saveRecord finds out.
func (e *Enricher) readRecord(ctx context.Context) (err error) {
	e.record.record = record{}
	e.record.revision, err = readEntry(ctx, e.record.kv, e.record.key, &e.record.record)
	return err
}

// loadRecord reads the record, within exchangeTimeout, and checks that it is one of the same
// settings.
func (e *Enricher) loadRecord(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	err := e.readRecord(ctx)
	if err == nil && e.record.revision == 0 {
		err = e.adoptOldRecord(ctx)
	}
	if err != nil {
		return err
	}
	e.figures.done.Store(e.record.Done)
	return e.checkSettings()
}

// saveRecord writes the record, within exchangeTimeout, even if ctx has ended. If somebody else
// has written it since it was last read or saved, nothing is written.
func (e *Enricher) saveRecord(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exchangeTimeout)
	defer cancel()
	r := &e.record
	revision, err := writeEntry(ctx, r.kv, r.key, r.record, r.revision)
	if err == nil {
		r.revision, r.written = revision, time.Now()
	}
	return err
}

// oldRecord is a record of versions that named it by source and target, and that knew the
// streams by the time of their creation.
type oldRecord struct {
	Source time.Time `json:"source"`
	Target time.Time `json:"target"`
	Filter string    `json:"filter"`
	To     string    `json:"to"`
	Done   uint64    `json:"done"`
	Last   uint64    `json:"last"`
	Plan   *plan     `json:"plan,omitempty"`

	// Was is Filter once the record is taken over. Filter is then one that no enricher has,
	// so that those of older versions stand still.
	Was string `json:"was,omitempty"`
}

// adoptOldRecord makes the record out of one that an older version left, if there is one.
// First that one is changed, so that no enricher of that version goes on with it.
func (e *Enricher) adoptOldRecord(ctx context.Context) error {
	var old oldRecord
	key := enrichmentName(e.cfg.From, e.targetName())
	if recordKey(e.cfg.From) != e.cfg.From || recordKey(e.targetName()) != e.targetName() {
		return nil // not a key: that version did not start
	}
	revision, err := readEntry(ctx, e.record.kv, key, &old)
	if err != nil || revision == 0 {
		return err
	}
	if old.Was == "" {
		old.Was, old.Filter = old.Filter, "(the record has moved to key "+e.record.key+")"
		if _, err := writeEntry(ctx, e.record.kv, key, old, revision); err != nil {
			return err
		}
	}
	at, err := e.provesOldRecord(ctx, old)
	if err != nil {
		return err
	}
	e.record.record = record{settings: e.cfg.settings(), Done: old.Done, Time: at, Last: old.Last}
	if old.Plan != nil {
		e.record.Plans = []plan{*old.Plan}
	}
	e.log.Info("took over the record of an older version")
	return e.saveRecord(ctx)
}

// provesOldRecord checks that an old record is about these streams and settings, and returns
// when the event that it names was stored.
func (e *Enricher) provesOldRecord(ctx context.Context, old oldRecord) (time.Time, error) {
	source, err := e.source.Info(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("source stream: %w", err)
	}
	target, err := e.target.Info(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("target stream: %w", err)
	}
	if old.Was != e.cfg.Filter || old.To != e.cfg.To || !old.Source.Equal(source.Created) || !old.Target.Equal(target.Created) {
		return time.Time{}, e.undecided("the record of an older version is about another stream, filter or target: it takes %q to %q", old.Was, old.To)
	}
	return e.sourceTime(ctx, old.Done)
}

// BucketName is the name of the bucket that says how far each enrichment is.
func BucketName(p messages.Prefix) string { return string(p) + "_enrich" }

// enrichmentName is the name of an enrichment, by its streams.
func enrichmentName(source, target string) string { return source + "." + target }

// turnSubject is the subject on which enrichers of one enrichment ask for the next turn.
func turnSubject(p messages.Prefix, enrichment string) string {
	return string(p) + ".enrich." + enrichment
}
