package allocator

import (
	"time"

	"github.com/idworker/idworker/store"
)

// A strict tag has no buffer. It has one load open at a time, and
//
//  1. the load's requests are fixed when it is first sent, here and nowhere
//     else: later requests wait for the next load;
//  2. if it is sent again, under the same number, it is for the same IDs;
//  3. only the grant of the open load counts;
//  4. it serves requests of that load only, and the rest is burnt.
//
// So the store reserves an ID after its request has arrived, and before the
// request is answered. Ranges ascend in the order of reservations. Hence each
// ID is above all IDs that were answered, by any worker, before its request was
// sent. A worker treats an unknown tag as strict until its first grant.
// docs/proofs/strict.md has the argument, docs/spec/strict.pml the model.
//
// A load's number marks its requests. New requests are parked at the end, so
// the marked requests come first.

// The methods below need the tag's mu.

// fixRequests fixes the requests of the load that is sent, unless it was sent
// before: all parked requests, in order, whose sum fits under the ceiling. The
// first always fits. It returns the sum.
func (t *tag) fixRequests(ceiling int64) (want int64) {
	l := &t.busy.load
	if l.want != 0 {
		return max(l.want, 0)
	}
	if len(t.busy.parked) == 0 {
		l.want = noRequests
		return 0
	}
	for i := range t.busy.parked {
		w := &t.busy.parked[i]
		if i > 0 && w.N > ceiling-l.want {
			break
		}
		w.load = l.seq
		l.want += w.N
		if w.Kept {
			l.trendOnly += w.N
		}
	}
	return l.want
}

// serveLoad answers the requests of a load that fit into its grant, and returns
// how many IDs are left over.
func (t *tag) serveLoad(seq uint64, s store.Segment) (rest int64) {
	parked, most := t.busy.parked, s.Len()
	t.busy.parked, t.busy.demand = nil, 0
	for _, w := range parked {
		switch {
		case w.Kept:
			t.reply(w, nil, ErrStrict)
		case w.load == seq && w.N > most: // so is the next grant
			t.reply(w, nil, ErrTooMany)
		case w.load == seq && w.N <= s.Len():
			var ids store.Segment
			ids, s = s.Cut(w.N)
			t.meter.spent += w.N
			t.reply(w, []store.Segment{ids}, nil)
		default:
			t.park(w)
		}
	}
	return s.Len()
}

// refuseTrendOnly ends a load whose requests are for trend tags only: the tag is
// strict, and nothing was reserved. The requests behind it get the next load. Those
// for trend tags only get the error for Config.ReAsk once the tag is not held. It
// needs the tag's mu.
func (a *Allocator) refuseTrendOnly(t *tag, seq uint64, now time.Duration) {
	if t.isNew() {
		a.addRefusal(t.name, refusal{err: ErrStrict, until: now + a.cfg.ReAsk, kept: true})
	}
	l := &t.busy.load
	*l = load{due: l.due, refusal: l.refusal, refusals: l.refusals}
	t.serveLoad(seq, store.Segment{})
}

// noRequests is the want of a load that was sent for none, to fill the buffer of a
// voided tag. A request that comes later may not get IDs of it, because the tag
// may be strict.
const noRequests = -1

// giveUpLoad ends the load of a strict or unknown tag if all its requests are
// gone, or if it was sent for none and requests wait. Otherwise they would wait
// until that load is sent again.
func (t *tag) giveUpLoad() {
	l, waits := &t.busy.load, len(t.busy.parked) > 0
	gone := l.want > 0 && (!waits || t.busy.parked[0].load != l.seq)
	if gone || waits && l.want == noRequests || !waits && t.configured == 0 {
		*l = load{due: l.due, rests: l.rests, refusal: l.refusal, refusals: l.refusals}
	}
}
