package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	health    *health                         // of the store, shared with the loader
	listed    func()                          // is called when the store could be listed
	log       *zap.Logger
	absences  *absences       // tags that the store does not list any more
	unusable  map[string]bool // tags that have been reported
}

// mirrorRetry is the pause after a refresh that failed.
const mirrorRetry = 500 * time.Millisecond

// run refreshes until ctx ends. Failures in a row are logged once; those of the store are
// logged by its health.
func (m *mirror) run(ctx context.Context, every time.Duration) {
	failing := false
	for ctx.Err() == nil {
		m.health.awaitListing(ctx)
		unsure, err := m.refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing && !errors.Is(err, errStoreAway):
			m.log.Warn("tags are not mirrored", zap.Error(err))
		case err == nil && failing:
			m.log.Info("tags are mirrored again")
		}
		failing = err != nil
		switch {
		case failing:
			pause.For(ctx, min(every, mirrorRetry))
		case unsure:
			pause.For(ctx, confirmPause(every))
		default:
			pause.For(ctx, every)
		}
	}
}

// errStoreAway is wrapped by errors that the health has recorded.
var errStoreAway = errors.New("list the store")

// listing takes the place of a tag in the log.
const listing = "(all)"

// refresh brings the directory in line with the store. The directory is read first: a tag
// is written to the store before the directory, so one that is in the directory and not in
// the store was not just created. Whether it was deleted is for absences to say. If unsure, the
// next refresh is due soon.
func (m *mirror) refresh(ctx context.Context) (unsure bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	have, err := m.listDirectory(ctx)
	if err != nil {
		return false, fmt.Errorf("list the directory: %w", err)
	}
	began := time.Now()
	tags, unreadable := m.store.Tags(ctx)
	if unreadable != nil && !errors.Is(unreadable, store.ErrCorrupt) {
		m.health.recordFailure(listing, began, unreadable)
		return false, fmt.Errorf("%w: %w", errStoreAway, unreadable)
	}
	m.listed()
	if err := m.update(ctx, have, tags); err != nil {
		return false, err
	}
	return m.remove(ctx, have, tags, unreadable)
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

// update writes to the directory what differs. A tag that cannot be served stays as it was.
func (m *mirror) update(ctx context.Context, have map[string]listed, tags []store.Tag) error {
	for _, tag := range tags {
		if err := CheckTag(tag); err != nil {
			m.reportUnusable(tag.Name, err)
			continue
		}
		delete(m.unusable, tag.Name)
		if entry, known := have[tag.Name]; known && entry.step == tag.Step {
			continue
		}
		if err := m.directory.Put(ctx, tag.Name, tag.Step); err != nil {
			return err
		}
	}
	return nil
}

// missingTags returns the names in have that are not among tags, and how many names there are
// in all.
func missingTags(have map[string]listed, tags []store.Tag) (missing map[string]bool, all int) {
	missing = make(map[string]bool)
	for name := range have {
		missing[name] = true
	}
	for _, tag := range tags {
		delete(missing, tag.Name)
	}
	return missing, len(tags) + len(missing)
}

// remove removes from the directory what is not among the store's tags any more, as far as it
// is believed that it was deleted. What is there but cannot be read was not.
func (m *mirror) remove(ctx context.Context, have map[string]listed, tags []store.Tag, unreadable error) (unsure bool, err error) {
	missing, count := missingTags(have, tags)
	entries, all := store.Unreadable(unreadable)
	for _, entry := range entries {
		m.reportUnusable(entry.Tag, entry)
		delete(missing, entry.Tag)
	}
	if !all { // the entry without a name may be any of them
		m.reportUnusable("", unreadable)
		return false, nil
	}
	gone, unsure := m.absences.confirm(time.Now(), slices.Sorted(maps.Keys(missing)), count)
	for _, name := range gone {
		if err := m.directory.remove(ctx, name, have[name].revision); err != nil {
			return false, fmt.Errorf("remove tag %s from the directory: %w", name, err)
		}
	}
	return unsure, nil
}

// reportUnusable logs a tag that cannot be served or read, once.
func (m *mirror) reportUnusable(tag string, err error) {
	if !m.unusable[tag] {
		m.unusable[tag] = true
		m.log.Warn("tag in the store cannot be served, left as it was", zap.String("tag", tag), zap.Error(err))
	}
}
