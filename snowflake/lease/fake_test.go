package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// fakeStore is a bucket in memory, in the time of a synctest bubble. It is
// exact; faults happen on the link to it.
type fakeStore struct {
	mu       sync.Mutex
	ttl      time.Duration // 0: entries stay
	last     uint64
	versions map[string][]bucketEntry // per key, oldest first
	writes   int
	off      time.Duration // of its clock, in the entries

	leaderless bool // electing a leader: only reads of single keys are answered
	missing    bool // it was deleted
}

func newFakeStore(ttl time.Duration) *fakeStore {
	return &fakeStore{ttl: ttl, versions: make(map[string][]bucketEntry)}
}

// latest is the latest entry of a key; its revision is 0 if there is none.
func (s *fakeStore) latest(key string) bucketEntry {
	v := s.versions[key]
	if len(v) == 0 {
		return bucketEntry{}
	}
	r := v[len(v)-1]
	if s.ttl > 0 && r.revision > 0 && time.Since(r.created.Add(-s.off)) >= s.ttl {
		s.versions[key] = append(v, bucketEntry{}) // expired
		return bucketEntry{}
	}
	return r
}

func (s *fakeStore) write(r bucketEntry, revision uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.latest(r.key).revision != revision {
		return 0, errConflict
	}
	s.last++
	r.revision, r.created = s.last, time.Now().Add(s.off)
	s.versions[r.key] = append(s.versions[r.key], r)
	return r.revision, nil
}

// skew sets its clock. Entries of before are as if written after.
func (s *fakeStore) skew(off time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.versions {
		for i := range v {
			v[i].created = v[i].created.Add(off - s.off)
		}
	}
	s.off = off
}

// expire removes a key before its time.
func (s *fakeStore) expire(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions[key] = append(s.versions[key], bucketEntry{})
}

// read returns the entry of a key as it was so many changes ago.
func (s *fakeStore) read(key string, ago int) (bucketEntry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.latest(key)
	if v := s.versions[key]; ago > 0 && len(v) > 0 {
		r = v[max(0, len(v)-1-ago)]
	}
	if r.revision == 0 || r.deleted {
		return bucketEntry{}, errAbsent
	}
	return r, nil
}

// set changes it; of returns one of its fields.
func (s *fakeStore) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func of[T any](s *fakeStore, field *T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *field
}

func (s *fakeStore) setLifetime(ttl time.Duration) { s.set(func() { s.ttl = ttl }) }

func (s *fakeStore) setLeaderless(yes bool) { s.set(func() { s.leaderless = yes }) }

func (s *fakeStore) writeCount() int { return of(s, &s.writes) }

// empty deletes and creates the bucket again.
func (s *fakeStore) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions, s.last = make(map[string][]bucketEntry), 0
}

// put writes an entry without a condition.
func (s *fakeStore) put(r bucketEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	r.revision, r.created = s.last, time.Now().Add(s.off)
	s.versions[r.key] = append(s.versions[r.key], r)
}

func (s *fakeStore) list() (all []bucketEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.versions {
		if r := s.latest(key); r.revision > 0 {
			all = append(all, r)
		}
	}
	return all
}

// link is a process's way to a fakeStore.
type link struct {
	store *fakeStore
	net   *fakeNet
}

// lead sends a request to the leader of the bucket.
func (l link) lead(ctx context.Context, apply func() error) error {
	return l.net.lead(ctx, l.store, apply)
}

// lead sends a request to the leader of s. Without a leader it gets no answer.
func (n *fakeNet) lead(ctx context.Context, s *fakeStore, apply func() error) error {
	if of(s, &s.leaderless) {
		<-ctx.Done()
		return errTimeout
	}
	if of(s, &s.missing) {
		return jetstream.ErrBucketNotFound
	}
	return n.do(ctx, apply)
}

// fakeNet injects the faults of a process's network, and is its server too.
type fakeNet struct {
	ttl time.Duration

	mu      sync.Mutex
	off     time.Duration // of the server's clock
	rng     *rand.Rand
	rate    float64 // how much of each fault; 0: all goes well
	slow    bool    // calls may take hours
	dead    bool    // nothing arrives any more
	stopped bool    // the process is stopped and does not answer
	clocks  *fakeStore
	leases  *fakeStore
	calls   int
	asked   map[string]int64 // by hold: the highest hi that it sent
	point   func()           // called wherever a call may be interrupted
}

var errTimeout = errors.New("no answer")

// roll reports whether a fault happens.
func (n *fakeNet) roll() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rng.Float64() < n.rate
}

// some is a random part of d.
func (n *fakeNet) some(d time.Duration) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Duration(n.rng.Float64() * float64(d))
}

func (n *fakeNet) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// stop stops the process at this point, for any time.
func (n *fakeNet) stop() {
	n.mu.Lock()
	slow := n.slow
	n.mu.Unlock()
	if slow && n.roll() {
		n.set(func() { n.stopped = true })
		defer n.set(func() { n.stopped = false })
		time.Sleep(n.some([]time.Duration{time.Second, n.ttl, 5 * n.ttl, 100 * n.ttl}[int(n.some(4))%4]))
	}
}

// do sends a request whose effect is apply. apply must not wait.
func (n *fakeNet) do(ctx context.Context, apply func() error) error {
	n.mu.Lock()
	dead := n.dead
	n.calls++
	n.mu.Unlock()
	lost := func() error {
		<-ctx.Done()
		return errTimeout
	}
	if dead {
		return lost()
	}
	n.reachPoint()
	n.stop()
	if ctx.Err() != nil && n.roll() {
		return ctx.Err()
	}
	time.Sleep(n.some(20 * time.Millisecond))
	switch {
	case n.roll(): // lost on the way there
		return lost()
	case n.roll(): // late
		late := n.some(3 * n.ttl)
		go func() {
			time.Sleep(late)
			_ = apply()
		}()
		return lost()
	case n.roll(): // the answer is lost
		_ = apply()
		return lost()
	case n.roll(): // sent twice, and the second answer counts
		_ = apply()
	}
	err := apply()
	n.reachPoint()
	n.stop()
	return err
}

func (n *fakeNet) reachPoint() {
	n.mu.Lock()
	point := n.point
	n.mu.Unlock()
	if point != nil {
		point()
	}
}

// noteHi notes the hi that a hold is about to send to the clock bucket.
func (n *fakeNet) noteHi(value []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if v, err := decodeClock(bucketEntry{value: value}); err == nil {
		n.asked[v.Hold] = max(n.asked[v.Hold], v.Hi)
	}
}

func (l link) list(ctx context.Context) (all []bucketEntry, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = l.lead(ctx, func() error { return nil })
	if err == nil {
		all = l.store.list()
	}
	if len(all) > 0 && l.net.roll() {
		all = all[1:]
	}
	return all, err
}

func (l link) get(ctx context.Context, key string) (r bucketEntry, err error) {
	ago := 0
	if l.net.roll() {
		ago = 1 + int(l.net.some(4))
	}
	if err = l.net.do(ctx, func() error { return nil }); err != nil {
		return bucketEntry{}, err
	}
	if of(l.store, &l.store.missing) {
		return bucketEntry{}, jetstream.ErrBucketNotFound
	}
	return l.store.read(key, ago)
}

func (l link) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	var mu sync.Mutex
	var written uint64
	if l.store == l.net.clocks {
		l.net.noteHi(value)
	}
	err := l.lead(ctx, func() error {
		mu.Lock()
		defer mu.Unlock()
		var err error
		written, err = l.store.write(bucketEntry{key: key, value: value}, revision)
		return err
	})
	mu.Lock()
	defer mu.Unlock()
	return written, err
}

func (l link) remove(ctx context.Context, key string, revision uint64) error {
	return l.lead(ctx, func() error {
		_, err := l.store.write(bucketEntry{key: key, deleted: true}, revision)
		return err
	})
}

func (n *fakeNet) state(ctx context.Context) (serverState, error) {
	var last atomic.Uint64
	err := n.lead(ctx, n.clocks, func() error {
		last.Store(of(n.clocks, &n.clocks.last))
		return nil
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	return serverState{time.Now().Add(n.off), last.Load()}, err
}

// leaseTTL reads the TTL. A delayed answer has an old TTL, as a stream's would.
func (n *fakeNet) leaseTTL(ctx context.Context) (time.Duration, error) {
	var ttl atomic.Int64
	err := n.lead(ctx, n.leases, func() error {
		ttl.Store(int64(of(n.leases, &n.leases.ttl)))
		return nil
	})
	return time.Duration(ttl.Load()), err
}

// fakeOthers are the running processes of a world, as seen by a process.
type fakeOthers struct {
	net  *fakeNet
	all  *neighbors
	back chan nats.Status
}

// neighbors are the memories of the processes that run, and how each is
// reached.
type neighbors struct {
	mu   sync.Mutex
	uses map[*useLog]*fakeNet
}

func (o *fakeOthers) reconnected() <-chan nats.Status { return o.back }

func (o *fakeOthers) serve(own *useLog) (stop func(), err error) {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	o.all.uses[own] = o.net
	return func() {
		o.all.mu.Lock()
		defer o.all.mu.Unlock()
		delete(o.all.uses, own)
	}, nil
}

// query asks once, at a random moment. A process that is cut off does not hear
// it.
func (o *fakeOthers) query(ctx context.Context, key, hold string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var mu sync.Mutex
	var end int64
	err := o.net.do(ctx, func() error {
		o.all.mu.Lock()
		defer o.all.mu.Unlock()
		mu.Lock()
		defer mu.Unlock()
		for own, net := range o.all.uses {
			if found, ok := own.of(key); ok && found.Hold != hold && net.answers() {
				end = max(end, found.End)
			}
		}
		return nil
	})
	time.Sleep(queryTime)
	mu.Lock()
	defer mu.Unlock()
	return end, err
}

func (n *fakeNet) answers() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.dead && !n.stopped
}

var (
	_ others = (*fakeOthers)(nil)
	_ bucket = link{}
	_ server = (*fakeNet)(nil)
)

// Agree writes own if the key has no value, with everything that goes wrong on
// the way.
func (l link) Agree(ctx context.Context, key, own string) (string, error) {
	r, err := l.get(ctx, key)
	if errors.Is(err, errAbsent) {
		if _, err = l.update(ctx, key, []byte(own), 0); err == nil || errors.Is(err, errConflict) {
			r, err = l.get(ctx, key)
		}
	}
	return string(r.value), err
}

func (l link) Find(ctx context.Context, key string) (string, bool, error) {
	r, err := l.get(ctx, key)
	if errors.Is(err, errAbsent) {
		return "", false, nil
	}
	return string(r.value), err == nil, err
}
