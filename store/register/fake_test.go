package register

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/position"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register/internal/guard"
)

// fakeServer is the register's stream in virtual time. Its network delays and
// loses requests and replies.
type fakeServer struct {
	random *rand.Rand
	loss   float64

	mu    sync.Mutex
	now   guard.Poll
	keys  map[string]storedEntry
	older []fakeServer // states that it may be restored to
	away  bool
	conns uint64 // raised when all connections were lost
	left  *guard.Proof
}

func newFakeServer(seed uint64, loss float64) *fakeServer {
	return &fakeServer{
		random: rand.New(rand.NewPCG(seed, 1)), loss: loss,
		now: guard.Poll{Position: position.Position{ID: "made"}, First: 1, Replicas: 1}, keys: make(map[string]storedEntry),
	}
}

var errLost = errors.New("no answer")

// travel delays a message. It reports whether the message arrives.
func (f *fakeServer) travel(ctx context.Context) bool {
	f.mu.Lock()
	lost, took := f.random.Float64() < f.loss, time.Duration(f.random.Int64N(int64(20*time.Millisecond)))
	if f.random.IntN(200) == 0 {
		took = time.Duration(f.random.Int64N(int64(3 * time.Second)))
	}
	f.mu.Unlock()
	select {
	case <-time.After(took):
		return !lost
	case <-ctx.Done():
		return false
	}
}

// call sends a request, has do handle it, and sends the reply.
func call[T any](ctx context.Context, f *fakeServer, do func() (T, error)) (T, error) {
	var none T
	conns := f.reconnects()
	if !f.travel(ctx) {
		<-ctx.Done()
		return none, ctx.Err()
	}
	f.mu.Lock()
	// Requests from before a reconnect do not arrive after it.
	away := f.away || f.conns != conns
	var answer T
	err := errLost
	if !away {
		answer, err = do()
	}
	f.mu.Unlock()
	if errors.Is(err, errLost) || !f.travel(ctx) {
		<-ctx.Done()
		return none, ctx.Err()
	}
	return answer, err
}

func (f *fakeServer) poll(ctx context.Context) (guard.Poll, error) {
	return call(ctx, f, func() (guard.Poll, error) { return f.now, nil })
}

func (f *fakeServer) update(ctx context.Context, tag string, value []byte, revision uint64) (uint64, error) {
	return call(ctx, f, func() (uint64, error) { return f.write(tag, value, revision) })
}

// write is an update that has arrived. The caller holds the lock.
func (f *fakeServer) write(tag string, value []byte, revision uint64) (uint64, error) {
	if f.keys[tag].revision != revision {
		return 0, jetstream.ErrKeyRevisionMismatch
	}
	e, err := decode(value)
	if err != nil {
		return 0, err
	}
	f.now.Last++
	f.keys[tag] = storedEntry{e, f.now.Last}
	f.now.Entries = uint64(len(f.keys))
	return f.now.Last, nil
}

func (f *fakeServer) read(ctx context.Context, tag string) (storedEntry, error) {
	return call(ctx, f, func() (storedEntry, error) { return f.keys[tag], nil })
}

func (f *fakeServer) each(ctx context.Context, visit func(tag string, e listed, written time.Time) bool) error {
	// A feed also ends when nothing arrives.
	ctx, cancel := context.WithTimeout(ctx, 7*time.Second)
	defer cancel()
	all, err := call(ctx, f, func() (map[string]storedEntry, error) { return maps.Clone(f.keys), nil })
	for tag, r := range all {
		visit(tag, listed{storedEntry: r}, time.Time{})
	}
	return err
}

func (f *fakeServer) updateMany(ctx context.Context, changes []kv.Write) []kv.Written {
	return updateEach(ctx, f.update, changes)
}

// updateEach sends each of some updates alone, all at the same time.
func updateEach(ctx context.Context, update func(context.Context, string, []byte, uint64) (uint64, error), changes []kv.Write) []kv.Written {
	written := make([]kv.Written, len(changes))
	var all sync.WaitGroup
	for i, c := range changes {
		all.Go(func() { written[i].Revision, written[i].Err = update(ctx, c.Key, c.Value, c.Revision) })
	}
	all.Wait()
	return written
}

func (f *fakeServer) proof(context.Context) (*guard.Proof, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left, nil
}

func (f *fakeServer) leave(_ context.Context, p leftProof) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = &p.Proof
	return nil
}

func (f *fakeServer) reconnects() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns
}

// save keeps the state, to be restored.
func (f *fakeServer) save() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.older = append(f.older, fakeServer{now: f.now, keys: maps.Clone(f.keys)})
}

// putBack makes the stream unavailable, and restores an older state after a
// time in which every loader has polled.
func (f *fakeServer) putBack(to int, takes time.Duration, drops bool) {
	f.mu.Lock()
	f.away = true
	f.mu.Unlock()
	time.Sleep(takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now, f.keys = f.older[to].now, maps.Clone(f.older[to].keys)
	f.away = false
	if drops {
		f.conns++
	}
}

// raise raises an entry.
func (f *fakeServer) raise(tag string, by int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now.Last++
	r := f.keys[tag]
	r.Next += by
	f.keys[tag] = storedEntry{r.entry, f.now.Last}
}

// decide raises all tags by a number of IDs, as an administrator does: the
// register is marked until all are raised.
func (f *fakeServer) decide(by int64, tables ...*fakeTable) {
	for _, table := range tables {
		table.raiseAll(by)
	}
	f.mu.Lock()
	f.now.Mark = "raised"
	all := slices.Sorted(maps.Keys(f.keys))
	f.mu.Unlock()
	for _, tag := range all {
		time.Sleep(100 * time.Millisecond)
		f.raise(tag, by)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now.Decisions = append(slices.Clone(f.now.Decisions), fmt.Sprint(f.random.Uint64()))
	f.now.First += by
	f.now.Mark = ""
}

// fakeTable is a table whose rows regress now and then, and that loses changes,
// or the replies to them. All rows have a step of 10.
type fakeTable struct {
	random     *rand.Rand
	back, loss float64

	mu   sync.Mutex
	rows map[string]int64
	step int64
	away bool
}

func newFakeTable(seed uint64, back float64, tags ...string) *fakeTable {
	f := &fakeTable{random: rand.New(rand.NewPCG(seed, 2)), back: back, rows: make(map[string]int64), step: 10}
	for _, tag := range tags {
		f.rows[tag] = 1
	}
	return f
}

func (f *fakeTable) Reserve(_ context.Context, tag string, n int64) (store.Segment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rows[tag] == 0 {
		return store.Segment{}, store.ErrNoTag
	}
	if f.random.Float64() < f.back {
		f.rows[tag] = 1 + f.random.Int64N(f.rows[tag])
	}
	seg, err := store.Following(f.rows[tag], n)
	if err == nil {
		f.rows[tag] = seg.End
	}
	return seg, err
}

func (f *fakeTable) ReserveRest(ctx context.Context, tag string, most int64) (store.Segment, error) {
	f.mu.Lock()
	most = min(most, store.Left(f.rows[tag]))
	f.mu.Unlock()
	if most < 1 {
		return store.Segment{}, store.ErrExhausted
	}
	return f.Reserve(ctx, tag, most)
}

func (f *fakeTable) Find(_ context.Context, tag string) (store.Tag, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.away:
		return store.Tag{}, errLost
	case f.rows[tag] == 0:
		return store.Tag{}, store.ErrNoTag
	}
	return store.Tag{Name: tag, Step: f.step, Next: f.rows[tag]}, nil
}

func (f *fakeTable) Server() string { return "" }

func (f *fakeTable) Probe(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return errLost
	}
	return nil
}

func (f *fakeTable) Tags(context.Context) (tags []store.Tag, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for tag, next := range f.rows {
		tags = append(tags, store.Tag{Name: tag, Step: f.step, Next: next})
	}
	return tags, nil
}

// change changes a row, unless the change or the reply is lost.
func (f *fakeTable) change(do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.random.Float64() < f.loss {
		return errLost
	}
	err := do()
	if f.random.Float64() < f.loss {
		return errLost
	}
	return err
}

func (f *fakeTable) CreateTag(_ context.Context, tag store.Tag) error {
	return f.change(func() error {
		if f.rows[tag.Name] > 0 {
			return store.ErrTagExists
		}
		f.rows[tag.Name] = tag.Next
		return nil
	})
}

func (f *fakeTable) SetStep(_ context.Context, _ string, step int64) error {
	return f.change(func() error { f.step = step; return nil })
}

func (f *fakeTable) RemoveTag(_ context.Context, tag string, next int64) error {
	return f.change(func() error {
		switch {
		case f.rows[tag] == 0:
			return store.ErrNoTag
		case f.rows[tag] > next:
			return store.ErrChanged
		}
		delete(f.rows, tag)
		return nil
	})
}

func (f *fakeTable) Limit(context.Context) (int64, error) { return math.MaxInt64, nil }
func (f *fakeTable) Limited() int64                       { return math.MaxInt64 }

func (f *fakeTable) Raise(_ context.Context, tag string, next int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rows[tag] == 0 {
		return store.ErrNoTag
	}
	f.rows[tag] = max(f.rows[tag], next)
	return nil
}

func (f *fakeTable) raiseAll(by int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for tag := range f.rows {
		f.rows[tag] += by
	}
}

func (s *Register) cached(tag string) storedEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cache[tag]
}

// seen returns what the register has seen.
func (s *Register) seen() guard.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guard.Record()
}
