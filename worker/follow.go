package worker

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/internal/pause"
)

// tagSink is told what the directory holds.
type tagSink interface {
	Update(steps map[string]int64, removed ...string)

	// Tags is how many tags the sink has, or had.
	Tags() int

	// Missing returns the tags that the sink has and steps lacks, and how many it has.
	Missing(steps map[string]int64) (missing []string, tags int)
}

// follower keeps a sink up to date with the directory. It is for use by one goroutine.
//
// The directory is read as a whole once, at the start, and its changes from then on. A read that
// breaks off, because the connection or the server was away, goes on at the entry that was read last.
// Only if the directory does not have that entry any more, it is read as a whole again: then it was made
// again or restored. A deleted tag leaves a marker and is removed at once. Of tags of which there
// is no trace after all has been read, absent says whether they were removed. As long as some are
// missing, the directory is read as a whole again and again, for that is what confirms it.
type follower struct {
	directory *Directory
	sink      tagSink
	absent    *absences
	progress  func() // something was read
	ready     func() // sink has all the tags there are

	at    kvwatch.Position // what was read
	left  time.Time        // when that broke off
	whole bool             // the directory is being read as a whole
	found changes          // what it holds, while it is read as a whole by a sink that has tags
}

const (
	// missingEvery is how often a worker looks for tags that are missing; see absences.
	missingEvery = time.Minute

	// markersLast is how long the markers of deleted tags last at least: whoever tidies up
	// a bucket leaves those of the last half hour. Who was away for longer may have missed some.
	markersLast = 20 * time.Minute

	// rewatchPause is the pause before a read that failed is begun again.
	rewatchPause = time.Second

	// maxChanges are passed on at once.
	maxChanges = 4096
)

// run follows until ctx ends. It goes on with a new feed at once when the connection is back: what
// the old one says by itself it would say later.
func (f *follower) run(ctx context.Context) {
	conn := f.directory.js.Conn()
	back := conn.StatusChanged(nats.CONNECTED)
	defer conn.RemoveStatusListener(back)
	failing := false
	for ctx.Err() == nil {
		err := untilBack(ctx, back, f.follow)
		switch {
		case err == nil || errors.Is(err, kvwatch.ErrEnded) || ctx.Err() != nil:
			failing = false
			continue
		case errors.Is(err, kvwatch.ErrOther):
			f.directory.log.Info("the tag directory has changed beyond what was read of it, reading all of it", zap.Uint64("read", f.at.Revision))
			f.at = kvwatch.Position{}
			continue
		case !failing:
			f.directory.log.Warn("the tag directory cannot be read, trying again", zap.Error(err))
		}
		failing = true
		pause.For(ctx, rewatchPause)
	}
}

// untilBack calls do with a context that ends when the connection is back. Then there is no error.
func untilBack(ctx context.Context, back <-chan nats.Status, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-back:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	cancel()
	<-ended
	return err
}

// follow reads on from where it was, or as a whole, until it has to be called again.
func (f *follower) follow(ctx context.Context) error {
	if f.at.Revision == 0 || !f.left.IsZero() && time.Since(f.left) > markersLast {
		f.begin()
	}
	feed, err := kvwatch.OpenFeed(ctx, f.directory.js, f.directory.kv.Bucket(), f.at)
	if err != nil {
		return err
	}
	defer func() {
		feed.Close()
		f.left = time.Now().Round(0) // by the wall clock, which goes on while the machine sleeps
	}()
	for f.whole && !feed.CaughtUp() {
		if err := f.pass(ctx, feed); err != nil {
			return err
		}
	}
	once := ctx
	if f.whole {
		again, err := f.end(ctx)
		if err != nil {
			return err
		}
		if again > 0 {
			var cancel context.CancelFunc
			once, cancel = context.WithTimeout(ctx, again)
			defer cancel()
		}
	}
	for err == nil {
		err = f.pass(once, feed)
	}
	if once.Err() != nil && ctx.Err() == nil {
		f.at, err = kvwatch.Position{}, nil
	}
	return err
}

// begin begins to read the directory as a whole.
func (f *follower) begin() {
	f.at, f.whole, f.found = kvwatch.Position{}, true, nil
	if f.sink.Tags() > 0 {
		f.found = make(changes)
	}
}

// end ends a read of the directory as a whole. It returns when that has to be done again because
// tags are missing. Nothing is missing if the read may be incomplete, because a
// replica lags behind.
func (f *follower) end(ctx context.Context) (again time.Duration, err error) {
	f.ready()
	if f.found != nil {
		info, err := f.directory.stream.Info(ctx)
		if err != nil {
			return 0, err
		}
		if again = confirmPause(missingEvery); uint64(len(f.found)) >= info.State.NumSubjects {
			again = f.removeMissing()
		}
	}
	f.whole, f.found = false, nil
	return again, nil
}

// removeMissing removes the tags that are not in the directory any more, as far as absent believes it.
func (f *follower) removeMissing() (again time.Duration) {
	missing, tags := f.sink.Missing(f.found)
	gone, unsure := f.absent.confirm(time.Now(), missing, tags)
	if len(gone) > 0 {
		f.sink.Update(nil, gone...)
	}
	switch {
	case unsure:
		return confirmPause(missingEvery)
	case len(gone) < len(missing):
		return missingEvery
	}
	return 0
}

// pass passes on the next changes, as many as have come.
func (f *follower) pass(ctx context.Context, feed *kvwatch.Feed) error {
	entry, err := feed.Next(ctx)
	changed := make(changes)
	for more := err == nil; more; {
		changed.add(f.directory, entry)
		f.at = entry.Position
		if len(changed) == maxChanges {
			break
		}
		entry, more, err = feed.NextWaiting()
	}
	if len(changed) == 0 {
		return err
	}
	f.progress()
	steps, removed := changed.split()
	f.sink.Update(steps, removed...)
	if f.found != nil {
		maps.Copy(f.found, changed)
	}
	return err
}
