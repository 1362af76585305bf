package nemesis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/internal/history"
)

// trail is the record of a run.
type trail struct {
	granted *Granted
	checker *Judge
	figures outcomes
	history *history.Writer
	answers answers
	notes   notes
	late    atomic.Int64 // answers to raw requests, after the timeout
}

// answers are those that were received and not checked yet.
type answers struct {
	mu    sync.Mutex
	queue []*Call
}

// notes go into the report, and do not affect the verdict: programs that ended
// unrequested, and slow steps.
type notes struct {
	mu   sync.Mutex
	list []string
}

// note adds a line to the report.
func (r *Run) note(format string, args ...any) {
	r.notes.mu.Lock()
	defer r.notes.mu.Unlock()
	r.notes.list = append(r.notes.list, fmt.Sprintf("%.1fs ", r.now().Seconds())+fmt.Sprintf(format, args...))
}

// checkAfter is the delay of an answer's check: its grant has arrived by then.
const checkAfter = 1500 * ms

// record takes an answer. Received is set under the lock, so that the answers
// in the queue are in that order.
func (r *Run) record(c *Call) {
	r.answers.mu.Lock()
	c.Received = r.now()
	r.answers.queue = append(r.answers.queue, c)
	r.answers.mu.Unlock()
	r.figures.add(c)
}

// check checks the answers that came before a time.
func (r *Run) check(before time.Duration) {
	r.answers.mu.Lock()
	i, _ := slices.BinarySearchFunc(r.answers.queue, before, func(c *Call, t time.Duration) int { return int(c.Received - t) })
	due := r.answers.queue[:i]
	r.answers.queue = slices.Clone(r.answers.queue[i:])
	r.answers.mu.Unlock()
	for _, c := range due {
		r.checker.Check(c)
		r.history.Write(c)
	}
}

// checkAll checks answers as they become due, until the context ends, and then
// all that are left.
func (r *Run) checkAll(ctx context.Context) {
	for ctx.Err() == nil {
		r.check(r.now() - checkAfter)
		time.Sleep(100 * ms)
	}
	r.check(1<<63 - 1)
	r.checker.Finish()
}
