package worker

import (
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
)

// directCall is one request to a [Direct]. It is its own replier, and keeps what it is replied with. The
// first result counts; the IDs of any other are burnt.
type directCall struct {
	done chan struct{} // closed when there is a result; nil if that is before anybody waits

	settled atomic.Bool
	reply   []byte
	err     error
}

// open reports whether a result is still wanted.
func (c *directCall) open() bool { return !c.settled.Load() }

// settle makes something the result, if it is the first.
func (c *directCall) settle(reply []byte, err error) {
	if c.settled.Swap(true) {
		return
	}
	c.reply, c.err = reply, err
	if c.done != nil {
		close(c.done)
	}
}

func (c *directCall) result() ([]byte, error) { return c.reply, c.err }

// Respond is part of replier. It keeps the data.
func (c *directCall) Respond(data []byte, _ ...micro.RespondOpt) error {
	c.settle(data, nil)
	return nil
}

// Error is part of replier.
func (c *directCall) Error(code, text string, _ []byte, _ ...micro.RespondOpt) error {
	number, err := strconv.Atoi(code)
	c.settle(nil, &messages.Error{Code: messages.Code(number), Text: text})
	return err
}
