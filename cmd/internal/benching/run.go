package benching

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/cmd/internal/report"
	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// CallersPerConnection is how many callers share a connection.
const CallersPerConnection = 16

// Bench is a run of the command.
type Bench struct {
	Flags
	Clients []*messages.Client // which share the callers
	Targets []Target           // at least one; each caller asks for them in turn
	Layout  snowflake.Layout   // of the installation; zero if that is not known
}

// Run asks until the time is over, or ctx ends, and prints the report. The error wraps [ErrBroken] if a
// promise was broken; it is the latest one of a request if no request was answered, and that of ctx if it ended.
func (b *Bench) Run(ctx context.Context, out report.Printer) (err error) {
	var record *history.Writer
	if b.History != "" {
		record, err = history.Create(b.History, b.Layout)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("--history: %w; name another file, or remove this one", err)
		}
		if err != nil {
			return fmt.Errorf("--history: %w", err)
		}
	}
	t := newTally(b.Layout, record)
	s := &schedule{began: t.began, rate: b.Rate}
	b.ask(ctx, t, s)
	r := b.report(t, s)
	err = b.verdict(ctx, t)
	if record != nil {
		err = errors.Join(err, record.Close())
	}
	return errors.Join(out.Print(r), err)
}

// verdict is the error of a run that has ended.
func (b *Bench) verdict(ctx context.Context, t *tally) error {
	switch {
	case t.broken.any():
		return fmt.Errorf("%w: %d IDs or ranges came twice, %d out of order, and %d answers are none",
			ErrBroken, t.broken.Duplicates, t.broken.OutOfOrder, t.broken.NoReplies)
	case ctx.Err() != nil:
		return ctx.Err()
	case t.ids == 0 && t.latest != nil:
		return t.latest
	}
	return nil
}

// ask has all callers ask, and waits for their last answers.
func (b *Bench) ask(ctx context.Context, t *tally, s *schedule) {
	asking, stop := context.WithTimeout(ctx, b.Duration)
	defer stop()
	var wg sync.WaitGroup
	for i := range b.Callers {
		c := &caller{tally: t, client: b.Clients[i%len(b.Clients)], batch: b.Batch, timeout: b.Timeout}
		wg.Go(func() {
			for turn := i; ; turn++ {
				due, ok := s.next(asking)
				if !ok {
					return
				}
				c.ask(ctx, b.Targets[turn%len(b.Targets)], due)
			}
		})
	}
	var before int64
	progress.Show(wg.Wait, func() string {
		requests, ids := t.counts()
		rate := requests - before
		before = requests
		return fmt.Sprintf("%d requests, %d/s, %d IDs, %v of %v", requests, rate, ids, t.now().Round(time.Second), b.Duration)
	})
}

// caller asks for IDs and waits for them.
type caller struct {
	*tally
	client  *messages.Client
	batch   int64
	timeout time.Duration
}

// ask makes one request. If ctx ends meanwhile, it does not count.
func (c *caller) ask(ctx context.Context, target Target, due time.Time) {
	try, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	call := &history.Call{Kind: target.kind(c.batch), Tag: target.Tag, Count: c.batch, Sent: c.now()}
	var err error
	if target.Tag == "" {
		call.Ranges, err = c.client.SnowflakeN(try, c.batch)
	} else {
		call.Ranges, err = c.client.NextN(try, target.Tag, c.batch)
	}
	took := time.Since(due)
	if err != nil && ctx.Err() != nil {
		return
	}
	c.add(call, took, err)
}

// kind is as what requests for it are recorded.
func (t Target) kind(batch int64) history.Kind {
	switch {
	case t.Tag == "":
		return history.Snowflake
	case t.Strict:
		return history.Strict
	case batch > 1:
		return history.Batch
	}
	return history.Single
}
