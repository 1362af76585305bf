package worker

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// A request for a strict tag that another process owns is passed on, to a subject of that process alone.
// It answers the caller. The message is this worker's own and sent with this worker's rights, so nothing
// of the caller's message is in it but what was read and checked: the tag, the count and the reply
// subject. Least of all its headers, which servers take as instructions: one of them has the server
// publish to any subject that the sender may publish to. The caller's reply subject goes in the body: a
// server refuses a message whose reply subject it has made itself, as it does for callers in other
// accounts.

// forwardSubject is the subject of requests for a tag that a process is thought to own.
func forwardSubject(p messages.Prefix, instance, tag string) string {
	return string(p) + ".strict." + instance + "." + tag
}

func forwardRights(p messages.Prefix) rights.Rights {
	all := forwardSubject(p, "*", ">")
	return rights.Join(rights.Publish(all), rights.Subscribe(all))
}

// passedOn is the body of a request that was passed on: how many IDs it wants, how it has come, and where
// its answer goes.
type passedOn struct {
	count   []byte        // as in a request
	hops    int           // how often it was passed on
	left    time.Duration // until its deadline, in full milliseconds
	replyTo string
}

// maxHops is how often a request is passed on. Processes that do not know who owns a slot, or of which
// each believes that another one does, could pass it on for ever.
const maxHops = 8

func (p passedOn) encode() []byte {
	body := make([]byte, 0, len(p.count)+len(p.replyTo)+16)
	body = append(append(body, p.count...), ' ')
	body = append(strconv.AppendInt(body, int64(p.hops), 10), ' ')
	body = append(strconv.AppendInt(body, p.left.Milliseconds(), 10), ' ')
	return append(body, p.replyTo...)
}

// decodePassedOn reads a body. One that cannot be read has no reply subject, and the request gets no
// answer.
func decodePassedOn(body []byte) (p passedOn) {
	count, rest, _ := bytes.Cut(body, []byte{' '})
	hops, rest, _ := bytes.Cut(rest, []byte{' '})
	left, replyTo, _ := bytes.Cut(rest, []byte{' '})
	n, err := strconv.Atoi(string(hops))
	ms, err2 := strconv.ParseInt(string(left), 10, 32)
	if err != nil || err2 != nil || n < 1 || ms < 0 || bytes.ContainsAny(replyTo, " \t\r\n") {
		return p
	}
	return passedOn{count, n, time.Duration(ms) * time.Millisecond, string(replyTo)}
}

// forwarded is the message that passes a request on.
func (o *ordered) forwarded(p messages.Prefix, instance string) *nats.Msg {
	body := passedOn{messages.EncodeCount(o.n), o.hops + 1, max(0, o.left()), o.by.address()} // the time may have passed just now
	return &nats.Msg{Subject: forwardSubject(p, instance, o.tag), Data: body.encode()}
}

// errReplyTooLong is the answer to a request that cannot be passed on.
var errReplyTooLong = errors.New("the reply subject is too long: a request for this tag has to be passed on to another worker, and with it that message would be larger than the server's max_payload; use a shorter one")

// noOwnerError is the answer to a request that met no owner before its deadline.
type noOwnerError struct {
	hops int
	why  string
}

func (e *noOwnerError) Error() string {
	text := "no owner of this strictly ordered tag before the deadline: " + e.why
	if e.hops > 0 {
		text += fmt.Sprintf("; the request was passed on %d times", e.hops)
	}
	return text
}
