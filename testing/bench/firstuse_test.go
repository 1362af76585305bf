package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/sql"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

// TestFirstUses: random requests create sequences, some of them active at a
// time, and some requested again long after. All workers are restarted in the
// middle. No ID comes twice, each sequence's first ID is 1, and after the
// restart all continue upward. A few begin with a gap: if two workers get
// requests for the same sequence at once, or its owner changes.
//
// With FIRST_USE_SYNC=1 the server syncs every write. With FIRST_USE_MARIADB=1
// the tags are rows of a database, which always does, behind the register.
func TestFirstUses(t *testing.T) {
	for _, order := range []store.Order{store.Trend, store.Strict} {
		t.Run(string(order), func(t *testing.T) { testFirstUses(t, order) })
	}
}

func testFirstUses(t *testing.T, order store.Order) {
	sequences := tier.Pick(4_000, 1_000_000)
	if n, err := strconv.Atoi(os.Getenv("FIRST_USES")); err == nil {
		sequences = n
	}
	s := newTemplates(t, order, int64(2*sequences))
	u := &firstUses{t: t, conn: s.net.Connect(t), active: min(10_000, sequences/4)}
	u.listen()
	for round := range 2 {
		var workers []member
		for range 2 {
			w, err := s.start(worker.RoleAll)
			if err != nil {
				t.Fatal(err)
			}
			workers = append(workers, w)
		}
		began, before := time.Now(), len(u.sequences)
		u.run(sequences * (round + 1) / 2)
		took := time.Since(began)
		made := len(u.sequences) - before
		t.Logf("%d sequences were made in %v, %.0f a second; %d requests in all, %d of them again", made, took.Round(time.Millisecond), float64(made)/took.Seconds(), u.requests, u.again)
		for _, w := range workers {
			if err := w.stop(); err != nil {
				t.Error(err)
			}
		}
		u.restarted()
	}
	tags, _, _, err := s.register.AllTags(t.Context())
	if err != nil || len(tags) != len(u.sequences) {
		t.Errorf("the store has %d tags, %v; want %d", len(tags), err, len(u.sequences))
	}
}

// newTemplates makes a site with a template.
func newTemplates(t *testing.T, order store.Order, most int64) *site {
	t.Helper()
	cfg, table := worker.Config{Wait: answerWithin * 2 / 3}, store.Database(nil)
	if os.Getenv("FIRST_USE_MARIADB") != "" {
		table, cfg.Reservations = openTable(t, databases[0].start(t).DB), sql.Reservations
	}
	s := newSite(t, natstest.Start(t, func(o *server.Options) { o.SyncAlways, o.NoLog = os.Getenv("FIRST_USE_SYNC") != "", true }), cfg, table)
	if err := templates.Create(t.Context(), s.js, s.cfg.Prefix, templates.Template{Pattern: "chat.*", Step: 10, Order: order, MaxTags: most}); err != nil {
		t.Fatal(err)
	}
	return s
}

// firstUses is a caller that has many requests under way, and a memory of all
// that it was answered.
type firstUses struct {
	t         *testing.T
	conn      *nats.Conn
	inbox     string
	replies   chan *nats.Msg
	active    int
	requests  int
	again     int // answered with an error that passes
	sequences []sequence
	asked     []int // the sequence of each request under way
	free      []int
}

// sequence is the state of a sequence.
type sequence struct {
	ids   []int64
	above int64 // all that comes now has to be higher
	busy  int   // requests under way
}

// underWay is how many requests are under way at a time.
const underWay = 1024

func (u *firstUses) listen() {
	u.inbox = u.conn.NewInbox()
	u.replies = make(chan *nats.Msg, underWay)
	u.asked = make([]int, underWay)
	for k := range underWay {
		u.free = append(u.free, k)
	}
	if _, err := u.conn.ChanSubscribe(u.inbox+".*", u.replies); err != nil {
		u.t.Fatal(err)
	}
}

// run sends requests until there are so many sequences: three requests each on
// average for the active sequences, and one in a hundred for any.
func (u *firstUses) run(until int) {
	for len(u.sequences) < until || len(u.free) < underWay {
		if len(u.sequences) < until && len(u.free) > 0 {
			u.ask(u.choose())
			continue
		}
		select {
		case m := <-u.replies:
			u.receive(m)
		case <-time.After(answerWithin):
			u.t.Fatalf("%d requests were not answered", underWay-len(u.free))
		}
	}
}

func (u *firstUses) choose() int {
	n := len(u.sequences)
	switch p := rand.IntN(300); {
	case p < 100 || n == 0:
		u.sequences = append(u.sequences, sequence{})
		return n
	case p < 103:
		return rand.IntN(n)
	}
	return n - 1 - rand.IntN(min(n, u.active))
}

func (u *firstUses) ask(k int) {
	slot := u.free[len(u.free)-1]
	u.free = u.free[:len(u.free)-1]
	u.asked[slot] = k
	u.sequences[k].busy++
	u.requests++
	subject := messages.DefaultPrefix.Segment("chat." + strconv.Itoa(k))
	if err := u.conn.PublishRequest(subject, fmt.Sprint(u.inbox, ".", slot), nil); err != nil {
		u.t.Fatal(err)
	}
}

func (u *firstUses) receive(m *nats.Msg) {
	slot, err := strconv.Atoi(m.Subject[len(u.inbox)+1:])
	if err != nil {
		u.t.Fatal(err)
	}
	k := u.asked[slot]
	u.free = append(u.free, slot)
	s := &u.sequences[k]
	s.busy--
	ranges, err := messages.DecodeReply(m, 1)
	busy := errors.Is(err, messages.ErrBusy) || errors.Is(err, nats.ErrNoResponders) // a host that does many things at once
	if busy || errors.Is(err, messages.ErrUnavailable) {                             // loaders that were started read the register first
		u.again++
		time.Sleep(time.Millisecond)
		u.ask(k)
		return
	}
	if err != nil {
		u.t.Fatalf("chat.%d: %v %s", k, err, m.Header.Get(micro.ErrorHeader))
	}
	id := ranges[0].First
	if id <= s.above {
		u.t.Fatalf("chat.%d: %d after the restart, %d before", k, id, s.above)
	}
	for _, had := range s.ids {
		if had == id {
			u.t.Fatalf("chat.%d: %d twice", k, id)
		}
	}
	s.ids = append(s.ids, id)
}

// restarted requires later IDs to be higher than all before. All replies are
// in.
func (u *firstUses) restarted() {
	without := 0
	for k := range u.sequences {
		s := &u.sequences[k]
		first := false
		for _, id := range s.ids {
			first = first || id == 1
			s.above = max(s.above, id)
		}
		if !first {
			without++
		}
	}
	if without > len(u.sequences)/20 { // a load of more than a second is repeated, and begins with a gap
		u.t.Errorf("%d of %d sequences did not begin with 1", without, len(u.sequences))
	}
	u.t.Logf("%d sequences did not begin with 1", without)
}
