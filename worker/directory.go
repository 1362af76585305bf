package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// TagsBucketName is the name of the bucket with the configuration of every tag.
func TagsBucketName(p messages.Prefix) string { return string(p) + "_tags" }

// Directory is the KV bucket with the configuration of every tag. Workers watch it, so that
// they know all tags, and refuse others, without asking a store.
type Directory struct {
	kv     jetstream.KeyValue
	stream jetstream.Stream // the bucket's, for what the KV interface does not tell
	conn   *nats.Conn
	log    *zap.Logger
}

// tagEntry is what the directory holds under a tag's name.
type tagEntry struct {
	Step int64 `json:"step"`
}

// CheckTag says why workers cannot serve a tag that a store lists, or returns nil. Such a
// tag has no place in the directory.
func CheckTag(tag store.Tag) error {
	if err := messages.CheckTag(tag.Name); err != nil {
		return err
	}
	return tag.Check()
}

// OpenDirectory opens the directory of an installation. It must exist.
func OpenDirectory(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, log *zap.Logger) (*Directory, error) {
	kv, stream, err := resource.OpenBucket(ctx, js, TagsBucketName(prefix))
	if err != nil {
		return nil, err
	}
	return &Directory{kv, stream, js.Conn(), log}, nil
}

// Put writes a tag's configured step.
func (d *Directory) Put(ctx context.Context, tag string, step int64) error {
	value, err := json.Marshal(tagEntry{step})
	if err != nil {
		return err
	}
	if _, err := d.kv.Put(ctx, tag, value); err != nil {
		return fmt.Errorf("write tag %s to the directory: %w", tag, err)
	}
	return nil
}

// listed is what the directory holds for a tag, and since which revision.
type listed struct {
	step     int64
	revision uint64
}

// list returns all tags.
func (d *Directory) list(ctx context.Context) (map[string]listed, error) {
	w, err := kvwatch.Open(ctx, d.kv)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	tags := make(map[string]listed)
	for {
		entry, err := w.Next(ctx)
		if entry == nil || err != nil {
			return tags, err
		}
		if step, ok := d.decode(entry); ok {
			tags[entry.Key()] = listed{step, entry.Revision()}
		}
	}
}

// Remove deletes a tag, whether it is there or not.
func (d *Directory) Remove(ctx context.Context, tag string) error {
	if err := d.kv.Delete(ctx, tag); err != nil {
		return fmt.Errorf("remove tag %s from the directory: %w", tag, err)
	}
	return nil
}

// remove deletes a tag, unless it has changed since it was listed.
func (d *Directory) remove(ctx context.Context, tag string, revision uint64) error {
	err := d.kv.Delete(ctx, tag, jetstream.LastRevision(revision))
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return nil
	}
	return err
}

// tagSink is told what the directory holds.
type tagSink interface {
	Update(steps map[string]int64, removed ...string)

	// Missing returns the tags that the sink has and steps lacks, and how many it has.
	Missing(steps map[string]int64) (missing []string, tags int)
}

// rewatchPause is the pause before a watch that has failed is begun again.
const rewatchPause = time.Second

// follow keeps sink up to date until ctx ends, and calls ready whenever sink has all the
// tags there are. A deleted tag leaves a marker and is removed at once. Of tags of which there
// is no trace, absent says whether they were removed. A new watch begins when the old one fails, when the connection comes back,
// and at every refresh: on a bucket that was deleted and created again, or restored,
// nats.go waits for revisions that may be long in coming.
func (d *Directory) follow(ctx context.Context, sink tagSink, absent *absences, ready func()) {
	back := d.conn.StatusChanged(nats.CONNECTED)
	defer d.conn.RemoveStatusListener(back)
	for ctx.Err() == nil {
		if err := d.watchUntil(ctx, back, sink, absent, ready); err != nil {
			d.log.Warn("the tag directory cannot be watched, trying again", zap.Error(err))
			pause.For(ctx, rewatchPause)
		}
	}
}

// watchUntil watches until the connection is back, a refresh is due, or ctx ends. It
// returns an error if the watch ended earlier.
func (d *Directory) watchUntil(ctx context.Context, back <-chan nats.Status, sink tagSink, absent *absences, ready func()) error {
	once, cancel := context.WithTimeout(ctx, absent.every)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	waiting.Go(func() {
		select {
		case <-back:
			cancel()
		case <-once.Done():
		}
	})
	if err := d.watch(once, sink, absent, ready); once.Err() == nil {
		return err
	}
	return nil
}

// watch passes on all the tags there are at once, and then every change.
func (d *Directory) watch(ctx context.Context, sink tagSink, absent *absences, ready func()) error {
	w, err := kvwatch.Open(ctx, d.kv)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := d.snapshot(ctx, w, sink, absent); err != nil {
		return err
	}
	ready()
	for {
		entry, err := w.Next(ctx)
		changed := make(changes)
		for ; err == nil; entry, err = w.Next(ctx) {
			changed.add(d, entry)
			if w.Waiting() == 0 { // otherwise more changes go along
				break
			}
		}
		if err != nil {
			return err
		}
		steps, removed := changed.split()
		sink.Update(steps, removed...)
	}
}

// snapshot passes on all the tags there are. The sink's other tags are removed if absent says
// so. It is not asked if the snapshot may be incomplete: the watcher can miss entries while
// others write.
func (d *Directory) snapshot(ctx context.Context, w *kvwatch.Watcher, sink tagSink, absent *absences) error {
	found := make(changes)
	for {
		entry, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if entry == nil {
			break
		}
		found.add(d, entry)
	}
	steps, removed := found.split()
	info, err := d.stream.Info(ctx)
	if err != nil {
		return err
	}
	sink.Update(steps, removed...)
	if uint64(len(found)) >= info.State.NumSubjects {
		missing, tags := sink.Missing(found)
		if gone, _ := absent.confirm(time.Now(), missing, tags); len(gone) > 0 {
			sink.Update(nil, gone...)
		}
	}
	return nil
}

// changes holds the new step of tags, or else one of the values below.
type changes map[string]int64

const (
	deleted  = 0
	unusable = -1 // the tag stays as it was
)

func (c changes) add(d *Directory, entry jetstream.KeyValueEntry) {
	step, ok := d.decode(entry)
	switch {
	case ok:
	case entry.Operation() == jetstream.KeyValuePut:
		step = unusable
	default:
		step = deleted
	}
	c[strings.Clone(entry.Key())] = step // lets go of the whole subject that the key is part of
}

func (c changes) split() (steps map[string]int64, removed []string) {
	steps = make(map[string]int64, len(c))
	for tag, step := range c {
		switch step {
		case deleted:
			removed = append(removed, tag)
		case unusable:
		default:
			steps[tag] = step
		}
	}
	return steps, removed
}

// decode returns the step of an entry. An unusable entry is logged and left out, so that it
// does not keep out the others.
func (d *Directory) decode(entry jetstream.KeyValueEntry) (step int64, ok bool) {
	if entry.Operation() != jetstream.KeyValuePut {
		return 0, false
	}
	var tag tagEntry
	err := json.Unmarshal(entry.Value(), &tag)
	if err == nil {
		err = CheckTag(store.Tag{Name: entry.Key(), Step: tag.Step, Next: 1})
	}
	if err != nil {
		d.log.Warn("unusable entry in the tag directory, ignored",
			zap.String("bucket", d.kv.Bucket()), zap.String("tag", entry.Key()), zap.Error(err))
		return 0, false
	}
	return tag.Step, true
}
