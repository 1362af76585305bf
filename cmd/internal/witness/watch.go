package witness

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
)

// watch notes what happens in one bucket.
type watch struct {
	*Witness
	js     jetstream.JetStream
	bucket string
	record *record
	ready  func() // to be called once all that is in the bucket has been noted

	complained bool // that the bucket went back; until it is above what was seen
}

const (
	retryPause = time.Second     // how long a watch that failed waits until it goes on
	checkEvery = 2 * time.Second // how often it looks whether the bucket is still the same
	checkTime  = 5 * time.Second // how long that may take
)

// errReplaced ends the watch of a bucket that is not the one any more that was opened.
var errReplaced = errors.New("bucket was put back or made again")

// run notes what happens in the bucket until ctx ends.
func (w *watch) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.follow(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errReplaced):
			continue // and find out what that means
		case !errors.Is(err, jetstream.ErrBucketNotFound):
			w.log.Warn("witness failed, trying again", zap.String("bucket", w.bucket), zap.Error(err))
		case w.record.created.IsZero() && len(w.record.marks) == 0:
			w.ready() // it was never there
		default:
			w.complain([]Loss{{Bucket: w.bucket, Missing: true}})
		}
		pause.For(ctx, retryPause)
	}
}

// follow notes what is in the bucket, and then every change.
func (w *watch) follow(ctx context.Context) (err error) {
	o, err := open(ctx, w.js, w.bucket)
	if err != nil {
		return err
	}
	defer o.entries.Close()
	file := w.file(w.bucket)
	defer func() { err = errors.Join(err, file.close()) }()
	f := &following{watch: w, opened: o, file: file, listed: make(map[string]mark)}
	for {
		if err := f.read(ctx); err != nil {
			return err
		}
		if err := f.check(ctx); err != nil {
			return err
		}
	}
}

// following is one opening of the bucket.
type following struct {
	*watch
	opened
	file    *file
	listed  map[string]mark // what was there at first; nil once that has been noted
	highest uint64          // revision
}

// read notes entries until it is time to check the bucket.
func (f *following) read(ctx context.Context) error {
	until, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	for {
		entry, err := f.entries.Next(until)
		switch {
		case err != nil && until.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case entry == nil:
			err = f.noteListed(ctx)
		default:
			err = f.note(strings.Clone(entry.Key()), f.markOf(entry))
		}
		if err != nil {
			return err
		}
	}
}

// noteListed compares all that is in the bucket with what was seen, and notes it.
func (f *following) noteListed(ctx context.Context) error {
	found := listing{bucket: f.bucket, created: f.created, marks: f.listed}
	if err := f.confirm(ctx, f.js, &found, f.record); err != nil {
		return err
	}
	f.listed = nil
	if lost := found.losses(f.record); len(lost) > 0 {
		for key, m := range found.marks {
			f.record.add(key, m, f.created)
		}
		f.complain(lost)
	} else {
		f.accept(found)
	}
	if err := f.file.rewrite(f.record); err != nil {
		return err
	}
	f.ready()
	return nil
}

// accept notes a bucket in which nothing is lower than it was seen.
func (f *following) accept(found listing) {
	if !f.record.same(found.created) {
		f.log.Warn("a bucket was made again, with no counter below what was seen in it",
			zap.String("bucket", f.bucket), zap.Time("created", found.created), zap.Time("seen", f.record.created))
	}
	f.record.created, f.record.marks = found.created, found.marks
	f.complained = false
}

// note notes an entry.
func (f *following) note(key string, m mark) error {
	f.highest = max(f.highest, m.revision)
	if f.listed != nil {
		f.listed[key] = m
		return nil
	}
	seen := f.record.marks[key]
	if !f.record.add(key, m, f.created) {
		f.complain([]Loss{newLoss(f.bucket, key, seen, m)})
		return nil
	}
	return f.file.add(key, f.record)
}

// check looks whether the bucket is still the one that was opened. The watch does not tell: on
// a bucket that was put back or made again it waits for revisions that may be long in coming.
func (f *following) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	info, err := f.stream.Info(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return jetstream.ErrBucketNotFound
	case err != nil:
		return err
	case !info.Created.Equal(f.created) || info.State.LastSeq < f.highest:
		return errReplaced
	}
	return nil
}

// complain logs, once, that the bucket went back.
func (w *watch) complain(lost []Loss) {
	if w.complained {
		return
	}
	w.complained = true
	w.log.Error("a bucket in which something is counted went back while this process ran: IDs may be handed out twice until its counters are raised",
		zap.String("bucket", w.bucket), zap.Error(w.forgot(lost)))
}
