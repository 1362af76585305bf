package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// tagLister is the part of a store that the mirror reads.
type tagLister interface {
	Tags(ctx context.Context) ([]store.Tag, error)
}

// mirror copies the tags of the store into the directory: what a DBA inserts,
// changes or deletes takes effect within one refresh, and a tag whose creation
// broke off between store and directory is completed.
type mirror struct {
	store     tagLister
	directory *Directory
	provision func(ctx context.Context) error // makes the directory anew if it is gone
	outage    *outage                         // of the store, shared with the loader
	log       *zap.Logger
	unusable  map[string]bool // tags already complained of
}

// mirrorRetry is the pause after a refresh that failed.
const mirrorRetry = 500 * time.Millisecond

// run refreshes until ctx ends. Failures in a row are one line in the log, and those of
// the store are the outage's.
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
			pause(ctx, min(every, mirrorRetry))
		} else {
			pause(ctx, every)
		}
	}
}

// errStoreAway is an error that the outage has on its books.
var errStoreAway = errors.New("list the store")

// listing stands for a tag in the books of the outage.
const listing = "(all)"

// refresh brings the directory in line with the store. The directory is read
// first: a tag is written to the store before the directory, so one that is listed
// here and missing there was deleted, not just created.
func (m *mirror) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	have, err := m.directory.list(ctx)
	if errors.Is(err, nats.ErrStreamNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = m.provision(ctx); err == nil {
			have, err = m.directory.list(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("list the directory: %w", err)
	}
	began := time.Now()
	tags, err := m.store.Tags(ctx)
	if errors.Is(err, store.ErrCorrupt) {
		have = nil // a tag that cannot be read is not one that was deleted
	} else if err != nil {
		m.outage.failed(listing, began, err)
		return fmt.Errorf("%w: %w", errStoreAway, err)
	}
	m.outage.worked(listing)
	for _, tag := range tags {
		if err := Usable(tag); err != nil {
			m.complain(tag, err)
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
	return err
}

// Usable says why a tag of the store cannot be served, if so.
func Usable(tag store.Tag) error {
	if err := messages.CheckTag(tag.Name); err != nil {
		return err
	}
	return tag.Check()
}

// complain reports an unusable tag once.
func (m *mirror) complain(tag store.Tag, err error) {
	if m.unusable == nil {
		m.unusable = make(map[string]bool)
	}
	if !m.unusable[tag.Name] {
		m.unusable[tag.Name] = true
		m.log.Warn("tag in the store cannot be served, skipped", zap.String("tag", tag.Name), zap.Error(err))
	}
}
