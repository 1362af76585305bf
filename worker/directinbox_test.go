package worker

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
)

// TestAnswersOfOwners: an answer goes to the request that it names, once, and only if it is one.
func TestAnswersOfOwners(t *testing.T) {
	box := newDirectInbox(messages.DefaultPrefix, "me")
	ask := func() *directCall { return &directCall{inbox: box, n: 3, done: make(chan struct{})} }
	good, bad, refused, gone := ask(), ask(), ask(), ask()
	for i, c := range []*directCall{good, bad, refused, gone} {
		if got := c.address() + "|" + c.address(); got != []string{"ids.answer.me.1|ids.answer.me.1", "ids.answer.me.2|ids.answer.me.2", "ids.answer.me.3|ids.answer.me.3", "ids.answer.me.4|ids.answer.me.4"}[i] {
			t.Errorf("address %s", got)
		}
	}
	box.remove(gone)
	no := nats.NewMsg("ids.answer.me.3")
	no.Header.Set(micro.ErrorCodeHeader, "404")
	no.Header.Set(micro.ErrorHeader, "no such tag")
	for _, msg := range []*nats.Msg{
		{Subject: "ids.answer.me.1", Data: []byte("5-7")},
		{Subject: "ids.answer.me.1", Data: []byte("8-10")},
		{Subject: "ids.answer.me.2", Data: []byte("5-9")}, // not what was asked for
		no,
		{Subject: "ids.answer.me.4", Data: []byte("5-7")},
		{Subject: "ids.answer.me.99", Data: []byte("5-7")},
		{Subject: "ids.answer.me.x", Data: []byte("5-7")},
	} {
		box.receive(msg)
	}
	if reply, err := good.result(); string(reply) != "5-7" || err != nil {
		t.Errorf("got %q, %v", reply, err)
	}
	if reply, err := bad.result(); reply != nil || !errors.Is(err, messages.ErrUnavailable) {
		t.Errorf("got %q, %v; want 503", reply, err)
	}
	if reply, err := refused.result(); reply != nil || !errors.Is(err, messages.ErrNoTag) {
		t.Errorf("got %q, %v; want 404", reply, err)
	}
	if !gone.open() || len(box.calls) != 0 {
		t.Errorf("a request that was removed got an answer, or %d are kept", len(box.calls))
	}
}

// TestFirstResultCounts: whoever answers later, for example because a request was given up and answered
// in the same moment, changes nothing.
func TestFirstResultCounts(t *testing.T) {
	c := &directCall{done: make(chan struct{})}
	_ = c.Respond([]byte("1"))
	_ = c.Respond([]byte("2"))
	_ = c.Error("503", "late", nil)
	if reply, err := c.result(); string(reply) != "1" || err != nil || c.open() {
		t.Errorf("got %q, %v", reply, err)
	}
}

// TestWhatRefusesDirectRequests: a process that gives way to another installation, is overloaded or stops
// answers nobody, whichever way they come.
func TestWhatRefusesDirectRequests(t *testing.T) {
	m := newMembership(nil)
	if err := m.refuses(); err != nil {
		t.Errorf("outside the group, as without a connection: %v", err)
	}
	for _, c := range []struct {
		why  outReason
		want error
	}{{givingWay, errGivesWay}, {overloaded, errOverloaded}, {givingWay | overloaded, errGivesWay}} {
		m.stayAway(c.why, true)
		if err := m.refuses(); !errors.Is(err, c.want) {
			t.Errorf("%v: %v", c.why, err)
		}
		m.stayAway(c.why, false)
	}
	m.close()
	if err := m.refuses(); !errors.Is(err, errStopping) {
		t.Errorf("closed: %v", err)
	}
}
