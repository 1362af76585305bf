package worker

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// A request for a strict tag that another process owns is passed on with its headers, to a subject of
// that process alone. It answers the caller. The caller's reply subject goes in the body: a server
// refuses a message whose reply subject it has made itself, as it does for callers in other accounts.

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
	if err != nil || err2 != nil || n < 1 || ms < 0 {
		return p
	}
	return passedOn{count, n, time.Duration(ms) * time.Millisecond, string(replyTo)}
}

// forwarded is the message that passes a request on.
func (o *ordered) forwarded(p messages.Prefix, instance string) *nats.Msg {
	body := passedOn{messages.EncodeCount(o.n), o.hops + 1, o.left(), o.replyTo}
	return &nats.Msg{Subject: forwardSubject(p, instance, o.tag), Data: body.encode(), Header: o.header}
}

// onTheWay remembers the requests that were passed on latest. If nobody listens any more where one was
// sent, the server says so at once, and it is parked: its owner has died.
type onTheWay struct {
	inbox string // where the server says so, followed by the number of the request

	mu     sync.Mutex
	latest [1024]*ordered // by number
	number uint64
}

// add remembers a request, and returns where the server shall say that nobody listens.
func (w *onTheWay) add(o *ordered) (inbox string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.number++
	w.latest[w.number%uint64(len(w.latest))] = o
	return w.inbox + strconv.FormatUint(w.number, 10)
}

// take returns the request of which the server says so, or nil.
func (w *onTheWay) take(msg *nats.Msg) (o *ordered) {
	number, err := strconv.ParseUint(strings.TrimPrefix(msg.Subject, w.inbox), 10, 64)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || msg.Header.Get("Status") != "503" || number+uint64(len(w.latest)) <= w.number {
		return nil
	}
	at := number % uint64(len(w.latest))
	o, w.latest[at] = w.latest[at], nil
	return o
}

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
