package worker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// queueDelay reports whether requests have queued too long before their turn:
// in the server's buffer for this connection, in the network, or in this
// process.
//
// NATS does not timestamp requests, so a probe follows them every probeEvery: a
// PING, whose PONG trails everything the server has buffered, then a Barrier,
// which trails everything nats.go has queued. The age of the oldest outstanding
// probe is a lower bound on the delay. If nothing at all has arrived since it
// was sent, the server is frozen or the network is gone: no other worker could
// serve these requests sooner, so the delay does not count.
type queueDelay struct {
	limit time.Duration
	late  atomic.Bool // requests have queued for longer; a request reads it once

	mu      sync.Mutex
	probes  []time.Time // when the outstanding ones were sent, in order
	msgs    uint64      // how many messages have arrived on the connection
	arrival time.Time   // when the latest arrival was noticed
}

const (
	probeEvery = 50 * time.Millisecond
	mostProbes = 100              // outstanding; more would add little
	probeLost  = 30 * time.Second // no PONG is expected any more
)

// newQueueDelay returns a queueDelay of requests that may queue for limit.
// After that their callers may be gone, so IDs for them would be wasted.
func newQueueDelay(limit time.Duration) *queueDelay { return &queueDelay{limit: limit} }

func (d *queueDelay) isLate() bool { return d.late.Load() }

// run sends probes until ctx ends, and returns when nothing sends any more.
func (d *queueDelay) run(ctx context.Context, conn *nats.Conn) {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	var sent sync.WaitGroup
	defer sent.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !conn.IsConnected() {
				d.removeThrough(time.Now()) // no request waits on a lost connection
				continue
			}
			if probe, ok := d.add(conn.Stats().InMsgs); ok {
				sent.Go(func() { d.send(ctx, conn, probe) })
			}
		}
	}
}

// send sends a probe all the way. A lost probe counts as arrived: those behind
// it measure the same delay.
func (d *queueDelay) send(ctx context.Context, conn *nats.Conn, probe time.Time) {
	ctx, cancel := context.WithTimeout(ctx, probeLost)
	defer cancel()
	if conn.FlushWithContext(ctx) != nil {
		d.removeThrough(probe)
		return
	}
	d.notePong()
	if conn.Barrier(func() { d.removeThrough(probe) }) != nil {
		d.removeThrough(probe)
	}
}

// notePong records that the server has answered.
func (d *queueDelay) notePong() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arrival = time.Now()
	d.update()
}

// add adds a probe, unless many are outstanding. msgs is how many messages have
// arrived.
func (d *queueDelay) add(msgs uint64) (probe time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	probe = time.Now()
	if msgs != d.msgs {
		d.msgs, d.arrival = msgs, probe
	}
	if ok = len(d.probes) < mostProbes; ok {
		d.probes = append(d.probes, probe)
	}
	d.update()
	return probe, ok
}

// removeThrough removes a probe that has arrived, and those before it.
func (d *queueDelay) removeThrough(probe time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probes = slices.DeleteFunc(d.probes, func(p time.Time) bool { return !p.After(probe) })
	d.update()
}

// update compares the age of the oldest probe with the limit. It needs mu.
func (d *queueDelay) update() {
	d.late.Store(len(d.probes) > 0 && time.Since(d.probes[0]) > d.limit && d.arrival.After(d.probes[0]))
}
