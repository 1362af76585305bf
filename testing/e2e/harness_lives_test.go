package e2e

import (
	"encoding/json"
	"strconv"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/testing/natstest"
)

// life is one hold of a worker ID, from claim to release or death.
type life struct {
	hold string
	hi   int64 // the time from here on was never its own
}

// lives is who held which worker ID and up to what time, as the clock bucket had it.
// The holders of one worker ID follow each other with ascending times, so that worker
// ID and time of an ID say which process made it.
type lives struct {
	layout snowflake.Layout
	stream jetstream.Stream

	mu   sync.Mutex
	of   map[int64][]life // by worker ID
	seen uint64           // revision of the last entry
}

// watchLives records every change of the clock bucket from now on.
func watchLives(t testing.TB, url string, layout snowflake.Layout) *lives {
	t.Helper()
	js, err := jetstream.New(connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	bucket := lease.ClockBucketName(messages.DefaultPrefix)
	l := &lives{layout: layout, of: make(map[int64][]life)}
	if l.stream, err = js.Stream(t.Context(), "KV_"+bucket); err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	w, err := kv.WatchAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for entry := range w.Updates() {
			if entry != nil { // nil: those that were there already are through
				l.record(t, entry)
			}
		}
	})
	t.Cleanup(func() {
		_ = w.Stop()
		reading.Wait()
	})
	return l
}

func (l *lives) record(t testing.TB, entry jetstream.KeyValueEntry) {
	var value struct {
		Hi   int64  `json:"hi"`
		Hold string `json:"hold"`
	}
	if entry.Key() == "identity" { // of the bucket
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen = entry.Revision()
		return
	}
	worker, err := strconv.ParseInt(entry.Key(), 10, 64)
	if err != nil || json.Unmarshal(entry.Value(), &value) != nil || value.Hold == "" {
		t.Errorf("clock entry %s: %q", entry.Key(), entry.Value())
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = entry.Revision()
	list := l.of[worker]
	if n := len(list); n > 0 && list[n-1].hold == value.Hold {
		list[n-1].hi = value.Hi // raised, or lowered at the end
		return
	}
	for _, earlier := range list {
		if earlier.hold == value.Hold || earlier.hi >= value.Hi {
			t.Errorf("worker ID %d: %s up to %d after %s up to %d", worker, value.Hold, value.Hi, earlier.hold, earlier.hi)
		}
	}
	l.of[worker] = append(list, life{value.Hold, value.Hi})
}

// settle returns when everything written so far has been seen.
func (l *lives) settle(t testing.TB) {
	t.Helper()
	info, err := l.stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "all clock entries are seen", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.seen >= info.State.LastSeq
	})
}

// current is the latest life of a worker ID.
func (l *lives) current(worker int64) life {
	l.mu.Lock()
	defer l.mu.Unlock()
	if list := l.of[worker]; len(list) > 0 {
		return list[len(list)-1]
	}
	return life{}
}

// reserved is up to when a holder owned a worker ID's time, as far as it is known.
func (l *lives) reserved(worker int64, hold string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, who := range l.of[worker] {
		if who.hold == hold {
			return who.hi
		}
	}
	return 0
}

// maker is the life in which an ID was made, or none if nobody had reserved its time.
func (l *lives) maker(id int64) (who life, ok bool) {
	at := l.layout.Timestamp(snowflake.ID(id))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, who := range l.of[l.layout.WorkerID(snowflake.ID(id))] {
		if at < who.hi {
			return who, true
		}
	}
	return life{}, false
}

// count returns how many worker IDs were used, and by how many holders in all.
func (l *lives) count() (workers, holders int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range l.of {
		holders += len(list)
	}
	return len(l.of), holders
}
