package allocator

import "github.com/idworker/idworker/store"

// Outcome is what became of a grant.
type Outcome int

// The outcomes.
const (
	// Burnt: the tag is gone, there is no room, or the grant is late or came twice. None of
	// that says anything about the store.
	Burnt Outcome = iota

	// Used: the segment was added to those in memory.
	Used

	// Below: the grant answers the load under way and yet lies below what was granted before,
	// so the store has gone back. It is burnt. doc.go has the proof.
	Below
)

// Verdict says what became of a grant, and why.
type Verdict struct {
	Outcome Outcome

	// Above is the end of the highest segment that was granted before, if the outcome is
	// Below.
	Above int64

	// FirstBelow is set with the first Below since a grant of the tag was used.
	FirstBelow bool
}

// The methods below need the tag's mu.

// judgeGrant decides whether a grant is used, and uses it.
func (t *tag) judgeGrant(seq uint64, s store.Segment) Verdict {
	if t.fresh != nil && seq != t.busy.load.seq { // of a load from before it was forgotten, see firstuse.go
		return Verdict{Outcome: Burnt}
	}
	if s.First < t.high {
		if seq == 0 || seq != t.busy.load.seq {
			return Verdict{Outcome: Burnt}
		}
		first := !t.wentBack
		t.wentBack = true
		return Verdict{Below, t.high, first}
	}
	t.seeGrant(s)
	t.settle()
	t.high = s.End // was granted, whether it is used or not
	if t.configured == 0 {
		return Verdict{Outcome: Burnt}
	}
	asked := seq != 0 && seq == t.busy.load.seq
	t.busy.load.seq = 0 // whichever load it answers, and whether there is room or not
	if !t.installSegment(s, asked) {
		return Verdict{Outcome: Burnt}
	}
	t.wentBack, t.busy.load.refusals = false, 0
	return Verdict{Outcome: Used}
}

// askAgainAtOnce replaces the load under way by load seq, which is due now. It has a number of
// its own: the loader may still be busy with the load before, and drops what it has already.
// The step is not judged again, because no time has passed.
func (t *tag) askAgainAtOnce(seq uint64) {
	t.busy.load.seq, t.busy.load.try, t.busy.load.dueNow = seq, 0, true
}
