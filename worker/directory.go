package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
)

// TagsBucketName is the name of the bucket with the configuration of every tag.
func TagsBucketName(p messages.Prefix) string { return string(p) + "_tags" }

// Directory is the KV bucket with the configuration of every tag. Workers watch
// it, so that they know all tags, and refuse others, without asking a store.
type Directory struct {
	kv     jetstream.KeyValue
	stream jetstream.Stream // the bucket's, for what a KV does not tell
	conn   *nats.Conn
	log    *zap.Logger
}

// tagEntry is what the directory holds under a tag's name.
type tagEntry struct {
	Step int64 `json:"step"`
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

// listed is a tag as the directory had it at a revision.
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

// remove deletes a tag, if it is still as it was listed.
func (d *Directory) remove(ctx context.Context, tag string, revision uint64) error {
	err := d.kv.Delete(ctx, tag, jetstream.LastRevision(revision))
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return nil
	}
	return err
}

// tagSink is told what the directory holds.
type tagSink interface {
	Replace(steps map[string]int64)
	Update(steps map[string]int64, removed ...string)
}

// rewatchPause is the pause before a watch that has ended is begun anew.
const rewatchPause = time.Second

// follow keeps sink up to date until ctx ends, and calls ready once it has all the
// tags there are. The watch is begun anew when it breaks, when the connection comes
// back, and after every refresh: on a bucket that was made anew or restored, nats.go
// waits for revisions that may be long in coming.
func (d *Directory) follow(ctx context.Context, sink tagSink, refresh time.Duration, ready func()) {
	back := d.conn.StatusChanged(nats.CONNECTED)
	defer d.conn.RemoveStatusListener(back)
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, refresh)
		go func() {
			select {
			case <-back:
				cancel()
			case <-once.Done():
			}
		}()
		err := d.watch(once, sink, ready)
		over := once.Err() != nil
		cancel()
		if ctx.Err() == nil && !over {
			d.log.Warn("watching the tag directory broke off, trying again", zap.Error(err))
			pause(ctx, rewatchPause)
		}
	}
}

// watch passes on the tags there are, in one piece, and then every change.
func (d *Directory) watch(ctx context.Context, sink tagSink, ready func()) error {
	w, err := kvwatch.Open(ctx, d.kv)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := d.snapshot(ctx, w, sink); err != nil {
		return err
	}
	ready()
	for {
		entry, err := w.Next(ctx)
		changed := make(changes)
		for ; err == nil; entry, err = w.Next(ctx) {
			changed.note(d, entry)
			if w.Waiting() == 0 { // else there is more to take along
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

// snapshot passes on the tags there are. What it does not see is removed, unless it may
// have missed something: the watcher can, while others write.
func (d *Directory) snapshot(ctx context.Context, w *kvwatch.Watcher, sink tagSink) error {
	found := make(changes)
	for {
		entry, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if entry == nil {
			break
		}
		found.note(d, entry)
	}
	steps, removed := found.split()
	info, err := d.stream.Info(ctx)
	if err != nil {
		return err
	}
	if uint64(len(found)) >= info.State.NumSubjects {
		sink.Replace(steps)
	} else {
		sink.Update(steps, removed...)
	}
	return nil
}

// changes holds the new step of tags; 0 for those that are gone or unusable.
type changes map[string]int64

func (c changes) note(d *Directory, entry jetstream.KeyValueEntry) {
	step, _ := d.decode(entry)
	c[strings.Clone(entry.Key())] = step // not the whole subject that the key is part of
}

func (c changes) split() (steps map[string]int64, removed []string) {
	steps = make(map[string]int64, len(c))
	for tag, step := range c {
		if step > 0 {
			steps[tag] = step
		} else {
			removed = append(removed, tag)
		}
	}
	return steps, removed
}

// decode returns the step of an entry. One that makes no sense is reported and
// left out, so that it does not shut out the others.
func (d *Directory) decode(entry jetstream.KeyValueEntry) (step int64, ok bool) {
	if entry.Operation() != jetstream.KeyValuePut {
		return 0, false
	}
	var tag tagEntry
	err := json.Unmarshal(entry.Value(), &tag)
	if err == nil {
		err = messages.CheckTag(entry.Key())
	}
	if err == nil && tag.Step < 1 {
		err = fmt.Errorf("step %d, allowed is 1 or more", tag.Step)
	}
	if err != nil {
		d.log.Warn("unusable entry in the tag directory, ignored",
			zap.String("bucket", d.kv.Bucket()), zap.String("tag", entry.Key()), zap.Error(err))
		return 0, false
	}
	return tag.Step, true
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
