package worker

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// onTheWay remembers requests that were passed on until the server has taken them. If nobody listens any
// more where one was sent, the server says so at once, and it is parked: its owner has died. All that the
// server had to say of a message has come when a ping that was sent after it is answered. So each is
// remembered for as long as that takes, and not until its deadline, however many come.
type onTheWay struct {
	inbox string // where the server says so, followed by the number of the request

	mu    sync.Mutex
	queue []*ordered // nil: the server has said so
	first uint64     // the number of the first in the queue
}

// mostOnTheWay bounds the queue. It is far more than can be passed on in the time of a ping; no more are
// passed on while nothing is heard of the server.
const mostOnTheWay = 1 << 16

// confirmEvery is the pause between two pings.
const confirmEvery = 50 * time.Millisecond

// send sends a request and remembers it. That is one step, lest a ping in between is taken for one that
// was sent after it. A server that does not read has it wait, as all that is sent on the connection. It reports whether
// there was room.
func (w *onTheWay) send(conn *nats.Conn, o *ordered, msg *nats.Msg) (ok bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if msg.Reply, ok = w.add(o); !ok {
		return false, nil
	}
	return true, conn.PublishMsg(msg)
}

// add remembers a request, and returns where the server shall say that nobody listens. If there is no
// room, the request must not be sent. It needs mu.
func (w *onTheWay) add(o *ordered) (inbox string, ok bool) {
	if len(w.queue) >= mostOnTheWay {
		return "", false
	}
	w.queue = append(w.queue, o)
	return w.inbox + strconv.FormatUint(w.first+uint64(len(w.queue))-1, 10), true
}

// take returns the request of which the server says so, or nil.
func (w *onTheWay) take(msg *nats.Msg) (o *ordered) {
	number, err := strconv.ParseUint(strings.TrimPrefix(msg.Subject, w.inbox), 10, 64)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || msg.Header.Get("Status") != "503" || number < w.first || number-w.first >= uint64(len(w.queue)) {
		return nil
	}
	at := number - w.first
	o, w.queue[at] = w.queue[at], nil
	return o
}

// next is the number of the next request, and how many are remembered.
func (w *onTheWay) next() (number uint64, remembered int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first + uint64(len(w.queue)), len(w.queue)
}

// remembered is how many requests may yet come back.
func (w *onTheWay) remembered() int {
	_, n := w.next()
	return n
}

// forgetBefore forgets the requests with lower numbers.
func (w *onTheWay) forgetBefore(number uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if number > w.first {
		w.forget(int(number - w.first))
	}
}

// forgetLate forgets the requests at the head of the queue whose deadlines have passed.
func (w *onTheWay) forgetLate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := slices.IndexFunc(w.queue, func(o *ordered) bool { return o != nil && o.left() > 0 })
	if n < 0 {
		n = len(w.queue)
	}
	w.forget(n)
}

// forget needs mu.
func (w *onTheWay) forget(n int) {
	w.queue = slices.Delete(w.queue, 0, n)
	w.first += uint64(n)
}

// run forgets what the server has taken, until ctx ends. On a connection that is lost nothing is taken:
// what is sent then is kept until the connection is back, or the deadline has passed.
func (w *onTheWay) run(ctx context.Context, conn *nats.Conn, wait time.Duration) {
	ticker := time.NewTicker(confirmEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		switch next, n := w.next(); {
		case n == 0:
		case answersPing(ctx, conn, wait+flushTimeout):
			w.forgetBefore(next)
		default: // not before: what is late gets its answer too
			w.forgetLate()
		}
	}
}

// answersPing reports whether the server answers a ping in time. All that it had sent before was handled
// then.
func answersPing(ctx context.Context, conn *nats.Conn, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	handled := make(chan struct{})
	if conn.FlushWithContext(ctx) != nil || conn.Barrier(func() { close(handled) }) != nil {
		return false
	}
	select {
	case <-handled:
		return true
	case <-ctx.Done():
		return false
	}
}
