package messages

import (
	"errors"
	"time"
)

// maxRequests is how many requests of a prefetcher may be under way at a time: enough to
// hide the round trip, and few compared with what a worker parks.
const maxRequests = 16

// requests is what a prefetcher knows about its requests.
type requests struct {
	n        int   // under way
	ids      int64 // that the requests under way will bring
	maxBatch int64 // the largest batch that the workers allow, as far as is known
	failing  bool  // the last request failed with an error that is not transient
}

// countHanded returns how many IDs have been handed out. It is exact only up to the
// current chunk, whose IDs are counted as they are taken. Called with mu.
func (p *Prefetcher) countHanded() int64 {
	c := p.current.Load()
	if c == nil {
		return p.used
	}
	return p.used + min(c.used.Load(), c.n)
}

// refill starts requests if the IDs in memory and on their way are fewer than half of the
// target. Called with mu.
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

// startRequest asks for n IDs in the background. Called with mu.
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
			p.requests.maxBatch = min(p.requests.maxBatch, n/2) // the workers allow fewer in one batch
		default:
			p.failWaiting(err)
			return
		}
		p.refill()
	})
}

// failWaiting gives an error to all who wait. Nothing is requested before somebody wants
// an ID again. Called with mu.
func (p *Prefetcher) failWaiting(err error) {
	p.requests.failing = true
	if errors.Is(err, ErrMalformed) { // a request for a single ID: the batches were not too large
		p.requests.maxBatch = p.cfg.MaxBatch
	}
	p.waiters.wake(err)
}
