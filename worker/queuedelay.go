package worker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/pause"
)

// queueDelay reports whether requests have queued too long before being
// handled: in the server's buffer for this connection, in the network, or in
// this process.
//
// NATS does not timestamp requests, so a probe follows them every probeEvery: a
// PING, whose PONG trails everything the server has buffered, then a Barrier,
// which trails everything nats.go has queued. The age of the oldest outstanding
// probe is a lower bound on the delay. If nothing has arrived since it was
// sent, the server is frozen or the network is down: no other worker could
// serve these requests sooner, so the delay does not count.
type queueDelay struct {
	limit time.Duration
	// Requests have queued for longer than limit. Read once per request.
	late atomic.Bool

	mu      sync.Mutex
	probes  []time.Time // send times of outstanding probes, in order
	msgs    uint64      // messages received on the connection
	arrival time.Time   // when the latest arrival was detected
}

const (
	probeEvery = 50 * time.Millisecond
	mostProbes = 100              // outstanding; more would add little
	probeLost  = 30 * time.Second // the PONG is not expected any more
	serverLost = 2 * time.Second  // without a PONG or a message
)

// newQueueDelay returns a queueDelay with a limit. After that time, callers may
// be gone, and their IDs would be wasted.
func newQueueDelay(limit time.Duration) *queueDelay { return &queueDelay{limit: limit} }

func (d *queueDelay) isLate() bool { return d.late.Load() }

// run sends probes until ctx ends, and returns when no probe is being sent.
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
				// No request waits on a lost connection.
				d.removeThrough(time.Now())
				continue
			}
			if probe, ok := d.add(conn.Stats().InMsgs); ok {
				sent.Go(func() { d.send(ctx, conn, probe) })
			}
		}
	}
}

// send sends a probe and waits for its arrival. A lost probe counts as arrived:
// the probes behind it measure the same delay.
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

// notePong records an answer of the server.
func (d *queueDelay) notePong() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arrival = time.Now()
	d.update()
}

// awaitSilence returns when nothing has arrived for serverLost, or ctx ends.
func (d *queueDelay) awaitSilence(ctx context.Context) {
	began := time.Now()
	silent := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return time.Since(began) > serverLost && time.Since(d.arrival) > serverLost
	}
	for ctx.Err() == nil && !silent() {
		pause.For(ctx, probeEvery)
	}
}

// add adds a probe, unless many are outstanding. msgs is the number of messages
// received so far.
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

// removeThrough removes an arrived probe, and all earlier ones.
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
