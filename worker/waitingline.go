package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// waitingLine knows whether requests have waited for too long before their turn, in the
// server's buffer for this connection, in the network or in this process: nowhere is there
// a time on them. So every now and then a mark goes the same way: a PING, whose PONG comes
// behind all that the server has for this connection, and then a barrier, which comes behind
// all that nats.go has in its queues. Whatever comes before a mark was under way when it was
// put, and has waited for at least as long. To look costs a request one atomic load.
//
// The marks are in the queues of all subscriptions of the connection, and the slowest one
// counts. On a connection for requests alone they are short of the same thing, time.
type waitingLine struct {
	overdue atomic.Bool // the first mark that is still there is older than maxQueued

	mu    sync.Mutex
	marks []time.Duration // when they were put, by elapsed; in order
}

const (
	markEvery = 50 * time.Millisecond
	mostMarks = 100              // under way; more would tell little
	markLost  = 30 * time.Second // when a PONG is not expected any more

	// maxQueued is how long a request may wait for its turn. Then its caller may be
	// gone or about to go, and a worker that cannot keep up should not spend IDs on it.
	maxQueued = time.Second
)

// The limits of what nats.go queues for an endpoint; what is beyond them is lost, and
// logged. A request is answered with an error long before so many wait.
const (
	maxQueuedRequests = 1_000_000
	maxQueuedBytes    = 256 << 20
)

// errQueued is the answer to requests that have waited for too long.
var errQueued = errors.New("overloaded: the request has waited for more than " + maxQueued.String() + " for its turn")

// late reports whether the request whose turn it is has waited for too long.
func (l *waitingLine) late() bool { return l.overdue.Load() }

// run puts marks until ctx ends, and returns when none is under way any more.
func (l *waitingLine) run(ctx context.Context, conn *nats.Conn) {
	ticker := time.NewTicker(markEvery)
	defer ticker.Stop()
	var sent sync.WaitGroup
	defer sent.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !conn.IsConnected() {
				l.passed(elapsed()) // nobody waits on a connection that is lost
				continue
			}
			if mark, ok := l.put(); ok {
				sent.Go(func() { l.send(ctx, conn, mark) })
			}
		}
	}
}

// send sends a mark all the way. One that is lost is as good as through: those behind it
// tell the same.
func (l *waitingLine) send(ctx context.Context, conn *nats.Conn, mark time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, markLost)
	defer cancel()
	if conn.FlushWithContext(ctx) != nil || conn.Barrier(func() { l.passed(mark) }) != nil {
		l.passed(mark)
	}
}

// put notes a mark, unless there are many already.
func (l *waitingLine) put() (mark time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mark = elapsed()
	if ok = len(l.marks) < mostMarks; ok {
		l.marks = append(l.marks, mark)
	}
	l.look()
	return mark, ok
}

// passed takes a mark away, and those before it.
func (l *waitingLine) passed(mark time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marks = slices.DeleteFunc(l.marks, func(m time.Duration) bool { return m <= mark })
	l.look()
}

// look looks at the first mark.
func (l *waitingLine) look() {
	l.overdue.Store(len(l.marks) > 0 && elapsed()-l.marks[0] > maxQueued)
}
