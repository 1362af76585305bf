package worker

import (
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// directInbox receives the answers of owners of strict tags to requests that came to this process by
// another way than NATS. Its subjects are workers' own: no caller can name one as a reply subject, and
// so have somebody given the IDs of another tag.
type directInbox struct {
	subject string // of an answer, but for the request's number
	sub     *nats.Subscription

	mu    sync.Mutex
	calls map[uint64]*directCall // that were passed on
	last  uint64                 // number
}

// answerSubject is the subject of answers to a process. What follows it is the number of the request.
func answerSubject(p messages.Prefix, instance string) string {
	subject := string(p) + ".answer."
	if instance == "" {
		return subject
	}
	return subject + instance + "."
}

func answerRights(p messages.Prefix) rights.Rights {
	all := answerSubject(p, "*") + "*"
	return rights.Join(rights.Publish(all), rights.Subscribe(all))
}

func newDirectInbox(p messages.Prefix, instance string) *directInbox {
	return &directInbox{subject: answerSubject(p, instance), calls: make(map[uint64]*directCall)}
}

// open subscribes, and returns when the server knows.
func (i *directInbox) open(conn *nats.Conn) (err error) {
	if i.sub, err = conn.Subscribe(i.subject+"*", i.receive); err != nil {
		return err
	}
	if err := conn.FlushTimeout(enterTimeout); err != nil {
		return err
	}
	if err := conn.LastError(); errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), i.subject) {
		return err
	}
	return nil
}

func (i *directInbox) close() error {
	if i.sub == nil {
		return nil
	}
	return unsubscribe(i.sub)
}

// add has the answer to a request received, and returns its subject.
func (i *directInbox) add(c *directCall) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c.number == 0 {
		i.last++
		c.number = i.last
		i.calls[c.number] = c
	}
	return i.subject + strconv.FormatUint(c.number, 10)
}

// remove forgets a request.
func (i *directInbox) remove(c *directCall) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.calls, c.number)
}

// receive hands an answer to whoever waits for it. Its request was counted where it was answered.
func (i *directInbox) receive(msg *nats.Msg) {
	number, err := strconv.ParseUint(strings.TrimPrefix(msg.Subject, i.subject), 10, 64)
	if err != nil {
		return // no worker sends this
	}
	i.mu.Lock()
	c := i.calls[number]
	delete(i.calls, number)
	i.mu.Unlock()
	if c == nil {
		return // nobody waits any more
	}
	if _, err := messages.DecodeReply(msg, c.n); err != nil {
		var said *messages.Error
		if !errors.As(err, &said) {
			said = &messages.Error{Code: messages.CodeUnavailable, Text: err.Error()}
		}
		c.settle(nil, said)
		return
	}
	c.settle(msg.Data, nil)
}
