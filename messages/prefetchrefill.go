package messages

import (
	"errors"
	"time"
)

// maxRequests bounds the requests of a prefetcher in flight: enough to hide the
// round trip, and few compared with the number that a worker parks.
const maxRequests = 16

// requests is a prefetcher's state of its requests.
type requests struct {
	n   int   // in flight
	ids int64 // IDs that they will bring
	// The largest batch that the workers are believed to allow.
	maxBatch int64
	// The last request failed with an error that is not transient.
	failing bool
}

// countHanded returns the number of IDs returned. It is exact only up to the
// current chunk, whose IDs are counted as they are taken. The caller holds mu.
func (p *Prefetcher) countHanded() int64 {
	c := p.current.Load()
	if c == nil {
		return p.used
	}
	return p.used + min(c.used.Load(), c.n)
}

// refill starts requests if the IDs buffered and in flight are fewer than half
// of the target. The caller holds mu.
func (p *Prefetcher) refill() {
	have := p.stock.ids + p.requests.ids
	if have >= half(p.pace.target) && have >= min(p.waiters.n, p.cfg.Limit) {
		return
	}
	missing := max(p.pace.updateTarget(time.Now(), p.countHanded()), min(p.waiters.n, p.cfg.Limit)) - have
	most := maxRequests
	if p.requests.failing {
		most = 1
	}
	for missing > 0 && p.requests.n < most {
		n := min(missing, p.requests.maxBatch)
		missing -= n
		p.startRequest(n)
	}
}

// startRequest requests n IDs in the background. The caller holds mu.
func (p *Prefetcher) startRequest(n int64) {
	p.requests.ids += n
	p.requests.n++
	p.wg.Go(func() {
		ranges, err := p.client.NextN(p.ctx, p.tag, n)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.requests.ids -= n
		p.requests.n--
		switch {
		case p.closed:
			return
		case err == nil:
			p.stock.add(ranges)
			p.requests.failing, p.waiters.reason = false, nil
			p.waiters.wake(nil)
		case errors.Is(err, ErrMalformed) && n > 1:
			// The workers allow smaller batches.
			p.requests.maxBatch = min(p.requests.maxBatch, n/2)
		default:
			p.failWaiting(err)
			return
		}
		p.refill()
	})
}

// failWaiting returns an error to all waiters. Nothing is requested before the
// next call of Next. The caller holds mu.
func (p *Prefetcher) failWaiting(err error) {
	p.requests.failing = true
	// A request for a single ID: the batches were not too large.
	if errors.Is(err, ErrMalformed) {
		p.requests.maxBatch = p.cfg.MaxBatch
	}
	p.waiters.wake(err)
}
