package bench

import (
	"runtime"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

const (
	idleTags    = 100_000
	idleTagsBar = 200 // bytes each
)

// TestIdleTagsAreSmall: a tag in the directory costs a worker that never served it at
// most 200 bytes of heap.
func TestIdleTagsAreSmall(t *testing.T) {
	if bytes := idleTagSize(t); bytes > idleTagsBar {
		t.Errorf("%.0f bytes per idle tag, allowed are %d", bytes, idleTagsBar)
	}
}

func BenchmarkIdleTags(b *testing.B) {
	bytes := idleTagSize(b)
	b.ReportMetric(bytes, "B/tag")
	b.ReportMetric(0, "ns/op")
	table.add(row{
		what: "idle tag, 100,000 of them", unit: "bytes", subject: bytes, bar: atMost(idleTagsBar),
		note: "heap of a worker that never served them",
	})
}

// idleTagSize measures by how much a worker's heap is larger for each tag that is in
// the directory. The NATS server is another process.
func idleTagSize(t testing.TB) float64 {
	t.Helper()
	url := startServerProcess(t)
	openDirectory(t, url, "empty")
	putTags(t, openDirectory(t, url, "full"))
	workerHeap(t, url, "empty") // what the first one makes once and for all
	fixed := workerHeap(t, url, "empty")
	return float64(workerHeap(t, url, "full")-fixed) / idleTags
}

// workerHeap is what the heap grows by when a worker starts and has read the directory.
// The worker has no store: it knows the tags and has no IDs.
func workerHeap(t testing.TB, url string, prefix messages.Prefix) int64 {
	t.Helper()
	cfg := worker.Config{
		Requests: dial(t, url), Control: dial(t, url), Prefix: prefix, Role: worker.RoleWorker, Version: "0.0.0",
	}
	before := heap()
	w, err := worker.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	grown := heap() - before
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	return grown
}

// heap is the number of bytes that are in use on the heap.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools keep goes with the second
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func dial(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// openDirectory makes the tag directory of an installation, without a worker.
func openDirectory(t testing.TB, url string, prefix messages.Prefix) *worker.Directory {
	t.Helper()
	js := natstest.JetStream(t, dial(t, url))
	if err := worker.Provision(t.Context(), js, prefix, 1); err != nil {
		t.Fatal(err)
	}
	directory, err := worker.OpenDirectory(t.Context(), js, prefix, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return directory
}

// putTags writes the tags, many at a time.
func putTags(t testing.TB, directory *worker.Directory) {
	t.Helper()
	names := make(chan string)
	var writers sync.WaitGroup
	for range 64 {
		writers.Go(func() {
			for name := range names {
				if err := directory.Put(t.Context(), name, 1000); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, name := range tagNames(idleTags) {
		names <- name
	}
	close(names)
	writers.Wait()
}
