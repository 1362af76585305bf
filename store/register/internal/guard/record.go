package guard

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/idworker/idworker/internal/position"
	"github.com/idworker/idworker/store"
)

// Poll is what the leader of the register's stream returned about it.
type Poll struct {
	position.Position
	Missing bool // there is no stream

	Entries  uint64
	Replicas int
	Full     bool // it is close to the limit of its bytes

	First     int64     // lowest first ID of a new tag, at least 1
	Decisions []string  // random texts, the latest last
	Decided   time.Time // when the latest was made; zero if unknown
	Mark      string    // random text and target; empty unless all tags are being raised
	Target    int64     // of the mark; 0 if it has none
	Ignored   []string  // processes whose claims the latest decision has made void
}

// follows reports whether a poll returned the register of an earlier poll, under
// the same decisions and not being raised.
func (p Poll) follows(earlier Poll) bool {
	return !p.Missing && p.Mark == "" && p.ID == earlier.ID && earlier.Judge(p.Position) == position.Same &&
		slices.Equal(p.Decisions, earlier.Decisions) && p.First == earlier.First && p.Entries >= earlier.Entries
}

// Record is what a process has seen of the register. A witness keeps it as JSON.
type Record struct {
	position.Position
	// Most messages in the stream: none is ever deleted.
	Entries   uint64   `json:"entries,omitempty"`
	First     int64    `json:"first,omitempty"`     // lowest first ID of a new tag
	Decisions []string `json:"decisions,omitempty"` // every decision ever found
	// When the latest decision in the register was made; zero if unknown.
	Decided time.Time `json:"decided,omitzero"`
	// That the register went back, although it has grown past Position since.
	Proof *Proof `json:"proof,omitempty"`
}

// Assess judges a poll. It reports whether the poll has a decision that is new,
// and returns the fault of that decision or of the register, or nil. The poll
// must not be below the sequence that was seen when it was sent: messages may be
// written after the reply.
func (r *Record) Assess(bucket string, p Poll, seen uint64) (decided bool, wrong *store.RegressionError) {
	if r.decided(p) {
		return true, r.checkFloor(bucket, p)
	}
	return false, r.check(bucket, p, seen)
}

// decided reports whether a poll has a decision that is new to the record.
// Decisions are random, and a record keeps all of them. So a register that was
// put back to an older decision does not count as decided.
func (r *Record) decided(p Poll) bool {
	return p.Mark == "" && r.Judge(p.Position) != position.Another &&
		slices.ContainsFunc(p.Decisions, func(d string) bool { return !slices.Contains(r.Decisions, d) })
}

// checkFloor returns the fault of a new decision that did not raise the lowest
// first ID above that of the record: it was made over a state from before
// another decision. The highest number cannot be raised.
func (r *Record) checkFloor(bucket string, p Poll) *store.RegressionError {
	if p.First > r.First || p.First == math.MaxInt64 {
		return nil
	}
	return &store.RegressionError{Bucket: bucket, Reason: fmt.Sprintf("was not raised enough: its lowest first ID for new tags is %d, and was %d", p.First, r.First), Short: r.First + 1 - p.First}
}

// BeingRaised is the reason of a stop that ends with the raise of all tags.
const BeingRaised = "is being raised, or a raise was interrupted"

// check returns the fault of a register without a new decision, or nil. The
// lowest first ID is compared before the sequence: each decision raises it, and
// a sequence means nothing in the history of another decision.
func (r *Record) check(bucket string, p Poll, seen uint64) *store.RegressionError {
	wrong := store.RegressionError{Bucket: bucket, Seen: seen, Found: p.Last}
	switch relation := (position.Position{ID: r.ID, Last: seen}).Judge(p.Position); {
	case p.Missing && relation != position.NoEvidence:
		wrong.Reason = "is missing"
	case relation == position.Another:
		wrong.Reason = "was recreated or replaced"
	case p.Mark != "":
		wrong.Reason = BeingRaised
	case p.First < r.First:
		wrong.Reason = "predates a decision"
	case relation == position.WentBack: // the error has both sequences
	case p.Entries < r.Entries:
		wrong.Reason = fmt.Sprintf("lost entries: has %d, had %d", p.Entries, r.Entries)
	default:
		return nil
	}
	return &wrong
}

// Compare is [Record.Assess] for a process that has not polled yet. Proof in the
// record counts, too.
func (r *Record) Compare(bucket string, p Poll) (decided bool, wrong *store.RegressionError) {
	decided, wrong = r.Assess(bucket, p, r.Last)
	if wrong == nil && p.Mark == "" && r.Proof.holds(p.ID, p.First) {
		return false, r.Proof.regression(bucket)
	}
	return decided, wrong
}

// Join returns what two processes have seen of a register together. The lowest
// first ID is compared first, see [Record.check].
func (r Record) Join(other Record) Record {
	higher, lower := r, other
	if other.First > r.First || other.First == r.First && other.Last > r.Last {
		higher, lower = other, r
	}
	j := higher.Clone()
	if lower.First == higher.First {
		j.Entries = max(j.Entries, lower.Entries)
		if j.Proof == nil {
			j.Proof = lower.Proof
		}
	}
	j.learn(Poll{Decisions: lower.Decisions})
	return j
}

// Accept makes a register the record after an administrator's decision, whatever
// was seen before, or returns the fault: its lowest first ID is below that of
// the record, or not above it although the record lacks a decision.
func (r *Record) Accept(bucket string, p Poll) error {
	r.ID = "" // the record may be that of another register
	if r.decided(p) || p.First < r.First {
		if wrong := r.checkFloor(bucket, p); wrong != nil {
			return wrong
		}
	}
	r.adopt(p)
	return nil
}

// adopt makes a poll the record from now on. Sequence and number of entries
// belong to a decision. The lowest first ID, the list of decisions and the time
// of the latest only rise; an unknown time stands for the latest possible.
func (r *Record) adopt(p Poll) {
	r.Position, r.Entries, r.First, r.Proof = p.Position, p.Entries, max(r.First, p.First), nil
	if p.Decided.IsZero() || p.Decided.After(r.Decided) {
		r.Decided = p.Decided
	}
	r.learn(p)
}

// learn adds the decisions of a register to the record.
func (r *Record) learn(p Poll) {
	for _, d := range p.Decisions {
		if !slices.Contains(r.Decisions, d) {
			r.Decisions = append(r.Decisions, d)
		}
	}
}

// Clone returns a copy.
func (r *Record) Clone() Record {
	c := *r
	c.Decisions = slices.Clone(r.Decisions)
	return c
}
