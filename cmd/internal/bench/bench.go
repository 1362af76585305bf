// Package bench puts load on an installation, measures it, and checks all IDs
// that come.
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

// Config is what a run asks for, and how.
type Config struct {
	Clients  []*messages.Client // which the callers share
	Targets  []Target           // at least one; each caller asks for them in turn
	Layout   snowflake.Layout   // of the installation; zero if that is not known
	Callers  int                // how many ask at the same time, each waiting for its answer
	Duration time.Duration      // how long they ask
	Rate     int                // requests a second in all; 0: as many as are answered
	Batch    int64              // IDs in each request
	Timeout  time.Duration      // how long a caller waits for them
	History  *history.Writer    // of all requests, which Run closes; nil: nothing is recorded
}

// Target is what callers ask for.
type Target struct {
	Tag  string       // empty for snowflake IDs
	Kind history.Kind // Single, Batch, Strict or Snowflake
}

// Look finds out whether a tag is strict: then it refuses requests for IDs that
// are kept for later. It uses up one ID.
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

// ErrBroken is wrapped by the error of a run in which a promise was broken: an
// ID came twice, out of order, or the answer was none.
var ErrBroken = errors.New("a promise was broken")

// Run asks until the time is over, or ctx ends, and waits for the last answers.
// There is always a report. The error wraps [ErrBroken] if a promise was broken;
// it is that of ctx if it ended, and that of the latest request if no request
// was answered.
func Run(ctx context.Context, c Config) (*Report, error) {
	asking, stop := context.WithTimeout(ctx, c.Duration)
	defer stop()
	r := newRun(c)
	var callers sync.WaitGroup
	for i := range c.Callers {
		callers.Go(func() {
			client := c.Clients[i%len(c.Clients)]
			for turn := i; ; turn++ {
				due, ok := r.nextDue(asking)
				if !ok && (turn > i || c.Rate > 0) { // else, even the shortest run asks once
					return
				}
				r.ask(ctx, client, c.Targets[turn%len(c.Targets)], due)
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

// run is a run that is under way.
type run struct {
	Config
	began time.Time
	turns atomic.Int64 // that callers have taken of the schedule

	mu      sync.Mutex
	checker *history.Checker
	report  *Report
	latest  error // of a request that failed
}

func newRun(c Config) *run {
	return &run{Config: c, began: time.Now(), checker: history.NewChecker(c.Layout), report: newReport(c)}
}

// now is the time since the run began.
func (r *run) now() time.Duration { return time.Since(r.began) }

// due is how many requests were to be made within a time.
func (r *run) due(within time.Duration) int64 { return int64(within.Seconds() * float64(r.Rate)) }

// nextDue waits until the next request is due, and returns when that was. If
// all callers were busy then, the request is late, and so is every one behind
// it: that is what a caller of a real service would wait, so latency counts from
// there. That a timer was late counts for nothing.
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

// ask makes one request. If ctx ends before it is answered, it does not count.
func (r *run) ask(ctx context.Context, client *messages.Client, target Target, due time.Time) {
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

// add counts and checks a call with its answer or error. It is received under
// the lock, so that calls are in the order of their answers: a moment late,
// which may hide that an answer is out of order, and invents nothing. Took is
// what counts as latency.
func (r *run) add(call *history.Call, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	call.Received = r.now()
	if err != nil {
		call.Ranges, call.Err = nil, err.Error()
		r.latest = err
		r.report.addFailure(err)
	} else {
		inOrder := "" // who answered is not known, so only strict tags are in order
		if call.Kind == history.Strict {
			inOrder = call.Tag
		}
		r.report.addAnswer(call, took, r.checker.Check(call, inOrder))
	}
	if r.History != nil {
		r.History.Write(call)
	}
}

// progress returns a function that describes how far the run is.
func (r *run) progress() func() string {
	before := int64(0)
	return func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		rate := r.report.Requests - before
		before = r.report.Requests
		return fmt.Sprintf("%d requests, %d/s, %d IDs, %v of %v",
			before, rate, r.report.IDs, r.now().Round(time.Second), r.Duration)
	}
}

// verdict is the error of a run that has ended.
func (r *run) verdict(ctx context.Context) error {
	broken := r.report.Broken
	switch {
	case broken.count() > 0:
		return fmt.Errorf("%w: %d IDs or ranges came twice, %d out of order, and %d answers are none",
			ErrBroken, broken.Duplicates, broken.OutOfOrder, broken.NoReplies)
	case ctx.Err() != nil:
		return ctx.Err()
	case r.report.IDs == 0:
		return r.latest
	}
	return nil
}
