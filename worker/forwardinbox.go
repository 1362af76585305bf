package worker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// forwardInbox receives the requests that other workers pass on to this process. It has a connection of
// its own, on which it answers too, so that they hold up nothing else.
type forwardInbox struct {
	frame
	strict    *strict
	prefixLen int // of the subject, before the tag
	conn      *nats.Conn
	sub       *nats.Subscription
	line      *waitingLine
	marks     *goroutines
	buf       []byte // for replies; NATS copies them
}

func newForwardInbox(s *strict, figures *requestFigures) *forwardInbox {
	line := new(waitingLine)
	f := &forwardInbox{
		frame:     newFrame(s.cfg, line, figures),
		strict:    s,
		prefixLen: len(forwardSubject(s.cfg.Prefix, s.instance, "")),
		line:      line,
		marks:     newGoroutines(),
	}
	f.replies.answers = answerSubject(s.cfg.Prefix, "") // of other workers, for callers of theirs
	return f
}

// open subscribes, and returns when the server knows.
func (f *forwardInbox) open(ctx context.Context) (err error) {
	if f.conn, err = dialPatiently(ctx, f.strict.cfg.Requests); err != nil {
		return err
	}
	f.frame.conn = f.conn
	if f.sub, err = f.conn.Subscribe(forwardSubject(f.strict.cfg.Prefix, f.strict.instance, ">"), f.receive); err != nil {
		return err
	}
	if err := f.sub.SetPendingLimits(maxQueuedRequests, maxQueuedBytes); err != nil {
		return err
	}
	if err := f.conn.FlushTimeout(enterTimeout); err != nil {
		return err
	}
	if err := f.conn.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		return err
	}
	f.marks.start(func(ctx context.Context) { f.line.run(ctx, f.conn) })
	return nil
}

// lingerTime is how long requests still come after others could know that this process owns nothing
// any more.
const lingerTime = 100 * time.Millisecond

// close handles what was delivered, and what others send until they know better, and ends the
// connection.
func (f *forwardInbox) close() {
	if f.conn == nil {
		return
	}
	defer f.marks.stop()
	defer f.conn.Close()
	if f.sub == nil || !f.conn.IsConnected() {
		return
	}
	time.Sleep(lingerTime)
	closed := f.conn.StatusChanged(nats.CLOSED)
	if f.conn.Drain() != nil {
		return
	}
	select {
	case <-closed:
	case <-time.After(flushTimeout):
	}
}

// receive handles a request that another worker has passed on. NATS calls it from one goroutine.
func (f *forwardInbox) receive(msg *nats.Msg) {
	body := decodePassedOn(msg.Data)
	r, n, ok := f.enter(lateReply{f.conn, body.replyTo}, body.replyTo, body.count)
	if !ok {
		return
	}
	tag := msg.Subject[f.prefixLen:]
	if err := messages.CheckTag(tag); err != nil { // no worker sends this
		r.fail(err)
		return
	}
	f.strict.received.Add(1)
	if ids, ok := f.strict.take(tag, n); ok {
		f.buf = messages.AppendRange(f.buf[:0], wireRange(ids))
		r.answer(f.buf, n)
		return
	}
	o := f.strict.newOrdered(strings.Clone(tag), n, requester{replyTo: body.replyTo})
	o.hops, o.deadline = body.hops, o.began+min(body.left, f.strict.cfg.Wait)
	f.strict.dispatch(o)
}
