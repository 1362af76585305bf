package guard

import (
	"fmt"
	"slices"

	"github.com/idworker/idworker/store"
)

// A claim of another process proves nothing. It is compared with the register
// itself: with a poll or the reply to a write that was sent after it was heard,
// because another loader may have written a moment before. A reply must lie above
// it. If it only counted for nothing, a few writes would lift the sequence over
// the claim, and the next poll would confirm it.
//
// If the register has less than was claimed, the guard stops, and a decision ends
// that, as it ends any proven stop. But what was only heard is never noted: it
// lasts as long as the process that claims it, or a loader that it has stopped.

// Asking is the reason why nothing is granted until other processes had the time
// to say what they know.
const Asking = "is being compared with what other processes know"

// AskFirst makes the guard that of a process that asks all others: before its first
// write, before the first one after each decision, and once no poll was answered
// for PollAge. A register may have gone back in such a time, and grown since.
func (g *Guard) AskFirst() {
	g.asks = true
	g.ask()
}

func (g *Guard) ask() {
	g.asked++
	g.round = g.asked
}

// askAfterSilence notes that a poll was answered.
func (g *Guard) askAfterSilence(sent Moment) {
	if g.asks && sent.Time.Sub(g.answered.Time) > PollAge {
		g.ask()
	}
	g.answered = sent
}

// Unasked returns the number of the question that has to precede the next write,
// or 0. The caller asks, passes the claims to [Guard.Hear], and calls
// [Guard.Asked].
func (g *Guard) Unasked() (round int) { return g.round }

// Asked permits writes once others had the time to answer a question, unless
// another one is due by now.
func (g *Guard) Asked(round int) {
	if g.round == round {
		g.round = 0
	}
}

// Counts reports whether a claim is about the register under the decision of the
// record, so that it can be compared with an entry.
func (g *Guard) Counts(c store.Claim) bool {
	return !c.IsZero() && c.Floor == max(1, g.record.First) && !slices.Contains(g.ignored, c.By)
}

// Hear takes in a claim, unless it is void or the record covers it. The next poll
// and the replies to writes from now on are compared with it. If its floor is
// above that of the record, that poll precedes the next write.
func (g *Guard) Hear(c store.Claim) {
	first := max(1, g.record.First)
	switch {
	case c.IsZero() || c.Floor < first || slices.Contains(g.ignored, c.By):
		return
	case c.Floor == first && c.Sequence <= g.record.Last && c.Entries <= g.record.Entries:
		return
	}
	c.Tag, c.Next = "", 0
	switch h := &g.heard; {
	case c.Floor < h.last.Floor:
		return
	case c.Floor > h.last.Floor:
		*h = hearsay{last: c, most: c}
	default:
		if c.Sequence > h.last.Sequence {
			h.last = c
		}
		if c.Entries > h.most.Entries {
			h.most = c
		}
	}
	if c.Floor > first {
		g.doubts++
	}
}

// hearsay are claims of one floor: that of the highest sequence, and that of the
// most entries, which may be another process's.
type hearsay struct{ last, most store.Claim }

// contradiction returns the fault of a register that has less than was heard, or
// nil.
func (g *Guard) contradiction(h hearsay, p Poll) *store.RegressionError {
	if p.Missing || p.Mark != "" {
		return nil
	}
	counts := func(c store.Claim) bool {
		return !c.IsZero() && c.Floor >= p.First && !slices.Contains(p.Ignored, c.By)
	}
	switch last, most := h.last, h.most; {
	case counts(last) && last.Floor > p.First:
		return &store.RegressionError{
			Bucket: g.bucket, Claim: last,
			Reason: fmt.Sprintf("predates a decision: its lowest first ID for new tags is %d, and was %d", p.First, last.Floor) + said(last),
		}
	case counts(last) && p.Last < last.Sequence:
		return g.below(last, p.Last)
	case counts(most) && most.Floor == p.First && p.Entries < most.Entries:
		return &store.RegressionError{
			Bucket: g.bucket, Claim: most, Reason: fmt.Sprintf("lost entries: has %d, had %d", p.Entries, most.Entries) + said(most),
		}
	}
	return nil
}

// below returns the fault of a sequence below a claim.
func (g *Guard) below(heard store.Claim, found uint64) *store.RegressionError {
	return &store.RegressionError{
		Bucket: g.bucket, Claim: heard, Seen: heard.Sequence, Found: found,
		Reason: fmt.Sprintf("is at sequence %d, was at %d", found, heard.Sequence) + said(heard),
	}
}

// said names the process that claims something, "" for a fault that this process
// has seen itself.
func said(c store.Claim) string {
	if c.IsZero() {
		return ""
	}
	return ", says process " + c.By
}

// Claims returns what this process reports to others: what it has seen, and the
// claim that has stopped it, unless it has heard that from a process that had
// only heard it as well. By is empty for its own.
func (g *Guard) Claims() []store.Claim {
	own := store.Claim{
		Floor: max(1, g.record.First), Sequence: g.record.Last, Entries: g.record.Entries,
		Tag: g.lowest.tag, Next: g.lowest.next,
	}
	all := []store.Claim{own}
	if g.stopped != nil && !g.stopped.Claim.IsZero() && !g.stopped.Claim.Heard {
		heard := g.stopped.Claim
		heard.Heard = true
		all = append(all, heard)
	}
	return all
}

// Proof is what a process that has seen the register go back leaves for those
// that start later: without it, a register that has grown past what was seen
// would look complete. It holds only while the register has the same identity and
// the same lowest first ID, which every decision raises.
type Proof struct {
	ID     string `json:"id"`               // of the register
	Floor  int64  `json:"floor"`            // its lowest first ID of new tags
	Seen   uint64 `json:"seen"`             // sequence
	Found  uint64 `json:"found"`            // sequence
	Reason string `json:"reason,omitempty"` // see store.RegressionError
}

func (p *Proof) holds(id string, floor int64) bool {
	return p != nil && p.ID == id && p.Floor == floor
}

func (p *Proof) regression(bucket string) *store.RegressionError {
	return &store.RegressionError{Bucket: bucket, Seen: p.Seen, Found: p.Found, Reason: p.Reason}
}

// Left takes in the proof that another process has left, or nil. If it is about
// the present register, granting stops until a decision: at once, or when the
// decision that it is about is accepted.
func (g *Guard) Left(p *Proof) {
	g.left = p
	if p.holds(g.record.ID, max(1, g.record.First)) {
		_ = g.stop(p.regression(g.bucket), true) // Stopped returns it
	}
}

// prepareProof leaves proof once a fault that this process has seen itself has
// lasted for Suspicion, on one connection: a server that was shown the wrong
// folder for a moment must not stop the right one. A record that contradicts the
// register is enough for the next start. Once the register has grown past it, it is
// not, so then the proof becomes a part of the record.
func (g *Guard) prepareProof(sent Permit, found Poll, wrong *store.RegressionError, now Moment) {
	switch {
	case !g.proven || g.stopped.Bucket != g.bucket || !g.stopped.Claim.IsZero() || g.proof != nil, found.Missing, found.Mark != "", found.ID != g.record.ID:
		return
	case g.began.Time.IsZero(), wrong != nil && sent.at.Reconnects != g.began.Reconnects:
		g.began = sent.at
	}
	if sent.at.Reconnects != g.began.Reconnects || now.Time.Sub(g.began.Time) < Suspicion {
		return
	}
	g.proof = &Proof{
		ID: found.ID, Floor: found.First, Seen: max(g.stopped.Seen, g.record.Last), Found: found.Last, Reason: g.stopped.Reason,
	}
	if g.record.check(g.bucket, found, g.record.Last) == nil {
		g.record.Proof = g.proof
	}
}

// Proof returns what is to be left for the next process, or nil: only over the
// connection on which it was found, because another may lead to another server.
func (g *Guard) Proof(now Moment) *Proof {
	if g.began.Reconnects != now.Reconnects {
		return nil
	}
	return g.proof
}
