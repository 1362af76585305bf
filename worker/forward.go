package worker

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// A request for a strict tag that another process owns is passed on as it is, with its reply subject
// and its headers, to a subject of that process alone. It answers the caller.

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

// way is how far a request has come.
type way struct {
	hops int           // how often it was passed on
	left time.Duration // until its deadline
}

// maxHops is how often a request is passed on. Processes that do not know who owns a slot, or of which
// each believes that another one does, could pass it on for ever.
const maxHops = 8

func (w way) encode() string {
	return strconv.Itoa(w.hops) + " " + strconv.FormatInt(w.left.Milliseconds(), 10)
}

// decodeWay reads the header. One that cannot be read belongs to a request that has no time left.
func decodeWay(header string) (w way) {
	hops, left, _ := strings.Cut(header, " ")
	var err error
	if w.hops, err = strconv.Atoi(hops); err != nil || w.hops < 1 {
		return way{hops: maxHops}
	}
	if ms, err := strconv.ParseInt(left, 10, 32); err == nil && ms > 0 {
		w.left = time.Duration(ms) * time.Millisecond
	}
	return w
}

// forwarded is the message that passes a request on.
func (o *ordered) forwarded(p messages.Prefix, instance string) *nats.Msg {
	msg := &nats.Msg{
		Subject: forwardSubject(p, instance, o.tag), Reply: o.replyTo,
		Data: messages.EncodeCount(o.n), Header: nats.Header{},
	}
	maps.Copy(msg.Header, o.header)
	msg.Header[wayHeader] = []string{way{o.hops + 1, o.left()}.encode()}
	return msg
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
