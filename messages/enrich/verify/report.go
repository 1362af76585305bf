package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// FaultKind is the kind of a fault.
type FaultKind string

// The kinds of findings.
const (
	Missing  FaultKind = "missing"      // neither in the target nor among the dead letters
	Doubled  FaultKind = "doubled"      // in the target more than once
	Order    FaultKind = "out-of-order" // behind an event that follows it in the source
	SharedID FaultKind = "shared-id"    // has the ID of another event
	// Has no ID, several, or a wrong ID.
	BadID FaultKind = "bad-id"
	// Its subject, body or headers differ from the source's event.
	Changed FaultKind = "changed"
	// Not an event that was enriched from this source.
	Foreign FaultKind = "foreign"
	// The source does not have it: it ends before it, or has another event
	// there.
	Unknown FaultKind = "unknown"
)

// Finding is a fault.
type Finding struct {
	Kind   FaultKind `json:"kind"`
	Source uint64    `json:"source_sequence,omitempty"` // of the event
	// Its place; of a missing event, the message in its place.
	Target uint64 `json:"target_sequence,omitempty"`
	// In the target; of a missing event, in the source.
	Subject string   `json:"subject,omitempty"`
	IDs     []string `json:"ids,omitempty"`
	Detail  string   `json:"detail"`
}

// String describes the finding in a line.
func (f Finding) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s: ", f.Kind)
	if f.Source != 0 {
		fmt.Fprintf(&s, "event %d of the source, ", f.Source)
	}
	fmt.Fprintf(&s, "at %d of the target", f.Target)
	if f.Subject != "" {
		fmt.Fprintf(&s, ", on %q", f.Subject)
	}
	if len(f.IDs) > 0 {
		fmt.Fprintf(&s, ", ID %.100s", strings.Join(f.IDs, " and "))
	}
	return s.String() + ": " + f.Detail
}

// MaxFindings bounds the findings of each kind in a report. The others are
// counted.
const MaxFindings = 10

// Verification is the scope and the results of a verification.
type Verification struct {
	Source string `json:"source"`
	Target string `json:"target"`
	// The stream of the dead letters.
	DeadLetters string    `json:"dead_letters,omitempty"`
	Began       time.Time `json:"began"`

	// The point that was fixed at the start: nothing after it was verified.
	Point uint64 `json:"point"`

	// From and Through are the source sequences of the first and the last
	// verified event, and Stored is when the source stored the last.
	From    uint64    `json:"from"`
	Through uint64    `json:"through"`
	Stored  time.Time `json:"stored"`

	Events uint64 `json:"events"` // compared with their originals
	Dead   uint64 `json:"dead"`   // among the dead letters, and not in the target
	// In the target, and among the dead letters too.
	Both    uint64 `json:"both"`
	Waiting uint64 `json:"waiting"` // not in the target yet
	// Not verifiable: the evidence was removed.
	Gone uint64 `json:"gone"`
	// Without an original: the source has removed it.
	Orphans uint64 `json:"orphans"`
	Others  uint64 `json:"others"` // foreign messages in the target
	// Events in the target through Config.After.
	Before uint64 `json:"before"`

	Faults map[FaultKind]uint64 `json:"faults"` // number of each kind
	// The first of each kind, in the order of the target.
	Findings []Finding `json:"findings"`
}

// add counts a fault, if f is not nil, and keeps it if it is among the first of
// its kind.
func (r *Verification) add(f *Finding) {
	if f == nil {
		return
	}
	r.Faults[f.Kind]++
	if r.Faults[f.Kind] <= MaxFindings {
		r.Findings = append(r.Findings, *f)
	}
}

// sort brings the findings into the order of the target.
func (r *Verification) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Source, b.Source))
	})
}
