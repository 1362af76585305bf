package worker

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/internal/ownership"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// All of a burst of requests that is passed on to an owner that has died are parked, and so answered.
func TestBurstToAnOwnerThatDied(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	p := startPartWithin(t, net, js, "A", natstest.Patience)
	p.owners.set("dead", 0)
	for i := range maxOwnerlessPerSlot {
		p.ask("strict", 1, "answers."+strconv.Itoa(i), nil)
	}
	natstest.Eventually(t, "none is on its way", func() bool { return p.onTheWay.remembered() == 0 })
	handled := make(chan struct{})
	if err := p.cfg.Requests.Barrier(func() { close(handled) }); err != nil {
		t.Fatal(err)
	}
	<-handled
	if n := p.ownerless.parked(); n != maxOwnerlessPerSlot {
		t.Errorf("%d of %d are parked", n, maxOwnerlessPerSlot)
	}
}

// While nothing is heard of the server, no more requests are passed on than can be remembered. Those whose
// deadline has passed make room.
func TestTooManyOnTheWay(t *testing.T) {
	s := idleStrict()
	s.owners.(*fakeOwners).set("B", 0)
	later, late := elapsed()+time.Hour, elapsed()
	for i := range mostOnTheWay {
		deadline := later
		if i < 10 {
			deadline = late
		}
		s.onTheWay.add(&ordered{deadline: deadline})
	}
	if s.passOn(&ordered{deadline: later}) || s.onTheWay.remembered() != mostOnTheWay {
		t.Error("one more is passed on")
	}
	s.onTheWay.forgetLate()
	if n := s.onTheWay.remembered(); n != mostOnTheWay-10 {
		t.Errorf("%d are remembered", n)
	}
	inbox, ok := s.onTheWay.add(&ordered{n: 7})
	o := s.onTheWay.take(&nats.Msg{Subject: inbox, Header: nats.Header{"Status": {"503"}}})
	if !ok || o == nil || o.n != 7 {
		t.Errorf("%v, %v under %s", o, ok, inbox)
	}
}

// What no worker would pass on is refused: tags that are none, and reply subjects with more than a subject
// in them.
func TestForgedRequest(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	p, c := startPart(t, net, js, "A"), newCaller(t, net)
	p.become(1)
	body := passedOn{messages.EncodeCount(1), 1, partWait, "answers.1"}.encode()
	for _, tag := range []string{"chat.*", "chat.ü", strings.Repeat("x", messages.MaxTagLen+1)} {
		if err := c.conn.Publish(forwardSubject(messages.DefaultPrefix, "A", tag), body); err != nil {
			t.Fatal(err)
		}
		c.want("400 ")
	}
	if n := p.received.Load(); n != 0 {
		t.Errorf("%d counted", n)
	}
	for _, replyTo := range []string{"a b", "a\tb", "a\r\nPUB b 0\r\n\r\n", "a\nb"} {
		if got := decodePassedOn(passedOn{messages.EncodeCount(2), 1, partWait, replyTo}.encode()); got.replyTo != "" {
			t.Errorf("%q is taken for a reply subject", replyTo)
		}
	}
}

// A request whose deadline passes while it is being passed on can be read, and so gets its answer.
func TestPassedOnLate(t *testing.T) {
	late := &ordered{tag: "strict", n: 3, by: requester{replyTo: "answers.1"}, deadline: elapsed() - time.Second}
	got := decodePassedOn(late.forwarded(messages.DefaultPrefix, "A").Data)
	if got.replyTo != "answers.1" || got.left != 0 {
		t.Errorf("%+v is read", got)
	}
}

// A process that has stopped owning passes requests on to another one that lives, whoever else has died just
// before: to the owner, if that is known, else to all in turn.
func TestHeirThatDied(t *testing.T) {
	t.Parallel()
	for name, owner := range map[string]string{"owner known": "C", "owner unknown": "", "owner died": "dead"} {
		t.Run(name, func(t *testing.T) {
			net, js := partNet(t)
			c, stopping, alive := newCaller(t, net), startPart(t, net, js, "B"), startPart(t, net, js, "C")
			alive.become(1)
			stopping.owners.set(owner, 0)
			stopping.owners.leases = []ownership.Lease{{Instance: "B"}, {Instance: "lost", Lost: true}, {Instance: "dead"}, {Instance: "C"}, {Instance: "dead too"}}
			stopping.chooseHeirs()
			stopping.ask("strict", 1, "answers.1", nil)
			alive.serve(t, 1)
			c.want("1")
		})
	}
}

// Who keeps IDs for later does not get those of a tag that became strict while the request was parked.
func TestPrefetchOfATagThatBecomesStrict(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	p, c := startPart(t, net, js, "A"), newCaller(t, net)
	running := newGoroutines()
	running.start(p.rules.Run)
	defer running.stop()
	p.ask("trend", 1, "answers.1", micro.Headers{messages.PrefetchHeader: {"1"}})
	makeStrict(t, js, "trend")
	c.want("409 the tag is strictly ordered")
}

func makeStrict(t *testing.T, js jetstream.JetStream, tag string) {
	t.Helper()
	editor, err := tagrules.OpenEditor(t.Context(), js, messages.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := editor.SetOrder(t.Context(), tag, tagrules.Strict); err != nil {
		t.Fatal(err)
	}
}
