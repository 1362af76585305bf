package worker

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// A request for a strict tag that another process owns is passed on with its headers, to a subject of
// that process alone. It answers the caller. The caller's reply subject goes in a header: a server
// refuses a message whose reply subject it has made itself, as it does for callers in other accounts.

// forwardSubject is the subject of requests for a tag that a process is thought to own.
func forwardSubject(p messages.Prefix, instance, tag string) string {
	return string(p) + ".strict." + instance + "." + tag
}

func forwardRights(p messages.Prefix) rights.Rights {
	all := forwardSubject(p, "*", ">")
	return rights.Join(rights.Publish(all), rights.Subscribe(all))
}

// wayHeader is the header of a request that was passed on. Others cannot send any to the subject.
const wayHeader = "Ids-Way"

// way is how a request has come, and where its answer goes.
type way struct {
	hops    int           // how often it was passed on
	left    time.Duration // until its deadline
	replyTo string
}

// maxHops is how often a request is passed on. Processes that do not know who owns a slot, or of which
// each believes that another one does, could pass it on for ever.
const maxHops = 8

func (w way) encode() string {
	return strconv.Itoa(w.hops) + " " + strconv.FormatInt(w.left.Milliseconds(), 10) + " " + w.replyTo
}

// decodeWay reads the header. One that cannot be read has no reply subject, and the request gets no
// answer.
func decodeWay(header string) (w way) {
	hops, rest, _ := strings.Cut(header, " ")
	left, replyTo, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(hops)
	ms, err2 := strconv.ParseInt(left, 10, 32)
	if err != nil || err2 != nil || n < 1 || ms < 0 {
		return w
	}
	return way{n, time.Duration(ms) * time.Millisecond, replyTo}
}

// forwarded is the message that passes a request on.
func (o *ordered) forwarded(p messages.Prefix, instance string) *nats.Msg {
	msg := &nats.Msg{
		Subject: forwardSubject(p, instance, o.tag), Data: messages.EncodeCount(o.n), Header: make(nats.Header, len(o.header)+1),
	}
	maps.Copy(msg.Header, o.header)
	msg.Header[wayHeader] = []string{way{o.hops + 1, o.left(), o.replyTo}.encode()}
	return msg
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
