package enrich

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

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
}

// block is what stands at the key of an old record. Enrichers of those versions cannot read a
// list, and stand still.
type block struct {
	old *oldRecord // the record that was there, until it is taken over
}

func (b block) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{"newer versions enrich this; their record has another key", b.old})
}

func (b *block) UnmarshalJSON(value []byte) error {
	var text string
	return json.Unmarshal(value, &[]any{&text, &b.old})
}

// blockOldRecord makes enrichers of older versions stand still, and returns the record that they
// left, if there is one that was not taken over. Once there is a record of this version that
// one is of no use: drop it.
func (e *Enricher) blockOldRecord(ctx context.Context, drop bool) (*oldRecord, error) {
	if recordKey(e.cfg.From) != e.cfg.From || recordKey(e.targetName()) != e.targetName() {
		return nil, nil // not a key: those versions did not start
	}
	key := enrichmentName(e.cfg.From, e.targetName())
	var value json.RawMessage
	revision, err := readEntry(ctx, e.record.kv, key, &value)
	if err != nil && !errors.Is(err, errUnreadable) {
		return nil, err
	}
	var b block
	blocked := json.Unmarshal(value, &b) == nil
	if !blocked && json.Unmarshal(value, &b.old) != nil {
		b.old = nil
	}
	if blocked && (b.old == nil || !drop) {
		return b.old, nil
	}
	if drop {
		b.old = nil
	}
	_, err = writeEntry(ctx, e.record.kv, key, b, revision)
	return b.old, err
}

// adoptOldRecord makes the record out of one that an older version left, if there is one.
// First that one is changed, so that no enricher of that version goes on with it.
func (e *Enricher) adoptOldRecord(ctx context.Context) error {
	old, err := e.blockOldRecord(ctx, false)
	if err != nil || old == nil {
		return err
	}
	if err := e.proveOldRecord(ctx, *old); err != nil {
		return err
	}
	r := record{settings: e.cfg.settings(), Done: old.Done, Last: old.Last}
	if r.Time, err = e.timeOf(ctx, old.Done); err != nil {
		return err
	}
	if p := old.Plan; p != nil {
		if p.Time, err = e.timeOf(ctx, p.Through); err != nil {
			return err
		}
		r.Plans = []plan{*p}
	}
	e.record.record = r
	e.log.Info("took over the record of an older version")
	return e.saveRecord(ctx)
}

// proveOldRecord checks that an old record is about these streams and settings.
func (e *Enricher) proveOldRecord(ctx context.Context, old oldRecord) error {
	source, err := e.source.Info(ctx)
	if err != nil {
		return fmt.Errorf("source stream: %w", err)
	}
	target, err := e.target.Info(ctx)
	if err != nil {
		return fmt.Errorf("target stream: %w", err)
	}
	if old.Filter != e.cfg.Filter || old.To != e.cfg.To || !old.Source.Equal(source.Created) || !old.Target.Equal(target.Created) {
		return e.undecided("the record of an older version is about another stream, filter or target: it takes %q to %q", old.Filter, old.To)
	}
	return nil
}
