package allocator

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/tier"
)

// fixture is an allocator whose clock stands still until it is moved, with the
// latest load of each tag.
type fixture struct {
	*Allocator

	now   time.Duration
	loads map[string]Load
	asked int
}

func newFixture(cfg Config) *fixture {
	f := &fixture{loads: map[string]Load{}}
	cfg.Clock = func() time.Duration { return f.now }
	f.Allocator = New(cfg)
	return f
}

// drain sends the replies and the loads.
func (f *fixture) drain() {
	for _, r := range f.Replies() {
		*r.From.(*error) = r.Err
	}
	for l, ok := f.Send(); ok; l, ok = f.Send() {
		f.loads[l.Tag] = l
		f.asked++
	}
}

func (f *fixture) Tick() {
	f.Allocator.Tick()
	f.drain()
}

func (f *fixture) Grant(name string, seq uint64, s Answer) Verdict {
	defer f.drain()
	return f.Answer(name, seq, s)
}

func (f *fixture) Refuse(name string, seq uint64, err error) {
	f.Answer(name, seq, Answer{Refused: err})
	f.drain()
}

func (f *fixture) NotNow(name string, seq uint64) {
	f.Answer(name, seq, Answer{Later: TagFails})
	f.drain()
}

func (f *fixture) Remove(name string) {
	f.Allocator.Remove(name)
	f.drain()
}

func (f *fixture) DropIdle() int {
	defer f.drain()
	return f.Allocator.DropIdle()
}

// request makes a request for an ID, and returns the error of its answer.
func (f *fixture) request(name string) (err *error) { return f.requestIDs(name, 1) }

func (f *fixture) requestIDs(name string, n int64) (err *error) {
	err = new(error)
	defer f.drain()
	if _, ok := f.Take(name, n); ok {
		return err
	}
	_, *err = f.TakeOrPark(Request{Tag: name, N: n, From: err})
	return err
}

// grant grants the latest load of a tag.
func (f *fixture) grant(name string, o store.Order, s store.Segment) Verdict {
	return f.Grant(name, f.loads[name].Seq, granted(s, o))
}

func granted(s store.Segment, o store.Order) Answer { return Answer{Segment: s, Step: 10, Order: o} }

// use makes the first request for a tag, and grants it [1, 11).
func (f *fixture) use(name string, o store.Order) {
	f.request(name)
	f.grant(name, o, store.Segment{First: 1, End: 11})
}

func (f *fixture) figures(name string) Figures {
	for _, figures := range f.Figures() {
		if figures.Tag == name {
			return figures
		}
	}
	return Figures{}
}

// TestUnknownTagsAreBounded: tags without a grant take a bounded amount of
// memory. A grant, a refusal or a withdrawal makes room.
func TestUnknownTagsAreBounded(t *testing.T) {
	full := errors.New("full")
	for name, settle := range map[string]func(f *fixture, tag string){
		"refused": func(f *fixture, tag string) { f.Refuse(tag, f.loads[tag].Seq, full) },
		"granted": func(f *fixture, tag string) { f.grant(tag, store.Strict, store.Segment{First: 1, End: 2}) },
		"removed": func(f *fixture, tag string) { f.Remove(tag) },
		"expired": func(f *fixture, _ string) { f.now += DefaultWait; f.Tick() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(Config{MaxUnknown: 100})
			for round := range 3 {
				for i := range 150 {
					err := *f.request(fmt.Sprint("t", round, "-", i))
					if i < 100 && err != nil || i >= 100 && !errors.Is(err, ErrBusy) {
						t.Fatalf("request %d: %v", i, err)
					}
				}
				for len(f.loads) > 0 { // an answer frees a place for the next
					for tag := range f.loads {
						settle(f, tag)
						delete(f.loads, tag)
					}
				}
				for i := range 100 {
					if name == "removed" {
						f.Remove(fmt.Sprint("t", round, "-", i))
					}
				}
				f.now += DefaultReAsk // the places are free
				if int(f.unknown.Load()) != 0 || f.Parked() != 0 || f.Loading() != 0 || name != "granted" && f.Tags() != 0 {
					t.Fatalf("%d tags, %d of them unknown, %d parked requests, %d loads are left", f.Tags(), int(f.unknown.Load()), f.Parked(), f.Loading())
				}
			}
		})
	}
}

// TestExhaustedForLargeRequests: near the end of a strict tag, a request for
// more than is left does not keep smaller requests from the rest.
func TestExhaustedForLargeRequests(t *testing.T) {
	f := newFixture(Config{})
	f.use("a", store.Strict)
	large := f.requestIDs("a", 900)
	f.Refuse("a", f.loads["a"].Seq, store.ErrExhausted)
	asked := f.asked
	again, small := f.requestIDs("a", 900), f.requestIDs("a", 1)
	if !errors.Is(*large, store.ErrExhausted) || !errors.Is(*again, store.ErrExhausted) || *small != nil || f.asked != asked+1 {
		t.Errorf("large %v, again %v, small %v, %d loads", *large, *again, *small, f.asked-asked)
	}
}

// TestRefusalOfAnUnknownTag: all its requests get the error, also in the next
// second, without another load. Then a request begins a new load.
func TestRefusalOfAnUnknownTag(t *testing.T) {
	// So are those of a strict tag. It is kept, because its highest number may be
	// the only trace of it.
	for order, kept := range map[store.Order]int{"": 0, store.Strict: 1} {
		f := newFixture(Config{})
		if order != "" {
			f.use("a", order)
		}
		first := f.request("a")
		second := f.request("a")
		f.Refuse("a", f.loads["a"].Seq+1, store.ErrExhausted) // another load's
		if *first != nil || f.Parked() != 2 {
			t.Fatalf("the refusal of another load: %v, %d parked", *first, f.Parked())
		}
		f.Refuse("a", f.loads["a"].Seq, store.ErrNoTag)
		asked := f.asked
		f.now += DefaultReAsk - 1
		f.DropIdle()
		for i, err := range []error{*first, *second, *f.request("a")} {
			if !errors.Is(err, store.ErrNoTag) {
				t.Errorf("request %d: %v, want ErrNoTag", i, err)
			}
		}
		if f.asked != asked || f.Tags() != kept {
			t.Errorf("%d loads since the refusal, want none; %d tags, want %d", f.asked-asked, f.Tags(), kept)
		}
		f.now++
		if err := *f.request("a"); err != nil || f.asked != asked+1 {
			t.Errorf("a second later: %v, %d loads; want a load", err, f.asked-asked)
		}
	}
}

// TestRefusalsAreBounded: invented names fill a bounded table, which keeps as
// many refusals as fit.
func TestRefusalsAreBounded(t *testing.T) {
	f := newFixture(Config{})
	made := 0
	refuse := func(names int) {
		for range names {
			made++
			name := fmt.Sprint("made-up-", made)
			f.request(name)
			f.Refuse(name, f.loads[name].Seq, store.ErrNoTag)
			delete(f.loads, name)
		}
	}
	refuse(3*maxRefused + 100)
	if n := f.refused.Size(); n > maxRefused || f.Tags() != 0 {
		t.Errorf("%d names are remembered, %d tags are in memory", n, f.Tags())
	}
	for i := range 100 {
		if err := *f.request(fmt.Sprint("made-up-", made-i)); !errors.Is(err, store.ErrNoTag) {
			t.Fatalf("name %d of %d is not remembered: %v", made-i, made, err)
		}
	}
	f.now += DefaultReAsk
	f.DropIdle()
	if n := f.refused.Size(); n != 0 {
		t.Errorf("%d names are remembered after a minute", n)
	}
}

// TestIdleTagsLeaveMemory: after an hour without requests, or after a minute if
// there are very many. The IDs that are left of them are counted as burnt.
func TestIdleTagsLeaveMemory(t *testing.T) {
	f := newFixture(Config{})
	f.use("trend", store.Trend)
	f.request("trend")
	// So none is under way.
	f.Refuse("trend", f.loads["trend"].Seq, store.ErrExhausted)
	f.use("strict", store.Strict)
	f.use("loading", store.Trend)
	for range 9 {
		f.request("loading") // so the next segment is under way
	}
	for i := range idleCalls {
		if n := f.DropIdle(); n != 0 {
			t.Fatalf("%d tags were dropped at call %d", n, i+1)
		}
	}
	f.Refuse("loading", f.loads["loading"].Seq, store.ErrExhausted)
	f.request("trend")
	if n := f.DropIdle(); n != 1 || f.figures("strict").Tag != "" {
		t.Fatalf("%d tags were dropped, want the strict one: the others were in use", n)
	}
	burnt := f.Burnt()
	for range idleCalls - 2 {
		f.DropIdle()
	}
	if f.Tags() != 2 {
		t.Fatalf("%d tags left, want 2", f.Tags())
	}
	f.DropIdle()
	f.DropIdle()
	if f.Tags() != 0 || f.Burnt() != burnt+7 {
		t.Errorf("%d tags left, %d IDs burnt; want 0, and the 7 of trend", f.Tags(), f.Burnt()-burnt)
	}

	for i := range manyTags + 1 {
		f.request(fmt.Sprint("t", i))
		f.grant(fmt.Sprint("t", i), store.Trend, store.Segment{First: 1, End: 101})
	}
	if n := f.DropIdle(); n != 0 {
		t.Fatalf("%d of the tags that were in use in this minute were dropped", n)
	}
	f.request("t7")
	if n := f.DropIdle(); n != manyTags || f.Tags() != 1 {
		t.Errorf("%d of many tags were dropped, %d left; want all but one", n, f.Tags())
	}
}

// TestTagThatLeftMemoryComesBack: a dropped tag that is created again takes
// only the grant of its open load, so late and doubled grants are never used.
func TestTagThatLeftMemoryComesBack(t *testing.T) {
	for name, drop := range map[string]func(f *fixture){
		"removed": func(f *fixture) { f.Remove("a") },
		"idle": func(f *fixture) {
			for range idleCalls + 1 {
				f.DropIdle()
			}
		},
	} {
		for _, order := range []store.Order{store.Trend, store.Strict} {
			t.Run(fmt.Sprint(name, " ", order), func(t *testing.T) {
				f := newFixture(Config{})
				f.request("a")
				late := f.loads["a"].Seq // it was sent several times
				f.grant("a", order, store.Segment{First: 11, End: 111})
				drop(f)
				if f.Tags() != 0 {
					t.Fatal("the tag is in memory")
				}
				if v := f.Grant("a", late, granted(store.Segment{First: 111, End: 121}, order)); v.Outcome != Burnt {
					t.Errorf("a grant for a tag that is not in memory: %+v", v)
				}
				f.request("a")
				for _, seq := range []uint64{0, late, f.loads["a"].Seq + 1} {
					for first := int64(1); first < 141; first += 10 {
						if v := f.Grant("a", seq, granted(store.Segment{First: first, End: first + 10}, order)); v.Outcome != Burnt {
							t.Errorf("a grant of load %d: %+v, want it burnt", seq, v)
						}
					}
				}
				if v := f.grant("a", order, store.Segment{First: 141, End: 151}); v.Outcome != Used || f.Parked() != 0 {
					t.Errorf("the grant of the open load: %+v, %d parked", v, f.Parked())
				}
			})
		}
	}
}

// TestRemoveAnswers: parked requests of a tag that is removed get ErrDropped:
// the tag may exist again by now.
func TestRemoveAnswers(t *testing.T) {
	for _, order := range []store.Order{"", store.Trend, store.Strict} {
		f := newFixture(Config{})
		if order != "" {
			f.use("a", order)
		}
		for f.Parked() == 0 {
			f.request("a")
		}
		parked := f.request("a")
		f.Remove("a")
		f.Remove("a")
		if !errors.Is(*parked, ErrDropped) || f.Parked() != 0 || f.Loading() != 0 {
			t.Errorf("%q: %v, %d parked, %d loading; want ErrDropped", order, *parked, f.Parked(), f.Loading())
		}
	}
}

// TestCountsOfTags: the counts stay correct while tags are requested, granted,
// refused, removed and left idle, and each unknown tag has a parked request and
// a load.
func TestCountsOfTags(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFixture(Config{MaxUnknown: 3, MaxParkedPerTag: 2, MaxParked: 8})
		name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint("t", rapid.IntRange(0, 9).Draw(t, "n")) })
		first := int64(1)
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) { f.request(name.Draw(t, "tag")) },
			"grant": func(t *rapid.T) {
				n := name.Draw(t, "tag")
				order := store.Trend
				if n > "t4" {
					order = store.Strict
				}
				f.grant(n, order, store.Segment{First: first, End: first + 3})
				first += 3
			},
			"refuse":    func(t *rapid.T) { n := name.Draw(t, "tag"); f.Refuse(n, f.loads[n].Seq, store.ErrNoTag) },
			"not now":   func(t *rapid.T) { n := name.Draw(t, "tag"); f.NotNow(n, f.loads[n].Seq) },
			"remove":    func(t *rapid.T) { f.Remove(name.Draw(t, "tag")) },
			"drop idle": func(*rapid.T) { f.DropIdle() },
			"time passes": func(t *rapid.T) {
				f.now += time.Duration(rapid.Int64Range(0, int64(DefaultWait)).Draw(t, "by"))
				f.Tick()
			},
			"": func(t *rapid.T) {
				var tags, unknown, parked, loading int
				for _, tag := range f.tags.All() {
					tags++
					parked += len(tag.parkedNow())
					if tag.loadingNow() {
						loading++
					}
					if tag.order == "" {
						unknown++
					}
					if tag.order != store.Trend && (len(tag.parkedNow()) > 0) != tag.loadingNow() {
						t.Fatalf("%s (%q) has %d requests parked, a load open: %t", tag.name, tag.order, len(tag.parkedNow()), tag.loadingNow())
					}
				}
				if unknown > 3 || parked > 8 || tags != f.Tags() || unknown != int(f.unknown.Load()) || parked != f.Parked() || loading != f.Loading() {
					t.Fatalf("%d tags, %d unknown, %d parked, %d loading; want %d, %d, %d, %d",
						f.Tags(), int(f.unknown.Load()), f.Parked(), f.Loading(), tags, unknown, parked, loading)
				}
			},
		})
	})
}

func (t *tag) parkedNow() []waiter {
	t.lock()
	defer t.unlock()
	return t.busy.parked
}

func (t *tag) loadingNow() bool {
	t.lock()
	defer t.unlock()
	return t.busy.load.state != idle
}

// TestReadersSeeEveryTag that was there before they looked, while others come
// and go.
func TestReadersSeeEveryTag(t *testing.T) {
	f := newFixture(Config{})
	f.request("hot")
	f.grant("hot", store.Trend, store.Segment{First: 1, End: 1 << 50})
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, ok := f.tags.Load("hot"); !ok {
					t.Error("a tag was not there for a moment")
					return
				}
			}
		})
	}
	for i := range tier.Pick(30_000, 2_000_000) {
		f.request(fmt.Sprint("tag-", i))
		f.Remove(fmt.Sprint("tag-", i/2))
	}
	close(done)
	readers.Wait()
}

// TestTagsAtRestAreSmall: a tag without parked requests and without a load
// takes no more memory than manyTags assumes, in addition to its name.
func TestTagsAtRestAreSmall(t *testing.T) {
	n := tier.Pick(50_000, 1_000_000)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("tag-%07d", i)
	}
	for _, order := range []store.Order{store.Strict, store.Trend} {
		before := heapInUse()
		now := time.Duration(0)
		a := New(Config{Clock: func() time.Duration { return now }})
		for i, name := range names {
			if _, err := a.TakeOrPark(Request{Tag: name, N: 1}); err != nil {
				t.Fatal(err)
			}
			l, _ := a.Send()
			a.Answer(name, l.Seq, Answer{Segment: store.Segment{First: int64(i) + 1, End: int64(i) + 1000}, Step: 999, Order: order})
			a.Replies()
		}
		now = time.Minute
		a.Tick()
		if a.Tags() != n || a.Parked() != 0 || a.Loading() != 0 {
			t.Fatalf("%d tags, %d parked, %d loading", a.Tags(), a.Parked(), a.Loading())
		}
		each := float64(heapInUse()-before) / float64(n)
		t.Logf("%s: %.1f bytes for each of %d tags", order, each, n)
		if each > 300 {
			t.Errorf("%s: %.0f bytes for each of %d tags", order, each, n)
		}
		runtime.KeepAlive(a)
	}
	runtime.KeepAlive(names)
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{1, 1_000, 1_000_000} {
		f := newFixture(Config{})
		for i := range n {
			name := fmt.Sprintf("tag-%07d", i)
			f.request(name)
			f.grant(name, store.Trend, store.Segment{First: 1, End: 1 << 60})
		}
		name := fmt.Sprintf("tag-%07d", n/2)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				f.Take(name, 1)
			}
		})
	}
}
