package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is what is wrong with an event.
type Kind string

// The kinds of findings.
const (
	Missing  Kind = "missing"      // neither in the target nor among the dead letters
	Doubled  Kind = "doubled"      // in the target more than once
	Order    Kind = "out-of-order" // behind an event that follows it in the source
	SharedID Kind = "shared-id"    // has the ID of another event
	BadID    Kind = "bad-id"       // has no ID, several, or one that is not what it should be
	Changed  Kind = "changed"      // its subject, body or headers are not those of the source's event
	Foreign  Kind = "foreign"      // not an event that was enriched from this source
	Unknown  Kind = "unknown"      // the source does not have it: it ends before it, or has another event there
)

// Finding is one thing that is wrong.
type Finding struct {
	Kind    Kind     `json:"kind"`
	Source  uint64   `json:"source_sequence,omitempty"` // of the event
	Target  uint64   `json:"target_sequence,omitempty"` // where it is; of a missing event, what is in its place
	Subject string   `json:"subject,omitempty"`         // in the target; of a missing event, in the source
	IDs     []string `json:"ids,omitempty"`
	Detail  string   `json:"detail"`
}

// String says what is wrong in one line.
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

// MaxFindings is how many findings of each kind a report has. The others are counted.
const MaxFindings = 10

// Report is what was verified, and what was found.
type Report struct {
	Source      string    `json:"source"`
	Target      string    `json:"target"`
	DeadLetters string    `json:"dead_letters,omitempty"` // the stream that has them
	Began       time.Time `json:"began"`

	// The point that was fixed at the start: nothing behind it was looked at.
	Point uint64 `json:"point"`

	// From and Through are the source sequences of the first and the last event that are
	// accounted for, and Stored is when the source stored the last one.
	From    uint64    `json:"from"`
	Through uint64    `json:"through"`
	Stored  time.Time `json:"stored"`

	Events  uint64 `json:"events"`  // compared with their originals
	Dead    uint64 `json:"dead"`    // among the dead letters, and not in the target
	Both    uint64 `json:"both"`    // in the target, and among the dead letters too
	Waiting uint64 `json:"waiting"` // not in the target yet
	Gone    uint64 `json:"gone"`    // not verifiable: what would prove them has been removed
	Orphans uint64 `json:"orphans"` // without an original: it has been removed from the source
	Others  uint64 `json:"others"`  // messages of others in the target
	Before  uint64 `json:"before"`  // events in the target through Config.After

	Faults   map[Kind]uint64 `json:"faults"`   // how many there are
	Findings []Finding       `json:"findings"` // the first of each kind, in the order of the target
}

// add counts a fault, if it is one, and keeps it if it is one of the first of its kind.
func (r *Report) add(f *Finding) {
	if f == nil {
		return
	}
	r.Faults[f.Kind]++
	if r.Faults[f.Kind] <= MaxFindings {
		r.Findings = append(r.Findings, *f)
	}
}

// sort brings the findings into the order of the target.
func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Source, b.Source))
	})
}
