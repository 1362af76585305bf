// Package bench measures an installation under load, and checks every ID.
package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// Config configures a run.
type Config struct {
	Clients  []*messages.Client // shared by the callers
	Targets  []Target           // at least one; callers request them in turn
	Layout   snowflake.Layout   // of the installation; zero if unknown
	Callers  int                // concurrent, each with one request in flight
	Duration time.Duration      // of the run
	Rate     int                // requests a second in all; 0: unlimited
	Batch    int64              // IDs per request
	Timeout  time.Duration      // of a request
	History  *history.Writer    // of all requests, closed by Run; may be nil
}

// Target is a tag, or snowflake IDs, to request.
type Target struct {
	Tag  string           // empty for snowflake IDs
	Kind history.CallKind // Single, Batch, Strict or Snowflake
}

// Look detects whether a tag is strict: then it refuses to prefetch. It uses up
// an ID.
func Look(ctx context.Context, client *messages.Client, tag string, batch int64) (Target, error) {
	p, err := client.Prefetch(tag, messages.PrefetchConfig{Limit: 1, MaxBatch: 1})
	if err != nil {
		return Target{}, err
	}
	defer p.Close()
	_, err = p.Next(ctx)
	switch {
	case errors.Is(err, messages.ErrStrict):
		return Target{tag, history.Strict}, nil
	case batch > 1:
		return Target{tag, history.Batch}, err
	}
	return Target{tag, history.Single}, err
}

// ErrBroken is wrapped by the error of a run with a duplicate ID, an ID out of
// order, or an invalid reply.
var ErrBroken = errors.New("a promise was broken")

// Run sends requests until the time is over or ctx ends, and waits for the last
// replies. It always returns a report. The error wraps [ErrBroken] if a promise
// was broken; it is that of ctx if ctx ended, and that of the latest request if
// none was answered.
func Run(ctx context.Context, c Config) (*Measurement, error) {
	asking, stop := context.WithTimeout(ctx, c.Duration)
	defer stop()
	r := newRun(c)
	var callers sync.WaitGroup
	for i := range c.Callers {
		callers.Go(func() {
			client := c.Clients[i%len(c.Clients)]
			for turn := i; ; turn++ {
				due, ok := r.nextDue(asking)
				// Even the shortest run sends a request.
				if !ok && (turn > i || c.Rate > 0) {
					return
				}
				r.send(ctx, client, c.Targets[turn%len(c.Targets)], due)
			}
		})
	}
	progress.Show(callers.Wait, r.progress())
	r.report.finish(r.now(), r.due(min(r.now(), c.Duration)))
	err := r.verdict(ctx)
	if c.History != nil {
		err = errors.Join(err, c.History.Close())
	}
	return r.report, err
}

// run is a run in progress.
type run struct {
	Config
	began time.Time
	turns atomic.Int64 // taken from the schedule by callers

	mu      sync.Mutex
	checker *history.Checker
	report  *Measurement
	latest  error // the error of the latest failed request
}

func newRun(c Config) *run {
	return &run{Config: c, began: time.Now(), checker: history.NewChecker(c.Layout), report: newReport(c)}
}

// now is the time since the run began.
func (r *run) now() time.Duration { return time.Since(r.began) }

// due is the number of requests that the rate demands within a time.
func (r *run) due(within time.Duration) int64 { return int64(within.Seconds() * float64(r.Rate)) }

// nextDue waits until the next request is due, and returns when that was. If
// all callers were busy, this request and all behind it are late. A caller of a
// real service would wait that long, so latency counts from the due time. The
// lateness of a timer does not count.
func (r *run) nextDue(ctx context.Context) (due time.Time, ok bool) {
	if r.Rate == 0 {
		return time.Now(), ctx.Err() == nil
	}
	after := float64(r.turns.Add(1)-1) / float64(r.Rate)
	due = r.began.Add(time.Duration(after * float64(time.Second)))
	if wait := time.Until(due); wait > 0 {
		pause.For(ctx, wait)
		due = time.Now()
	}
	return due, ctx.Err() == nil
}

// send sends a request. If ctx ends before the reply, the request does not
// count.
func (r *run) send(ctx context.Context, client *messages.Client, target Target, due time.Time) {
	try, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	call := &history.Call{Kind: target.Kind, Tag: target.Tag, Count: r.Batch, Sent: r.now()}
	var err error
	if target.Kind == history.Snowflake {
		call.Ranges, err = client.SnowflakeN(try, r.Batch)
	} else {
		call.Ranges, err = client.NextN(try, target.Tag, r.Batch)
	}
	if err == nil || ctx.Err() == nil {
		r.add(call, time.Since(due), err)
	}
}

// add counts and checks a call with its reply or error. It sets Received under
// the lock, so that calls are in the order of their replies. This is a moment
// late: it may hide a reply out of order, but cannot invent one. took is the
// latency.
func (r *run) add(call *history.Call, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	call.Received = r.now()
	if err != nil {
		call.Ranges, call.Err = nil, err.Error()
		r.latest = err
		r.report.addFailure(err)
	} else {
		// The worker that answered is unknown, so only strict tags have an
		// order.
		inOrder := ""
		if call.Kind == history.Strict {
			inOrder = call.Tag
		}
		r.report.addAnswer(call, took, r.checker.Check(call, inOrder))
	}
	if r.History != nil {
		r.History.Write(call)
	}
}

// progress returns a function that describes the progress.
func (r *run) progress() func() string {
	before := int64(0)
	return func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		rate := r.report.Requests - before
		before = r.report.Requests
		return fmt.Sprintf("requests %d, %d/s, IDs %d, %v of %v",
			before, rate, r.report.IDs, r.now().Round(time.Second), r.Duration)
	}
}

// verdict returns the error of a finished run.
func (r *run) verdict(ctx context.Context) error {
	broken := r.report.Broken
	switch {
	case broken.count() > 0:
		return fmt.Errorf("%w: duplicate IDs or ranges %d, out of order %d, invalid replies %d",
			ErrBroken, broken.Duplicates, broken.OutOfOrder, broken.NoReplies)
	case ctx.Err() != nil:
		return ctx.Err()
	case r.report.IDs == 0:
		return r.latest
	}
	return nil
}
