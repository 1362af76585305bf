package e2e

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
)

// TestNoDuplicateFromPausedHolder stops the holder of a worker ID until another process has
// its worker ID, and then lets it go on, with requests waiting in its socket. There are
// three processes for two worker IDs, so that the third has to take over this one.
//
// A reply does not say who sent it. But the other processes prove that they have handled
// everything they got before: each answers a request that was sent later. What has no
// answer by then waits at the process that is stopped.
func TestNoDuplicateFromPausedHolder(t *testing.T) {
	const (
		ttl        = time.Second
		layoutText = "50:1ms/w1/s12@1735689600000"
	)
	rounds := soak.Pick(3, 20)
	layout, err := snowflake.ParseLayout(layoutText)
	if err != nil {
		t.Fatal(err)
	}
	ns := natstest.Start(t, syncAlways)
	byInstance := make(map[string]*process)
	for range 3 {
		p := startWorker(t, ns.URL(), "--layout", layoutText, "--lease-ttl", ttl.String())
		byInstance[p.instance()] = p
	}
	held := watchLives(t, ns.URL(), layout)
	js, err := jetstream.New(connect(t, ns.URL()))
	if err != nil {
		t.Fatal(err)
	}
	post := startPosting(t, ns.URL(), layout)

	begin := time.Now()
	var waiting, refused int
	var late, inTime int64
	for range rounds {
		who := oneHolder(t, js)
		paused := byInstance[who]
		// First for less than the TTL: it is still the holder then, and answers with IDs.
		for _, nap := range []time.Duration{ttl / 3, 3 * ttl} {
			time.Sleep(ttl / 10)
			if nap > ttl {
				// More than it can answer at once: when it goes on, it is in the middle of
				// them, before anything tells it how late it is.
				post.burst(20_000)
			}
			paused.pause()
			stopped := time.Now()
			worker, before, holds := stoppedHolder(t, js, held, who)
			if !holds { // it was slow, and had lost it before
				paused.resume()
				continue
			}
			time.Sleep(nap)
			if nap > ttl {
				natstest.Eventually(t, readyWithin, "another one takes over the worker ID", func() bool {
					return held.current(worker).hold != before.hold
				})
			}
			lying := post.unanswered(nap > ttl)
			held.settle(t)
			hi := held.reserved(worker, before.hold) // the last there will be
			paused.resume()
			natstest.Eventually(t, readyWithin, "what lay in the socket is answered", func() bool { return post.answered(lying) })
			for _, p := range post.of(lying) {
				waiting++
				if p.ranges == nil {
					refused++
					continue
				}
				for id := range messages.IDs(p.ranges) {
					if nap < ttl {
						inTime++ // checkLives looks at them
						continue
					}
					late++
					at := layout.Timestamp(snowflake.ID(id))
					if layout.WorkerID(snowflake.ID(id)) == worker && at >= hi {
						t.Fatalf("FOREIGN TIME: stopped for %v, then it answered a request of %v after the stop with %d, worker ID %d at %d, which it held up to %d",
							nap, p.sent.Sub(stopped), id, worker, at, hi)
					}
				}
			}
		}
	}
	replies := post.finish(t)
	took := time.Since(begin)

	ids := checkDistinct(t, rangesOfAll(replies))
	makers := checkLives(t, held, replies)
	if waiting < 10*rounds || inTime == 0 {
		t.Errorf("%d requests waited in the socket, %d IDs were made of them: that shows nothing", waiting, inTime)
	}
	t.Logf("%d IDs in %d replies in %v, %d lives; %d requests waited in the socket of a process that was stopped: "+
		"%d IDs while it was still the holder, %d IDs later on, %d refused",
		ids, len(replies), took.Round(time.Millisecond), makers, waiting, inTime, late, refused)
}

// oneHolder waits until both worker IDs are held, and returns one of the holders.
func oneHolder(t *testing.T, js jetstream.JetStream) (instance string) {
	t.Helper()
	natstest.Eventually(t, readyWithin, "both worker IDs are held", func() bool {
		all, _, err := lease.List(t.Context(), js, messages.DefaultPrefix)
		if err != nil || len(all) != 2 || !all[0].Held() || !all[1].Held() {
			return false
		}
		instance = all[rand.IntN(2)].Instance
		return true
	})
	return instance
}

// stoppedHolder returns what a process that was just stopped holds, if anything. It looks
// before and after, because a lease can end in between.
func stoppedHolder(t *testing.T, js jetstream.JetStream, held *lives, instance string) (worker int64, life life, ok bool) {
	t.Helper()
	holds := func() (int64, bool) {
		all, _, err := lease.List(t.Context(), js, messages.DefaultPrefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range all {
			if h.Held() && h.Instance == instance {
				return h.Worker, true
			}
		}
		return 0, false
	}
	worker, before := holds()
	held.settle(t)
	life = held.current(worker)
	again, after := holds()
	return worker, life, before && after && worker == again
}

// posting sends requests without waiting for their answers.
type posting struct {
	t      testing.TB
	conn   *nats.Conn
	layout snowflake.Layout
	stop   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup

	mu  sync.Mutex
	all []*posted
}

// posted is one request.
type posted struct {
	reply
	n    int64
	done bool
}

const postInbox = "_POSTED."

// startPosting sends a request every millisecond or so.
func startPosting(t testing.TB, url string, layout snowflake.Layout) *posting {
	t.Helper()
	p := &posting{t: t, conn: connect(t, url), layout: layout, stop: make(chan struct{})}
	sub, err := p.conn.Subscribe(postInbox+"*", p.receive)
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 7))
	p.wg.Go(func() {
		for {
			select {
			case <-p.stop:
				return
			case <-time.After(time.Millisecond):
				p.send(count(random, 4096))
			}
		}
	})
	t.Cleanup(p.end)
	return p
}

// burst sends many requests, and returns when the server has them.
func (p *posting) burst(n int) {
	for range n {
		p.send(64)
	}
	if err := p.conn.Flush(); err != nil {
		p.t.Errorf("flush: %v", err)
	}
}

// send sends a request and returns its number.
func (p *posting) send(n int64) int {
	p.mu.Lock()
	number := len(p.all)
	p.all = append(p.all, &posted{n: n, reply: reply{sent: time.Now()}})
	p.mu.Unlock()
	err := p.conn.PublishRequest(messages.DefaultPrefix.Snowflake(), postInbox+strconv.Itoa(number), messages.EncodeCount(n))
	if err != nil {
		p.t.Errorf("publish: %v", err)
	}
	return number
}

// receive is called with each answer.
func (p *posting) receive(msg *nats.Msg) {
	number, err := strconv.Atoi(strings.TrimPrefix(msg.Subject, postInbox))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || number >= len(p.all) || p.all[number].done {
		p.t.Errorf("an answer to %s too many: %q", msg.Subject, msg.Data)
		return
	}
	r := p.all[number]
	r.done, r.received = true, time.Now()
	r.ranges, _ = messages.DecodeReply(msg, r.n) // a refusal has none
}

// unanswered returns the numbers of the requests that wait at the process that is stopped.
// Until its worker ID is taken over, one other holder is left; after that there are two.
func (p *posting) unanswered(takenOver bool) (numbers []int) {
	p.t.Helper()
	p.mu.Lock()
	sent := len(p.all)
	p.mu.Unlock()
	var probes []int
	others := 1
	if takenOver {
		others = 2
	}
	natstest.Eventually(p.t, readyWithin, "the others have answered what was sent", func() bool {
		probes = append(probes, p.send(1))
		workers := make(map[int64]bool)
		for _, probe := range p.of(probes) {
			if probe.ranges != nil {
				workers[p.layout.WorkerID(snowflake.ID(probe.first()))] = true
			}
		}
		return len(workers) >= others
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	for number, r := range p.all[:sent] {
		if !r.done {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// of returns requests by their numbers, as far as they were answered.
func (p *posting) of(numbers []int) (found []posted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, number := range numbers {
		if p.all[number].done {
			found = append(found, *p.all[number])
		}
	}
	return found
}

func (p *posting) answered(numbers []int) bool { return len(p.of(numbers)) == len(numbers) }

func (p *posting) end() {
	p.once.Do(func() { close(p.stop) })
	p.wg.Wait()
}

// finish stops sending, and returns all answers with IDs, once every request has one.
func (p *posting) finish(t testing.TB) (replies []reply) {
	t.Helper()
	p.end()
	var all []int
	for number := range p.all {
		all = append(all, number)
	}
	natstest.Eventually(t, readyWithin, "every request is answered", func() bool { return p.answered(all) })
	for _, r := range p.of(all) {
		if r.ranges != nil {
			replies = append(replies, r.reply)
		}
	}
	return replies
}
