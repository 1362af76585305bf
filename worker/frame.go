package worker

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
)

// frame surrounds every request of one endpoint: enter checks it on its way in, and a
// request that has entered is replied to and counted by its own methods. A frame has one
// goroutine, that of its endpoint.
type frame struct {
	replies  replyCheck
	line     *waitingLine
	figures  *requestFigures
	watch    stopwatch
	conn     *nats.Conn // for requests that are replied to later
	maxBatch int64
}

func newFrame(cfg Config, line *waitingLine, figures *requestFigures) frame {
	return frame{
		replies:  newReplyCheck(cfg.Prefix),
		line:     line,
		figures:  figures,
		conn:     cfg.Requests,
		maxBatch: cfg.MaxBatch,
	}
}

// enter returns the request that data is, and how many IDs it wants. If ok is false, the request
// has been dealt with.
func (f *frame) enter(by replier, replyTo string, data []byte) (r request, n int64, ok bool) {
	if !f.replies.allows(replyTo) {
		return r, 0, false
	}
	r = request{frame: f, replier: by, began: f.watch.start()}
	if f.line.late() {
		r.fail(errOverloaded)
		return r, 0, false
	}
	n, ok = r.count(data)
	return r, n, ok
}

// request is one that has entered the frame. It ends with one call of answer or fail.
type request struct {
	frame   *frame
	replier replier
	began   time.Duration
	exact   bool // timed by itself and not by the frame's stopwatch
}

// count returns how many IDs a request wants. If ok is false, it has been dealt with.
func (r request) count(data []byte) (n int64, ok bool) {
	n, err := messages.DecodeCount(data, r.frame.maxBatch)
	if err != nil {
		r.fail(err)
		return 0, false
	}
	return n, true
}

// replier sends the reply to one request. It is a [micro.Request], a [lateReply] when
// the endpoint has gone on to other requests, or a [directCall].
type replier interface {
	Respond(data []byte, opts ...micro.RespondOpt) error
	Error(code, text string, data []byte, opts ...micro.RespondOpt) error
}

// answer replies with n IDs.
func (r request) answer(reply []byte, n int64) {
	_ = r.replier.Respond(reply) // fails only with the connection; micro counts it
	r.frame.figures.countAnswered(n, r.took())
}

// fail replies with an error.
func (r request) fail(err error) {
	code, text := wireError(err)
	_ = r.replier.Error(strconv.Itoa(int(code)), text, nil) // fails only with the connection
	r.frame.figures.countFailed(code, r.took())
}

func (r request) took() time.Duration {
	if r.exact {
		return elapsed() - r.began
	}
	return r.frame.watch.read(r.began)
}

// timed returns the request, from now on timed by itself: it may take as long as a segment
// takes to come.
func (r request) timed() request {
	r.began, r.exact = elapsed(), true
	return r
}

// resume returns a request that was parked, to be replied to from any goroutine.
func (f *frame) resume(by requester, began time.Duration) request {
	r := request{frame: f, replier: by.direct, began: began, exact: true}
	if by.direct == nil {
		r.replier = lateReply{f.conn, by.replyTo}
	}
	return r
}

// requester is who gets the reply to a request.
type requester struct {
	replyTo string      // a subject
	direct  *directCall // nil for requests that came by NATS
}

// wants says for how long the requester waits, as the allocator asks it; nil: until the deadline.
func (r requester) wants() func() bool {
	if r.direct == nil {
		return nil
	}
	return r.direct.open
}

// lateReply replies to a request that was parked. It does without the micro.Request: micro
// itself reads that once the endpoint has returned, and it would keep the message in memory.
type lateReply struct {
	conn *nats.Conn
	to   string
}

func (l lateReply) Respond(data []byte, _ ...micro.RespondOpt) error {
	return l.conn.Publish(l.to, data)
}

func (l lateReply) Error(code, text string, data []byte, _ ...micro.RespondOpt) error {
	msg := nats.NewMsg(l.to)
	msg.Data = data
	msg.Header.Set(micro.ErrorCodeHeader, code)
	msg.Header.Set(micro.ErrorHeader, text)
	return l.conn.PublishMsg(msg)
}

// replyCheck refuses subjects that must not get a reply. The worker publishes replies with
// its own rights, and an empty message to a subject of the JetStream API can be a command,
// to delete a bucket, say.
type replyCheck struct {
	own string
}

func newReplyCheck(prefix messages.Prefix) replyCheck { return replyCheck{string(prefix) + "."} }

func (c replyCheck) allows(reply string) bool {
	return reply != "" && reply[0] != '$' && !strings.HasPrefix(reply, c.own)
}
