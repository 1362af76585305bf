package loader

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker/loadmsg"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// fakeStore takes some time for each call, and fails or hangs on demand.
type fakeStore struct {
	store.Reserver
	// single-letter prefixes of tags that do not exist until they are created
	missing string

	mu       sync.Mutex
	delay    time.Duration
	down     error                    // of all tags
	readOnly error                    // of all writes
	bad      map[string]error         // of some tags; errHangs: no answer
	slow     map[string]time.Duration // calls for some tags take that long
	refusal  error                    // of all creations
	entries  store.Order              // the order in grants
	left     int64                    // IDs left
	limit    int64                    // of all tags
	floor    int64                    // of the latest decision
	lookups  int
	probes   int
	// Tags cannot be counted; how often they were.
	uncounted error
	counted   int
	asked     chan struct{}
	next      map[string]int64
	removed   map[string]bool // not in next
	called    map[string]int
	order     []string // of granted tags
	at        []time.Time
}

var errHangs, errAway = errors.New("hangs"), errors.New("away")

func newFakeStore() *fakeStore {
	return &fakeStore{
		missing: "MN", asked: make(chan struct{}), delay: 10 * time.Millisecond, bad: make(map[string]error), next: make(map[string]int64), removed: make(map[string]bool), called: make(map[string]int),
		entries: store.Trend, left: math.MaxInt64, limit: math.MaxInt64,
	}
}

func (s *fakeStore) Lowest() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(1, s.floor)
}

// Run asks, and grants from then on.
func (s *fakeStore) Run(ctx context.Context, ask func(context.Context) error) {
	if ask != nil && ask(ctx) != nil {
		return
	}
	close(s.asked)
	<-ctx.Done()
}

func (s *fakeStore) Asked() <-chan struct{} { return s.asked }
func (s *fakeStore) Figures() store.Figures { return store.Figures{} }
func (s *fakeStore) Limited() int64         { return s.limit }
func (s *fakeStore) Stopped() error         { return nil }

func (s *fakeStore) Probe(ctx context.Context, write bool) error {
	s.mu.Lock()
	s.probes++
	err := s.down
	if write {
		err = cmp.Or(err, s.readOnly)
	}
	s.mu.Unlock()
	if errors.Is(err, errHangs) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (s *fakeStore) isMissing(tag string) bool {
	return s.next[tag] == 0 && strings.ContainsRune(s.missing, rune(tag[0]))
}

func (s *fakeStore) Known(tag string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.isMissing(tag) && tag != "unread"
}

func (s *fakeStore) HasEntry(tag string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next[tag] > 0 || s.removed[tag]
}

func (s *fakeStore) Count(_ context.Context, patterns ...string) (n int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted++
	for _, tags := range []iter.Seq[string]{maps.Keys(s.next), maps.Keys(s.removed)} {
		for tag := range tags {
			if slices.ContainsFunc(patterns, func(pattern string) bool { return subject.Covers(pattern, tag) }) {
				n++
			}
		}
	}
	return n, s.uncounted
}

func (s *fakeStore) Reserve(ctx context.Context, tag string, wants []store.Want) (store.Reservation, error) {
	s.mu.Lock()
	s.lookups++
	missing, down := s.isMissing(tag), s.down
	s.mu.Unlock()
	if missing {
		return store.Reservation{}, cmp.Or(down, store.ErrNoTag)
	}
	return s.write(ctx, tag, wants)
}

// write reserves after the delay.
func (s *fakeStore) write(ctx context.Context, tag string, wants []store.Want) (store.Reservation, error) {
	s.mu.Lock()
	s.called[tag]++
	s.at = append(s.at, time.Now())
	delay, floor := cmp.Or(s.slow[tag], s.delay), max(1, s.floor)
	if errors.Is(s.down, errHangs) || errors.Is(s.bad[tag], errHangs) {
		delay = time.Hour
	}
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return store.Reservation{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.down, s.readOnly, s.bad[tag]); err != nil {
		return store.Reservation{}, err
	}
	first := max(1, s.next[tag])
	granted, err := store.Segment{First: first, End: store.Beyond(first, s.left)}.Divide(s.entries, 10, wants)
	if err != nil {
		return granted, err
	}
	s.order = append(s.order, tag)
	granted.Line = store.Line{Floor: floor, Sequence: uint64(len(s.order))}
	s.next[tag] = granted.End()
	s.left -= granted.End() - first
	return granted, nil
}

func (s *fakeStore) ReserveFirst(ctx context.Context, tag store.Tag, wants []store.Want) (store.Reservation, error) {
	if s.refusal != nil {
		return store.Reservation{}, s.refusal
	}
	return s.write(ctx, tag.Name, wants)
}

// set changes the store's behaviour.
func (s *fakeStore) set(change func(s *fakeStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *fakeStore) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// probed is the number of probes.
func (s *fakeStore) probed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.probes
}

// callsFor is the number of calls for a tag.
func (s *fakeStore) callsFor(tag string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.called[tag]
}

// served are the tags that were granted a segment, in order.
func (s *fakeStore) served() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

// fakeTemplates is a list of templates, or the error of reading it; errHangs:
// no answer.
type fakeTemplates struct {
	list  templates.List
	err   error
	reads int
}

func (f *fakeTemplates) read(ctx context.Context) (templates.List, error) {
	f.reads++
	if errors.Is(f.err, errHangs) {
		<-ctx.Done()
	}
	return f.list, f.err
}

// fakeWorker requests segments from a loader, and receives the answers.
type fakeWorker struct {
	l *Loader

	mu      sync.Mutex
	seq     uint64
	answers map[uint64]chan loadmsg.Grant
	counts  map[string]int // of answers: grant, refused, tag, store
}

func (w *fakeWorker) Publish(_ string, data []byte) error {
	grant, err := loadmsg.DecodeGrant(data)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case grant.NotNow != "":
		w.counts[string(grant.NotNow)]++
	case grant.Refused != 0:
		w.counts["refused"]++
	default:
		w.counts["grant"]++
	}
	if answer := w.answers[grant.Seq]; answer != nil {
		select {
		case answer <- grant:
		default:
		}
	}
	return nil
}

// answered counts the answers so far.
func (w *fakeWorker) answered() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.counts)
}

// demand requests a segment once a second until it is granted, or the time has
// passed, and returns the duration.
func (w *fakeWorker) demand(tag string, most time.Duration) time.Duration {
	began := time.Now()
	answer := make(chan loadmsg.Grant, 1)
	w.mu.Lock()
	w.seq++
	seq := w.seq
	w.answers[seq] = answer
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.answers, seq)
	}()
	ask, end := time.NewTicker(time.Second), time.NewTimer(most)
	defer ask.Stop()
	defer end.Stop()
	event := load(tag, 1, 0)
	event.Seq = seq
	for {
		w.l.take(event)
	wait:
		for {
			select {
			case grant := <-answer:
				if grant.End > 0 {
					return time.Since(began)
				}
			case <-ask.C:
				break wait
			case <-end.C:
				return most
			}
		}
	}
}

func newFakeWorker(cfg Config, list *fakeTemplates) *fakeWorker {
	w := &fakeWorker{answers: make(map[uint64]chan loadmsg.Grant), counts: make(map[string]int)}
	w.l = newLoader(cfg, list, w)
	return w
}

// testLoader runs f in virtual time with a loader that has that many slots. A
// template creates the tags M.1, M.2 …, and N1, N2 … do not exist.
func testLoader(t *testing.T, slots int, f func(t *testing.T, l *Loader, s *fakeStore, w *fakeWorker)) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		w := newFakeWorker(Config{
			Store: s, StoreName: "fake", Prefix: "ids", Reservations: slots, MaxStep: 1 << 30, Timeout: DefaultTimeout, Log: zap.NewNop(),
		}, &fakeTemplates{list: templates.List{{Pattern: "M.*", Step: 10}}})
		w.l.run()
		f(t, w.l, s, w)
		if err := w.l.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func load(tag string, want int64, runway time.Duration) loadmsg.Event {
	return loadmsg.Event{Instance: "a", Installation: "here", Tag: tag, Step: 10, Want: want, Seq: 1, Runway: max(1, runway.Milliseconds())}
}

// take takes a plain event.
func (l *Loader) take(event loadmsg.Event) {
	l.submit(event, hold{until: time.Now().Add(eventAge)})
}
