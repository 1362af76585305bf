package worker

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/internal/ownership"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// All of a burst of requests that is passed on to an owner that has died are answered.
func TestBurstToAnOwnerThatDied(t *testing.T) {
	net, js := partNet(t)
	p, c := startPart(t, net, js, "A"), newCaller(t, net)
	p.owners.set("dead", 0)
	for i := range maxOwnerlessPerSlot {
		p.ask("strict", 1, "answers."+strconv.Itoa(i), nil)
	}
	for range maxOwnerlessPerSlot {
		c.want("503 no owner of this strictly ordered tag before the deadline: it is said to be dead")
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

// What the server has taken is forgotten soon, and not at the deadline only.
func TestPassedOnIsForgotten(t *testing.T) {
	net, js := partNet(t)
	p := startPatientPart(t, net, js, "A", time.Minute)
	ownerThatIsSilent(t, net, "B")
	p.owners.set("B", 0)
	for i := range 100 {
		p.ask("strict", 1, "answers."+strconv.Itoa(i), nil)
	}
	natstest.Eventually(t, "forgotten", func() bool { return p.onTheWay.remembered() == 0 })
	if n := p.forwarded.Load(); n != 100 {
		t.Errorf("%d were passed on", n)
	}
}

// ownerThatIsSilent gets what is passed on to a process, and answers nothing.
func ownerThatIsSilent(t *testing.T, net *natstest.Server, instance string) {
	t.Helper()
	conn := net.Connect(t)
	if _, err := conn.Subscribe(forwardSubject(messages.DefaultPrefix, instance, ">"), func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// The headers of callers do not stay in memory: not those of requests that were passed on, nor those of
// parked ones.
func TestHeadersAreNotKept(t *testing.T) {
	net, js := partNet(t)
	p := startPatientPart(t, net, js, "A", time.Minute)
	const n, size = 200, 200_000
	before := heapInUse()
	for i := range n {
		p.ask("strict", 1, "answers."+strconv.Itoa(i), micro.Headers{"X": {strings.Repeat("x", size)}})
	}
	if after := heapInUse(); after > before+n*size/4 {
		t.Errorf("%d MB more with %d requests whose headers have %d bytes", (after-before)>>20, n, size)
	}
	if got := p.ownerless.parked(); got != n {
		t.Errorf("%d are parked", got)
	}
	p.become(1)
	p.serve(t, 1)
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// What no worker would pass on is refused: tags that are none, and reply subjects with more than a subject
// in them.
func TestForgedRequest(t *testing.T) {
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

// A request whose reply subject makes it too large to be passed on is refused at once, and told why.
func TestReplySubjectTooLong(t *testing.T) {
	net, js := partNet(t, func(o *server.Options) { o.MaxPayload = 2048 })
	p, c := startPatientPart(t, net, js, "A", time.Minute), newCaller(t, net)
	ownerThatIsSilent(t, net, "B")
	p.owners.set("B", 0)
	p.ask("strict", 1, "answers."+strings.Repeat("x", 2048), nil)
	c.want("400 the reply subject is too long")
}

// A process that has stopped owning passes requests on to another one that lives, whoever else has died just
// before: to the owner, if that is known, else to all in turn.
func TestHeirThatDied(t *testing.T) {
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
