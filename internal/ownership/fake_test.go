package ownership

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/idworker/idworker/internal/kvwatch"
)

// fakeStore is the bucket in memory, in the time of a synctest bubble. It is exact; what goes
// wrong on the way to it is a link's business.
type fakeStore struct {
	mu      sync.Mutex
	log     []record // all that was ever written
	last    map[string]record
	changed chan struct{}
	agreed  string
	stored  func(record)   // is told of each write, at the moment at which it is made
	writes  map[string]int // per key
}

func newFakeStore() *fakeStore {
	return &fakeStore{changed: make(chan struct{}), last: make(map[string]record), writes: make(map[string]int)}
}

// versions are the entries of a key, oldest first.
func (s *fakeStore) versions(key string) (all []record) {
	for _, r := range s.log {
		if r.key == key {
			all = append(all, r)
		}
	}
	return all
}

func (s *fakeStore) latest(key string) record { return s.last[key] }

func (s *fakeStore) get(key string) record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest(key)
}

func (s *fakeStore) write(key string, value []byte, revision uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest(key).revision != revision {
		return 0, errConflict
	}
	r := record{key, slices.Clone(value), uint64(len(s.log)) + 1}
	s.log, s.last[key] = append(s.log, r), r
	s.writes[key]++
	if s.stored != nil {
		s.stored(r)
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return r.revision, nil
}

func (s *fakeStore) written() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.log)
}

// link is one process's way to the store.
type link struct {
	store *fakeStore
	rnd   *rand.Rand
	mu    sync.Mutex // for what follows, and rnd

	faults   faults
	sent     func(key string) // is told of each write, before it is under way
	down     bool
	restored chan struct{}
}

// faults are how long a way over a link takes, and how often what goes wrong.
type faults struct {
	slow       time.Duration // this, each way
	delay      time.Duration // and up to this
	loseAnswer float64       // of writes that were made
	late       float64       // writes that are given up, and made up to lateBy later
	lateBy     time.Duration
	oldRead    float64
}

func (l *link) setFaults(f faults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = f
}

func (l *link) present() faults {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults
}

func newLink(s *fakeStore, seed uint64) *link {
	return &link{store: s, rnd: rand.New(rand.NewPCG(seed, 1)), restored: make(chan struct{})}
}

// cut has nothing pass, and restore has it pass again. Feeds that were open have ended.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
}

func (l *link) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		l.down = false
		close(l.restored)
		l.restored = make(chan struct{})
	}
}

func (l *link) isDown() (down bool, restored <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down, l.restored
}

func (l *link) chance(p float64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return p > 0 && l.rnd.Float64() < p
}

func (l *link) upTo(d time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d <= 0 {
		return 0
	}
	return time.Duration(l.rnd.Int64N(int64(d)))
}

// move has the link lead to another store.
func (l *link) move(s *fakeStore) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store = s
	close(l.restored)
	l.restored = make(chan struct{})
}

func (l *link) target() *fakeStore {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store
}

// pass is one way over the link.
func (l *link) pass(ctx context.Context) error {
	if d := l.present().slow + l.upTo(l.present().delay); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if down, _ := l.isDown(); down {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (l *link) write(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if l.sent != nil {
		l.sent(key)
	}
	if l.chance(l.present().late) {
		value = slices.Clone(value)
		time.AfterFunc(l.upTo(l.present().lateBy), func() { _, _ = l.target().write(key, value, revision) })
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if err := l.pass(ctx); err != nil {
		return 0, err
	}
	written, err := l.target().write(key, value, revision)
	if l.chance(l.present().loseAnswer) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if err := l.pass(ctx); err != nil {
		return 0, err
	}
	return written, err
}

func (l *link) read(ctx context.Context, key string) (record, error) {
	if err := l.pass(ctx); err != nil {
		return record{}, err
	}
	s := l.target()
	s.mu.Lock()
	all := s.versions(key)
	s.mu.Unlock()
	if len(all) > 0 && l.chance(l.present().oldRead) {
		all = all[:len(all)-1]
	}
	if len(all) == 0 {
		return record{}, errAbsent
	}
	return all[len(all)-1], l.pass(ctx)
}

func (l *link) agree(ctx context.Context, identity string) (string, error) {
	if err := l.pass(ctx); err != nil {
		return "", err
	}
	s := l.target()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agreed == "" {
		s.agreed = identity
	}
	return s.agreed, nil
}

func (l *link) follow(ctx context.Context) (feed, error) {
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	s := l.target()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, restored := l.isDown()
	return &fakeFeed{link: l, store: s, restored: restored, listed: len(s.log)}, nil
}

// fakeFeed delivers the log. What is overwritten while it is being listed is passed over, as
// the server does.
type fakeFeed struct {
	link     *link
	store    *fakeStore
	restored <-chan struct{}
	at       int
	listed   int
}

func (f *fakeFeed) CaughtUp() bool { return f.at >= f.listed }
func (f *fakeFeed) Close()         {}

func (f *fakeFeed) Next(ctx context.Context) (kvwatch.Entry, error) {
	for {
		if err := f.link.pass(ctx); err != nil {
			return kvwatch.Entry{}, err
		}
		select {
		case <-f.restored:
			return kvwatch.Entry{}, kvwatch.ErrEnded
		default:
		}
		r, ok, changed := f.next()
		if ok {
			return kvwatch.Entry{Key: r.key, Value: r.value, Position: kvwatch.Position{Revision: r.revision}}, nil
		}
		select {
		case <-changed:
		case <-f.restored:
			return kvwatch.Entry{}, kvwatch.ErrEnded
		case <-ctx.Done():
			return kvwatch.Entry{}, ctx.Err()
		}
	}
}

func (f *fakeFeed) next() (r record, ok bool, changed <-chan struct{}) {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for f.at < len(s.log) {
		r := s.log[f.at]
		f.at++
		if s.latest(r.key).revision == r.revision || f.at == f.listed {
			return r, true, nil
		}
	}
	return r, false, s.changed
}
