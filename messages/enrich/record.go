package enrich

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
)

// settings select the events to enrich, and their IDs. They are the same for
// all enrichers of a target.
type settings struct {
	Installation string   `json:"installation,omitempty"` // empty if unknown
	From         string   `json:"from"`
	Filter       string   `json:"filter"`
	To           string   `json:"to"`
	ID           string   `json:"id"`
	JSON         string   `json:"json,omitempty"`
	JSONNumber   bool     `json:"json_number,omitempty"`
	Existing     Existing `json:"existing"`
	DeadLetter   string   `json:"dead_letter,omitempty"` // empty if none was ever set
}

// adopt sets what is still unknown, from later settings.
func (s *settings) adopt(now settings) {
	s.Installation = cmp.Or(s.Installation, now.Installation)
	s.DeadLetter = cmp.Or(s.DeadLetter, now.DeadLetter)
}

// changes describes the differences of later settings for people.
func (s settings) changes(now settings) string {
	var all []string
	for _, f := range []struct{ what, was, is string }{
		{"installation", s.Installation, now.Installation},
		{"from", s.From, now.From},
		{"filter", s.Filter, now.Filter},
		{"to", s.To, now.To},
		{"id", s.ID, now.ID},
		{"json", s.JSON, now.JSON},
		{"json-number", strconv.FormatBool(s.JSONNumber), strconv.FormatBool(now.JSONNumber)},
		{"existing", string(s.Existing), string(now.Existing)},
		{"dead-letter", s.DeadLetter, now.DeadLetter},
	} {
		if f.was != f.is {
			all = append(all, fmt.Sprintf("%s was %s, now %s", f.what, cmp.Or(f.was, "not set"), cmp.Or(f.is, "not set")))
		}
	}
	return strings.Join(all, "; ")
}

// enrichmentRecord is shared by the enrichers of a target. See the package
// comment.
type enrichmentRecord struct {
	settings
	// Names all messages published under this record: target and a random part.
	Chain string `json:"chain"`

	// All events through this event of the source are in the target.
	Done uint64 `json:"done"`
	// When the source stored that event, or a time that fits if it is gone; zero
	// if the source never had an event.
	Time time.Time `json:"time"`
	Last uint64    `json:"last"` // the target's last sequence at that time

	// When the streams were created: a stream of the same name that was created
	// later is another.
	SourceCreated time.Time `json:"source_created"`
	TargetCreated time.Time `json:"target_created"`

	// AtLast is the event whose message has the sequence Last; 0 for another
	// publisher's message.
	AtLast uint64 `json:"at_last,omitempty"`

	Plans []plan `json:"plans,omitempty"` // of the messages after Last: at most two
	// A plan was given up: positions prove nothing, only headers do.
	Doubt bool `json:"doubt,omitempty"`

	Owner string `json:"owner"` // the enricher whose turn it is; empty if none

	// Why the last enricher whose turn it was has stopped; empty if it works.
	Failing string `json:"failing,omitempty"`
}

// planned returns the source sequences of the plans, in the order of the
// target.
func (r *enrichmentRecord) planned() (seqs []uint64) {
	for _, p := range r.Plans {
		seqs = append(seqs, p.sequences()...)
	}
	return seqs
}

// advance moves the record to the source event done and the target's sequence
// last.
func (r *enrichmentRecord) advance(done uint64, at time.Time, last uint64) {
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

// plan names the events that follow in the target, and so the sequence of each
// there. It is saved before any of them is published. It has no IDs: each try
// publishes new IDs, and the target accepts a single try.
type plan struct {
	// The source is done through this event once all of Runs are in the target.
	Through uint64    `json:"through"`
	Time    time.Time `json:"time"` // when the source stored that event
	Runs    []run     `json:"runs"` // ascending
}

// run is N events with consecutive source sequences.
type run struct {
	Seq uint64 `json:"seq"`
	N   uint64 `json:"n"`
}

// add appends an event, whose sequence must be above the earlier events.
func (p *plan) add(seq uint64) {
	if n := len(p.Runs); n > 0 && p.Runs[n-1].Seq+p.Runs[n-1].N == seq {
		p.Runs[n-1].N++
		return
	}
	p.Runs = append(p.Runs, run{seq, 1})
}

// sequences lists the source sequences of the events.
func (p *plan) sequences() (seqs []uint64) {
	for _, r := range p.Runs {
		for i := range r.N {
			seqs = append(seqs, r.Seq+i)
		}
	}
	return seqs
}

// last returns the source sequence of the last event of a plan that has any.
func (p *plan) last() uint64 {
	r := p.Runs[len(p.Runs)-1]
	return r.Seq + r.N - 1
}

// dropThrough removes the events through a source sequence from the plan.
func (p *plan) dropThrough(seq uint64) {
	left := plan{}
	for _, s := range p.sequences() {
		if s > seq {
			left.add(s)
		}
	}
	p.Runs = left.Runs
}

func (p *plan) hasSameEvents(other plan) bool { return slices.Equal(p.Runs, other.Runs) }

// errRecordMoved means that another enricher has changed the record since it
// was read.
var errRecordMoved = errors.New("another enricher has taken over")

// BucketName is the name of the bucket of the records.
func BucketName(p messages.Prefix) string { return string(p) + "_enrich" }

// Bucket is the bucket of records, with 1 to 5 replicas, an odd number.
func Bucket(prefix messages.Prefix, replicas int) kv.Resource {
	return kv.LastingBucket(kv.Lasting{
		Bucket: BucketName(prefix), Description: "idworker: how far each enrichment is", Replicas: replicas,
	})
}

// recordEntry is an enricher's copy of the record, and its entry in the bucket.
type recordEntry struct {
	bucket *kv.Bucket
	key    string

	enrichmentRecord
	// Revision of the entry, or of its deletion marker; 0 if there was none yet.
	revision uint64
}

// exists reports whether there is a readable record.
func (r *recordEntry) exists() bool { return r.Chain != "" }

// errUnreadable reports an entry of the bucket that is no record.
var errUnreadable = errors.New("is not an enrichment record")

// decodeRecord reads the value of an entry.
func decodeRecord(bucket string, e kv.Entry) (r enrichmentRecord, err error) {
	if err = json.Unmarshal(e.Value, &r); err == nil && r.Chain == "" {
		err = errors.New("no chain")
	}
	if err != nil {
		return enrichmentRecord{}, fmt.Errorf("key %s of bucket %s %w: %w", e.Key, bucket, errUnreadable, err)
	}
	return r, nil
}

// recordKey returns the key of a target's record. Bytes that keys must not have
// become =XX.
func recordKey(target string) string {
	return strings.NewReplacer("%", "=", "+", "=20", "~", "=7E").Replace(url.QueryEscape(target))
}

// settings returns the settings of the configuration.
func (c Config) settings() settings {
	return settings{c.Installation, c.From, c.Filter, c.To, c.ID, c.JSON, c.JSONNumber, c.Existing, c.DeadLetter}
}

// checkSettings refuses a record of enrichers with other settings. An enricher
// of other events would skip the rest for good, one with IDs of another
// installation would issue some twice, and one with other dead letters would
// leave some where no one looks for them.
func (e *Enricher) checkSettings() error {
	have, want := e.record.settings, e.cfg.settings()
	have.adopt(want)
	want.Installation = cmp.Or(want.Installation, have.Installation)
	if !e.record.exists() || have == want {
		return nil
	}
	return e.undecided("stream %s is the target of an enrichment with other settings: %s; resume with the new settings",
		e.targetName(), have.changes(want))
}

// readRecord reads the record. Another enricher may change it right after; only
// saveRecord detects that. There is none if the entry was deleted, or if the
// error is errUnreadable.
func (e *Enricher) readRecord(ctx context.Context) error {
	r := &e.record
	r.enrichmentRecord, r.revision = enrichmentRecord{}, 0
	entry, err := r.bucket.Get(ctx, r.key)
	if err != nil {
		return err
	}
	if r.revision = entry.Revision; entry.Exists() {
		r.enrichmentRecord, err = decodeRecord(r.bucket.Name(), entry)
	}
	return err
}

// loadRecord reads the record, within exchangeTimeout, and checks its settings.
func (e *Enricher) loadRecord(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.timers.exchangeTimeout)
	defer cancel()
	if err := e.readRecord(ctx); err != nil {
		return err
	}
	e.figures.update(func() { e.figures.done = e.record.Done })
	return e.checkSettings()
}

// saveRecord writes the record, within exchangeTimeout, even if ctx has ended.
// If another enricher has written it since it was last read or saved, nothing
// is written, and the error is errRecordMoved.
func (e *Enricher) saveRecord(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.timers.exchangeTimeout)
	defer cancel()
	r := &e.record
	r.Failing = e.figures.failure()
	value, err := json.Marshal(r.enrichmentRecord)
	if err != nil {
		return err
	}
	revision, err := r.bucket.Update(ctx, r.key, value, r.revision)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return errRecordMoved
	}
	if err == nil {
		r.revision = revision
	}
	return err
}

// enrichmentName returns the name of an enrichment, by its streams.
func enrichmentName(source, target string) string { return source + "." + target }

// turnSubject returns the subject on which enrichers request the next turn.
func turnSubject(p messages.Prefix, enrichment string) string {
	return string(p) + ".enrich." + enrichment
}
