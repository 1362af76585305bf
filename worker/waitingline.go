package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// waitingLine knows whether requests have waited for too long before their turn: in the
// server's buffer for this connection, in the network, or in this process. Nothing puts a
// time on them. So every now and then a mark goes the same way: first a PING, whose PONG
// comes behind all that the server has for this connection, then a barrier, which comes
// behind all that nats.go has in its queues. Whatever comes before a mark was under way when
// the mark was sent, and has waited for at least as long. A request pays one atomic load for
// the answer.
//
// A mark is also late if the server is frozen or the network is gone. Then nothing at all
// arrives, nobody waits whom another worker could serve sooner, and leaving the queue group
// would only keep the connection from going to another server. So a mark counts as late only
// if something has arrived since it was sent.
//
// Marks wait in the queues of all subscriptions of the connection, and the slowest queue
// decides. On a connection that has only requests, all of them lack the same thing, time.
type waitingLine struct {
	most    time.Duration // other than maxQueued in tests
	overdue atomic.Bool   // the first mark under way is older than maxQueued, and not just lost

	mu      sync.Mutex
	marks   []time.Duration // when those under way were sent, by elapsed; in order
	msgs    uint64          // how many messages have arrived on the connection
	arrival time.Duration   // when it was last seen that something had arrived on it
}

const (
	markEvery = 50 * time.Millisecond
	mostMarks = 100              // under way; more would add little
	markLost  = 30 * time.Second // a PONG is not expected any more

)

// maxQueued is how long a request may wait for its turn. After that its caller may
// be gone or about to go, and a worker that cannot keep up should not spend IDs on
// it. It is a variable for tests, whose machines may be slow.
var maxQueued = time.Second

// The limits of what nats.go queues for an endpoint. What exceeds them is lost and logged.
// Requests are answered with an error long before so many wait.
const (
	maxQueuedRequests = 1_000_000
	maxQueuedBytes    = 256 << 20
)

// errOverloaded is the answer to requests that have waited for too long.
var errOverloaded = errors.New("overloaded: the request has waited for more than " + maxQueued.String() + " for its turn")

// late reports whether the request whose turn it is has waited for too long.
func (l *waitingLine) late() bool { return l.overdue.Load() }

// run sends marks until ctx ends, and returns when nothing sends any more.
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
				l.removeThrough(elapsed()) // nobody waits on a connection that is lost
				continue
			}
			if mark, ok := l.addMark(conn.Stats().InMsgs); ok {
				sent.Go(func() { l.sendMark(ctx, conn, mark) })
			}
		}
	}
}

// sendMark sends a mark all the way. A lost mark counts as arrived: those behind it tell the
// same.
func (l *waitingLine) sendMark(ctx context.Context, conn *nats.Conn, mark time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, markLost)
	defer cancel()
	if conn.FlushWithContext(ctx) != nil {
		l.removeThrough(mark)
		return
	}
	l.notePong()
	if conn.Barrier(func() { l.removeThrough(mark) }) != nil {
		l.removeThrough(mark)
	}
}

// notePong notes that the server has answered.
func (l *waitingLine) notePong() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrival = elapsed()
	l.updateOverdue()
}

// addMark adds a mark, unless many are under way already. Msgs is how many messages have
// arrived.
func (l *waitingLine) addMark(msgs uint64) (mark time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mark = elapsed()
	if msgs != l.msgs {
		l.msgs, l.arrival = msgs, mark
	}
	if ok = len(l.marks) < mostMarks; ok {
		l.marks = append(l.marks, mark)
	}
	l.updateOverdue()
	return mark, ok
}

// removeThrough removes a mark that has arrived, and those before it.
func (l *waitingLine) removeThrough(mark time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marks = slices.DeleteFunc(l.marks, func(m time.Duration) bool { return m <= mark })
	l.updateOverdue()
}

// updateOverdue looks at the age of the first mark. It needs mu.
func (l *waitingLine) updateOverdue() {
	l.overdue.Store(len(l.marks) > 0 && elapsed()-l.marks[0] > cmp.Or(l.most, maxQueued) && l.arrival > l.marks[0])
}
