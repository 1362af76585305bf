package enrich

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// prepared is a batch that is ready to be published, or the reason why there is none yet.
type prepared struct {
	plan *plan
	msgs []*nats.Msg  // the events of the plan
	dead []deadLetter // those that cannot be stamped
	lag  uint64       // how many events follow in the source
	err  error
}

// deadLetter is an event that cannot be stamped, and why.
type deadLetter struct {
	event  event
	reason error
}

// preparer makes batches out of what a reader reads, one ahead of the one that is being
// published.
type preparer struct {
	e      *Enricher
	reader *reader
	out    chan prepared
	cancel context.CancelFunc
	ended  chan struct{}
}

func (e *Enricher) newPreparer(r *reader) *preparer {
	ctx, cancel := context.WithCancel(context.Background())
	p := &preparer{e: e, reader: r, out: make(chan prepared), cancel: cancel, ended: make(chan struct{})}
	go p.run(ctx)
	return p
}

// close returns when nothing is under way any more. IDs of batches that nobody took are
// lost.
func (p *preparer) close() {
	p.cancel()
	<-p.ended
}

func (p *preparer) run(ctx context.Context) {
	defer close(p.ended)
	for {
		batch, err := p.reader.batch(ctx)
		if err == nil { // a consumer made since may have read another stream
			err = p.e.sameSource(ctx)
		}
		if err != nil {
			p.send(ctx, prepared{err: err})
			return
		}
		for !p.send(ctx, p.e.prepare(ctx, batch)) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(firstPause):
			}
		}
	}
}

// send hands over a batch, or why there is none, and reports whether it was a batch.
func (p *preparer) send(ctx context.Context, b prepared) bool {
	select {
	case p.out <- b:
	case <-ctx.Done():
	}
	return b.err == nil
}

// candidate is an event of a batch that is being prepared.
type candidate struct {
	event
	draft   *nats.Msg
	keep    bool   // the ID that it has
	tag     string // of the ID that it gets, if not
	refused error  // why it cannot be stamped
}

// prepare decides which event gets which ID, and stamps them.
func (e *Enricher) prepare(ctx context.Context, batch []event) prepared {
	candidates, wants := e.sort(batch)
	pools := make(map[string]*pool, len(wants))
	for tag, n := range wants {
		p, err := e.poolOf(ctx, tag, n)
		if err != nil {
			return prepared{err: fmt.Errorf("no IDs of %s: %w", cmp.Or(tag, "snowflake"), err)}
		}
		pools[tag] = p
	}
	out := prepared{plan: &plan{}, lag: batch[len(batch)-1].behind}
	for _, c := range candidates {
		id, err := int64(0), c.refused
		if err == nil && !c.keep {
			if id, err = pools[c.tag].next(); err == nil {
				err = e.stamper.put(c.draft, c.event, id)
			}
		}
		if err != nil {
			out.dead = append(out.dead, deadLetter{c.event, err})
			continue
		}
		out.plan.add(c.seq, id)
		out.msgs = append(out.msgs, c.draft)
	}
	out.plan.Through = batch[len(batch)-1].seq
	return out
}

// sort finds out which events keep the ID they have, which cannot be stamped, and how many
// IDs of each tag the others need.
func (e *Enricher) sort(batch []event) (candidates []candidate, wants map[string]int64) {
	candidates, wants = make([]candidate, len(batch)), make(map[string]int64)
	for i, event := range batch {
		c := candidate{event: event}
		c.draft, c.keep, c.refused = e.stamper.check(event, e.limit)
		if c.refused == nil && !c.keep {
			c.tag = e.ids.tag(event.subject)
			wants[c.tag]++
		}
		candidates[i] = c
	}
	return candidates, wants
}

// pool is the IDs of one tag for one batch, or why there never will be any.
type pool struct {
	ranges  []messages.Range
	refused error
}

// next takes an ID out of the pool, which has as many as were asked for.
func (p *pool) next() (int64, error) {
	if p.refused != nil {
		return 0, p.refused
	}
	first := &p.ranges[0]
	id := first.First
	if id == first.Last {
		p.ranges = p.ranges[1:]
	} else {
		first.First++
	}
	return id, nil
}

// idsTimeout is how long a request for IDs may take until the log is told that there are
// none.
const idsTimeout = 2 * time.Second

// poolOf gets n IDs of a tag.
func (e *Enricher) poolOf(ctx context.Context, tag string, n int64) (*pool, error) {
	if err := messages.CheckTag(tag); !e.ids.snowflake() && err != nil {
		return &pool{refused: poison("%v", err)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, idsTimeout)
	defer cancel()
	ranges, err := e.ids.fetch(ctx, e.cfg.IDs, tag, n)
	if e.ids.perEvent() && errors.Is(err, messages.ErrNoTag) {
		return &pool{refused: poison("tag %s: %v", tag, err)}, nil
	}
	return &pool{ranges: ranges}, err
}
