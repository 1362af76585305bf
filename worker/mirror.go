package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/store"
)

// tagLister is the part of a store that the mirror reads.
type tagLister interface {
	Tags(ctx context.Context) ([]store.Tag, error)
}

// mirror copies the tags of the store into the directory. So what a DBA inserts, changes or
// deletes takes effect within one refresh, and a tag whose creation broke off between store
// and directory is completed.
type mirror struct {
	store     tagLister
	directory *Directory
	provision func(ctx context.Context) error // creates the directory again if it is gone
	outage    *outage                         // of the store, shared with the loader
	log       *zap.Logger
	unusable  map[string]bool // tags that have been reported
}

// mirrorRetry is the pause after a refresh that failed.
const mirrorRetry = 500 * time.Millisecond

// run refreshes until ctx ends. Failures in a row are logged once; those of the store are
// logged by the outage.
func (m *mirror) run(ctx context.Context, every time.Duration) {
	failing := false
	for ctx.Err() == nil {
		err := m.refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing && !errors.Is(err, errStoreAway):
			m.log.Warn("tags are not mirrored", zap.Error(err))
		case err == nil && failing:
			m.log.Info("tags are mirrored again")
		}
		if failing = err != nil; failing {
			pause.For(ctx, min(every, mirrorRetry))
		} else {
			pause.For(ctx, every)
		}
	}
}

// errStoreAway is wrapped by errors that the outage has recorded.
var errStoreAway = errors.New("list the store")

// listing takes the place of a tag in the outage.
const listing = "(all)"

// refresh brings the directory in line with the store. The directory is read first: a tag
// is written to the store before the directory, so one that is in the directory and not in
// the store was deleted, not just created.
func (m *mirror) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	have, err := m.listDirectory(ctx)
	if err != nil {
		return fmt.Errorf("list the directory: %w", err)
	}
	began := time.Now()
	tags, err := m.store.Tags(ctx)
	var unreadable error
	if errors.Is(err, store.ErrCorrupt) {
		unreadable = err
		have = nil // a tag that cannot be read is not one that was deleted
	} else if err != nil {
		m.outage.recordFailure(listing, began, err)
		return fmt.Errorf("%w: %w", errStoreAway, err)
	}
	m.outage.recordSuccess(listing)
	if err := m.update(ctx, have, tags); err != nil {
		return err
	}
	return unreadable
}

// listDirectory returns what the directory holds. If it is gone, it is created again.
func (m *mirror) listDirectory(ctx context.Context) (map[string]listed, error) {
	have, err := m.directory.list(ctx)
	if errors.Is(err, nats.ErrStreamNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = m.provision(ctx); err == nil {
			have, err = m.directory.list(ctx)
		}
	}
	return have, err
}

// update writes to the directory what differs, and removes the tags of have that are not
// among tags.
func (m *mirror) update(ctx context.Context, have map[string]listed, tags []store.Tag) error {
	for _, tag := range tags {
		if err := CheckTag(tag); err != nil {
			m.reportUnusable(tag, err)
			continue
		}
		entry, known := have[tag.Name]
		delete(have, tag.Name)
		if known && entry.step == tag.Step {
			continue
		}
		if err := m.directory.Put(ctx, tag.Name, tag.Step); err != nil {
			return err
		}
	}
	for name, entry := range have {
		if err := m.directory.remove(ctx, name, entry.revision); err != nil {
			return fmt.Errorf("remove tag %s from the directory: %w", name, err)
		}
	}
	return nil
}

// reportUnusable logs a tag that cannot be served, once.
func (m *mirror) reportUnusable(tag store.Tag, err error) {
	if !m.unusable[tag.Name] {
		m.unusable[tag.Name] = true
		m.log.Warn("tag in the store cannot be served, skipped", zap.String("tag", tag.Name), zap.Error(err))
	}
}
