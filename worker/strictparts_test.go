package worker

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap/zaptest"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
)

// part is the part of one worker that answers requests for strict tags, and what answers others, with
// owners and a loader that the test plays.
type part struct {
	*strict
	owners   *fakeOwners
	endpoint *segmentEndpoint
	loads    chan allocator.Load
	figures  requestFigures
}

// partWait is how long a request may be parked, and hurry how long if it is not to be answered.
var partWait = natstest.Patience

const hurry = 400 * time.Millisecond

// partNet is an account with the rules that the tag strict is strict, and the tag trend is not.
func partNet(t *testing.T) (Account, jetstream.JetStream) {
	t.Helper()
	net := NewAccount(t)
	js := natstest.JetStream(t, net.Connect(t))
	if err := Provision(t.Context(), js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	makeStrict(t, js, "strict")
	return net, js
}

func startPart(t *testing.T, net Account, js jetstream.JetStream, instance string) *part {
	t.Helper()
	return startPartWithin(t, net, js, instance, partWait)
}

func startPartWithin(t *testing.T, net Account, js jetstream.JetStream, instance string, wait time.Duration) *part {
	t.Helper()
	cfg := Config{Requests: net.Connect(t), Control: net.Connect(t), Wait: wait, Log: zaptest.NewLogger(t)}.WithDefaults()
	info := processInfo{cfg: cfg, instance: instance, js: js, rules: tagrules.NewWatcher(js, cfg.Prefix, cfg.Log)}
	p := &part{owners: new(fakeOwners), loads: make(chan allocator.Load, 1000)}
	began := time.Now()
	alloc := allocator.New(allocator.Config{
		Clock: func() time.Duration { return time.Since(began) }, Load: func(l allocator.Load) { p.loads <- l },
		Wait: cfg.Wait, Ordered: func(tag string) bool { return isStrict(info.rules, tag) },
	})
	alloc.Update(map[string]int64{"strict": 10, "trend": 10})
	p.strict = newStrict(info, alloc, &p.figures)
	p.strict.owners = p.owners
	p.endpoint = newSegmentEndpoint(cfg, alloc, p.strict, new(waitingLine), &p.figures)
	if err := info.rules.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	background := newGoroutines()
	background.start(func(ctx context.Context) {
		for ctx.Err() == nil {
			alloc.Tick()
			time.Sleep(hurry / ticksPerWait)
		}
	})
	if err := p.start(t.Context(), background); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		background.stop()
		if err := p.close(); err != nil {
			t.Error(err)
		}
		info.rules.Close()
	})
	return p
}

// become makes the worker the owner of all slots, or ends that with epoch 0.
func (p *part) become(epoch uint64) {
	if _, was := p.owners.Term(0); was {
		p.owners.set("", 0)
		for slot := range 256 {
			p.endTerm(slot, 0)
		}
	}
	if epoch == 0 {
		return
	}
	for slot := range 256 {
		p.beginTerm(slot, epoch)
	}
	p.owners.set(p.instance, epoch)
	for slot := range 256 {
		p.ownerless.changedSlot(slot)
	}
}

// serve answers the next load with a segment that begins there.
func (p *part) serve(t *testing.T, first int64) allocator.Load {
	t.Helper()
	l := p.nextLoad(t)
	p.alloc.Grant(l.Tag, l.Seq, store.Segment{First: first, End: first + 100})
	return l
}

func (p *part) nextLoad(t *testing.T) allocator.Load {
	t.Helper()
	select {
	case l := <-p.loads:
		return l
	case <-time.After(natstest.Patience):
		t.Fatal("no load")
		return allocator.Load{}
	}
}

// caller sends requests to workers and gets the answers.
type caller struct {
	t    *testing.T
	conn *nats.Conn
	sub  *nats.Subscription
}

func newCaller(t *testing.T, net Account) caller {
	conn := net.Connect(t)
	sub, err := conn.SubscribeSync("answers.*")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	return caller{t, conn, sub}
}

// ask has a worker handle a request, as if NATS had delivered it.
func (p *part) ask(tag string, n int64, replyTo string, headers micro.Headers) {
	p.endpoint.Handle(&askedRequest{p: p, subject: messages.DefaultPrefix.Segment(tag), replyTo: replyTo, data: messages.EncodeCount(n), headers: headers})
}

type askedRequest struct {
	micro.Request
	p                *part
	subject, replyTo string
	data             []byte
	headers          micro.Headers
}

func (r *askedRequest) Subject() string        { return r.subject }
func (r *askedRequest) Reply() string          { return r.replyTo }
func (r *askedRequest) Data() []byte           { return r.data }
func (r *askedRequest) Headers() micro.Headers { return r.headers }

func (r *askedRequest) Respond(data []byte, _ ...micro.RespondOpt) error {
	return lateReply{r.p.cfg.Requests, r.replyTo}.Respond(data)
}

func (r *askedRequest) Error(code, text string, data []byte, _ ...micro.RespondOpt) error {
	return lateReply{r.p.cfg.Requests, r.replyTo}.Error(code, text, data)
}

// answer returns the next answer: the text of IDs, or the code and text of an error.
func (c caller) answer() string {
	c.t.Helper()
	msg, err := c.sub.NextMsg(natstest.Patience)
	if err != nil {
		c.t.Fatal(err)
	}
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		return code + " " + msg.Header.Get(micro.ErrorHeader)
	}
	return string(msg.Data)
}

func (c caller) want(want string) {
	c.t.Helper()
	if got := c.answer(); !strings.HasPrefix(got, want) {
		c.t.Fatalf("answered %q, want %q", got, want)
	}
}

// wantNothing fails if there was an answer to what has been handled.
func (c caller) wantNothing() {
	c.t.Helper()
	if msg, err := c.sub.NextMsg(20 * time.Millisecond); err == nil {
		c.t.Fatalf("answered %q, want nothing yet", msg.Data)
	}
}

// A request is received before the time of the owner is up, and answered by nobody whose time is up: what
// was taken for it is burnt.
func TestLookComesAfterTheTake(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	p, c := startPart(t, net, js, "A"), newCaller(t, net)
	p.become(1)
	p.ask("strict", 1, "answers.1", nil)
	p.serve(t, 1)
	c.want("1")

	p.owners.setDead(true) // it owns the slot, and does not know until when
	p.ask("strict", 1, "answers.2", nil)
	p.ask("strict", 3, "answers.3", nil)
	c.wantNothing()
	if burnt := p.burnt.Load(); burnt != 4 {
		t.Errorf("%d IDs burnt, want 4", burnt)
	}
	p.owners.setDead(false)
	for slot := range 256 {
		p.ownerless.changedSlot(slot)
	}
	got := []string{c.answer(), c.answer()}
	if got[0] != "6" && got[0] != "6-8" && got[0] != "7-9" && got[0] != "9" {
		t.Errorf("answered %q after what was burnt", got)
	}
}

// The same for a request that was parked, and gets its grant when the time is up.
func TestLookComesAfterTheGrant(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	p, c := startPart(t, net, js, "A"), newCaller(t, net)
	p.become(1)
	p.ask("strict", 2, "answers.1", nil)
	p.owners.setDead(true)
	p.serve(t, 1)
	c.wantNothing()
	if burnt := p.burnt.Load(); burnt != 2 {
		t.Errorf("%d IDs burnt, want 2", burnt)
	}
}

// A new term begins with nothing: what the one before had in memory is dropped, and what was asked for in it
// is burnt when it comes, even if the process is the same.
func TestNewTermBeginsWithNothing(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	p, c := startPart(t, net, js, "A"), newCaller(t, net)
	p.become(1)
	p.ask("strict", 1, "answers.1", nil)
	p.serve(t, 1)
	c.want("1")
	p.ask("strict", 1000, "answers.2", nil) // has to be loaded
	early := p.nextLoad(t)

	p.become(2)
	p.ask("strict", 1, "answers.3", nil)
	c.wantNothing() // from the memory of term 1
	for later := early; later.Seq == early.Seq; {
		later = p.nextLoad(t)
		if later.Seq != early.Seq {
			p.alloc.Grant("strict", early.Seq, store.Segment{First: 5001, End: 7001})
			c.wantNothing() // from what was asked for in term 1
			p.alloc.Grant("strict", later.Seq, store.Segment{First: 9001, End: 12001})
		}
	}
	for range 2 {
		if got := c.answer(); !strings.HasPrefix(got, "9001") && !strings.HasPrefix(got, "9002") && !strings.HasPrefix(got, "10001") {
			t.Errorf("answered %q, want what was asked for in term 2", got)
		}
	}
}

// Another process owns the slot: it gets the request, who gets the answer, and how long that may take; and
// the ones that were parked here for a term that has ended. It gets nothing else of the caller's message,
// for headers would be carried out with the worker's rights.
func TestPassedOn(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	p, c := startPart(t, net, js, "A"), newCaller(t, net)
	owner, err := c.conn.SubscribeSync(forwardSubject(messages.DefaultPrefix, "B", ">"))
	if err != nil {
		t.Fatal(err)
	}
	p.become(1)
	headers := micro.Headers{"Nats-Trace-Dest": {"$KV.ids_config.installation"}, "X": {"1"}}
	p.ask("strict", 7, "answers.1", headers)
	p.become(0)
	p.owners.set("B", 0)
	for i, want := range []string{"answers.1", "answers.2"} {
		if i == 1 {
			p.ask("strict", 7, want, headers)
		}
		msg, err := owner.NextMsg(natstest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		w := decodePassedOn(msg.Data)
		if w.replyTo != want || w.hops != 1 || w.left <= 0 || w.left > partWait || len(msg.Header) != 0 ||
			string(w.count) != "7" || msg.Subject != "ids.strict.B.strict" {
			t.Errorf("passed on as %s %q %v", msg.Subject, msg.Data, msg.Header)
		}
	}
	c.wantNothing()
	if n := p.forwarded.Load(); n != 2 {
		t.Errorf("%d counted", n)
	}
}

// Two processes each of which believes that the other one is the owner pass a request back and forth some
// times, and not for ever. It gets 503, at its deadline, with the reason.
func TestNoCircle(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	a, b, c := startPartWithin(t, net, js, "A", hurry), startPartWithin(t, net, js, "B", hurry), newCaller(t, net)
	a.owners.set("B", 0)
	b.owners.set("A", 0)
	a.ask("strict", 1, "answers.1", nil)
	c.want("503 no owner of this strictly ordered tag before the deadline: it is said to be")
	if n := a.forwarded.Load() + b.forwarded.Load(); n < 1 || n > maxHops {
		t.Errorf("passed on %d times", n)
	}
}

// Nobody is known to be the owner: the request is parked, somebody is wanted, and it gets its IDs when this
// process becomes the owner; or 503, with the reason.
func TestNoOwner(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	c := newCaller(t, net)
	startPartWithin(t, net, js, "B", hurry).ask("strict", 1, "answers.1", nil)
	c.want("503 no owner of this strictly ordered tag before the deadline: none is known")
	p := startPart(t, net, js, "A")
	p.ask("strict", 1, "answers.2", nil)
	if p.owners.wanted() == 0 {
		t.Error("nobody was wanted")
	}
	p.become(1)
	p.serve(t, 1)
	c.want("1")
	if n := p.ownerless.parked(); n != 0 {
		t.Errorf("%d still parked", n)
	}
}

// The owner has died: the server says so, and the request is parked until there is another one.
func TestOwnerThatDied(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	p, c := startPart(t, net, js, "A"), newCaller(t, net)
	p.owners.set("dead", 0)
	p.ask("strict", 2, "answers.1", nil)
	natstest.Eventually(t, "parked", func() bool { return p.ownerless.parked() == 1 })
	p.become(1)
	p.serve(t, 1)
	c.want("1-2")
}

// Ordinary tags are answered while as many requests for strict ones wait for an owner as may. One more is
// refused.
func TestOrdinaryTagsAreNotHeldUp(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	p, c := startPart(t, net, js, "A"), newCaller(t, net)
	p.ask("trend", 1, "answers.0", nil)
	p.serve(t, 1)
	c.want("1")
	for i := range maxOwnerlessPerSlot {
		p.ask("strict", 1, "none."+strconv.Itoa(i), nil)
	}
	p.ask("strict", 1, "answers.1", nil)
	c.want("429 too many parked requests")
	p.ask("trend", 1, "answers.2", nil)
	c.want("2")
}

// Who keeps IDs for later does not get those of a strict tag.
func TestPrefetchOfAStrictTag(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	p, c := startPart(t, net, js, "A"), newCaller(t, net)
	p.become(1)
	headers := micro.Headers{messages.PrefetchHeader: {"1"}}
	p.ask("strict", 1, "answers.1", headers)
	c.want("409 the tag is strictly ordered")
	p.ask("trend", 1, "answers.2", headers)
	p.serve(t, 1)
	c.want("1")
}

// A tag becomes strict: what it has in memory is dropped, and the requests that are parked are for its owner.
func TestTagBecomesStrict(t *testing.T) {
	t.Parallel()
	net, js := partNet(t)
	p, c := startPart(t, net, js, "A"), newCaller(t, net)
	running := newGoroutines()
	running.start(p.rules.Run)
	defer running.stop()
	p.ask("trend", 1, "answers.1", nil)
	p.serve(t, 1)
	c.want("1")
	p.ask("trend", 1000, "answers.2", nil)
	editor, err := tagrules.OpenEditor(t.Context(), js, messages.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	revision, err := editor.SetOrder(t.Context(), "trend", tagrules.Strict)
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "acted upon", func() bool { return p.rules.Revision() >= revision })
	p.ask("trend", 1, "answers.3", nil)
	natstest.Eventually(t, "both wait for an owner", func() bool { return p.ownerless.parked() == 2 })
	c.wantNothing()
	if dropped := p.alloc.Dropped(); dropped != 99 {
		t.Errorf("%d IDs dropped, want 99", dropped)
	}
}

// A parked request has one place, also while it is looked at and parked once more.
func TestOnePlaceForAParkedRequest(t *testing.T) {
	w := newOwnerless()
	for range maxOwnerlessPerSlot {
		w.add(new(ordered))
	}
	for _, o := range w.takeChanged(true) {
		if w.add(new(ordered)) || !w.add(o) {
			t.Fatal("while one is looked at, there is room for another one, or none for it")
		}
		w.remove(o)
	}
	if n := w.parked(); n != maxOwnerlessPerSlot {
		t.Errorf("%d are parked", n)
	}
	for _, o := range w.takeChanged(true) {
		w.remove(o)
	}
	if n := w.parked(); n != 0 || !w.add(new(ordered)) {
		t.Errorf("%d are parked, want none and room for one", n)
	}
}
