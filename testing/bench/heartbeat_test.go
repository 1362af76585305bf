package bench

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

const (
	beatWorkers = 64
	beatRun     = 2 * time.Second
)

// BenchmarkHeartbeat measures the limit on the number of idle workers. A
// heartbeat of a lease is two writes, to different buckets, and a request for a
// stream's state. This measures the rate of each on a server that syncs every
// write, from many workers at once. The disk decides more than anything else
// here.
func BenchmarkHeartbeat(b *testing.B) {
	srv := natstest.Start(b, syncAlways)
	js := natstest.JetStream(b, srv.Connect(b))
	kv, err := js.CreateKeyValue(b.Context(), jetstream.KeyValueConfig{Bucket: "beats", Storage: jetstream.FileStorage})
	if err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 250) // about a lease
	for name, call := range map[string]func(worker int, revision uint64) (uint64, error){
		"write to one bucket": func(worker int, revision uint64) (uint64, error) {
			return kv.Update(b.Context(), fmt.Sprint(worker), value, revision)
		},
		"question about a stream": func(int, uint64) (uint64, error) {
			_, err := js.Stream(b.Context(), "KV_beats") // sends STREAM.INFO
			return 0, err
		},
	} {
		b.Run(name, func(b *testing.B) {
			rate := callsPerSecond(b, call)
			b.ReportMetric(rate, "calls/s")
			b.ReportMetric(0, "ns/op")
			table.add(row{what: "heartbeats: " + name, unit: "/s", subject: rate, note: fmt.Sprintf("%d workers at once, every write synced", beatWorkers)})
		})
	}
}

// callsPerSecond has each worker call without a pause, sequentially.
func callsPerSecond(b *testing.B, call func(worker int, revision uint64) (uint64, error)) float64 {
	b.Helper()
	var calls atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for worker := range beatWorkers {
		group.Go(func() {
			revision, err := uint64(0), error(nil)
			for err == nil && time.Since(began) < beatRun {
				revision, err = call(worker, revision)
				calls.Add(1)
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	group.Wait()
	return float64(calls.Load()) / time.Since(began).Seconds()
}
