package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// TagsBucketName is the name of the bucket with the configuration of every tag.
func TagsBucketName(p messages.Prefix) string { return string(p) + "_tags" }

// Directory is the KV bucket with the configuration of every tag. Workers watch it, so that
// they know all tags, and refuse others, without asking a store.
type Directory struct {
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	stream jetstream.Stream // the bucket's, for what the KV interface does not tell
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
	return &Directory{js, kv, stream, log}, nil
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

// Remove deletes a tag, whether it is there or not.
func (d *Directory) Remove(ctx context.Context, tag string) error {
	if err := d.kv.Delete(ctx, tag); err != nil {
		return fmt.Errorf("remove tag %s from the directory: %w", tag, err)
	}
	return nil
}

// Steps returns the configured step of every tag in the directory.
func (d *Directory) Steps(ctx context.Context) (map[string]int64, error) {
	feed, err := kvwatch.OpenFeed(ctx, d.js, d.kv.Bucket(), kvwatch.Position{})
	if err != nil {
		return nil, fmt.Errorf("read the tag directory: %w", err)
	}
	defer feed.Close()
	all := make(changes)
	for !feed.CaughtUp() {
		entry, err := feed.Next(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the tag directory: %w", err)
		}
		all.add(d, entry)
	}
	steps, _ := all.split()
	return steps, nil
}

// changes holds the new step of tags, or else one of the values below.
type changes map[string]int64

const (
	deleted  = 0
	unusable = -1 // the tag stays as it was
)

func (c changes) add(d *Directory, entry kvwatch.Entry) {
	c[strings.Clone(entry.Key)] = d.decode(entry) // lets go of the whole subject that the key is part of
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

// decode returns what an entry says. An unusable one is logged and left out, so that it does not
// keep out the others.
func (d *Directory) decode(entry kvwatch.Entry) int64 {
	if entry.Deleted {
		return deleted
	}
	var tag tagEntry
	err := json.Unmarshal(entry.Value, &tag)
	if err == nil {
		err = CheckTag(store.Tag{Name: entry.Key, Step: tag.Step, Next: 1})
	}
	if err != nil {
		d.log.Warn("unusable entry in the tag directory, ignored",
			zap.String("bucket", d.kv.Bucket()), zap.String("tag", entry.Key), zap.Error(err))
		return unusable
	}
	return tag.Step
}
