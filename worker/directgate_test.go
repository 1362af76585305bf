package worker

import (
	"errors"
	"testing"

	"github.com/idworker/idworker/messages"
)

// TestDirectIsBehindTheGate: whoever comes by another way than NATS gets nothing either from a process that
// gives way to another installation, is overloaded, or stops; neither IDs of tags nor snowflake IDs.
func TestDirectIsBehindTheGate(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	p := startPart(t, net, js, "me")
	group := newMembership(p.cfg.Log)
	d := &Direct{
		wait: partWait, requests: newFrame(p.cfg, new(waitingLine), &p.figures), times: newFrame(p.cfg, new(waitingLine), &p.figures),
		segments: p.endpoint.segments, snowflakes: &snowflakes{}, group: group, inbox: newDirectInbox(p.cfg.Prefix, p.instance),
	}
	refused := func(why string, want error) {
		t.Helper()
		for kind, ask := range map[string]func() ([]byte, error){
			"segment":   func() ([]byte, error) { return d.Segment(t.Context(), "trend", nil, false) },
			"snowflake": func() ([]byte, error) { return d.Snowflake(t.Context(), nil) },
		} {
			if reply, err := ask(); reply != nil || !errors.Is(err, want) {
				t.Errorf("%s, %s: got %q, %v; want %v", why, kind, reply, err, want)
			}
		}
	}
	group.stayAway(givingWay, true)
	refused("gives way", messages.ErrUnavailable)
	group.stayAway(givingWay, false)
	group.stayAway(overloaded, true)
	refused("overloaded", messages.ErrBusy)
	group.stayAway(overloaded, false)

	answers := make(chan []byte, 1)
	go func() {
		reply, err := d.Segment(t.Context(), "trend", nil, false)
		if err != nil {
			t.Error(err)
		}
		answers <- reply
	}()
	p.serve(t, 1)
	if reply := <-answers; string(reply) != "1" {
		t.Errorf("got %q, want the first ID: nothing was taken before", reply)
	}
	group.close()
	refused("stopping", messages.ErrUnavailable)
}

// TestDirectForAnOwnerThatIsSilent: a request that was passed on and never answered ends by itself, and leaves
// nothing behind.
func TestDirectForAnOwnerThatIsSilent(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	p := startPartWithin(t, net, js, "me", hurry)
	silent := net.Connect(t)
	if _, err := silent.SubscribeSync(forwardSubject(p.cfg.Prefix, "silent", ">")); err != nil {
		t.Fatal(err)
	}
	if err := silent.Flush(); err != nil {
		t.Fatal(err)
	}
	p.owners.set("silent", 0)
	d := &Direct{
		wait: hurry, requests: newFrame(p.cfg, new(waitingLine), &p.figures),
		segments: p.endpoint.segments, group: newMembership(p.cfg.Log), inbox: newDirectInbox(p.cfg.Prefix, p.instance),
	}
	reply, err := d.Segment(t.Context(), "strict", nil, false)
	if reply != nil || !errors.Is(err, messages.ErrUnavailable) || len(d.inbox.calls) != 0 {
		t.Errorf("got %q, %v, and %d requests are kept", reply, err, len(d.inbox.calls))
	}
	if n := p.figures.outcomes[5].Load(); outcomes[5] != messages.CodeUnavailable || n != 1 {
		t.Errorf("%d counted as 503", n)
	}
}
