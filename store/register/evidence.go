package register

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/store"
)

// record is what a process has seen of the register, to detect that it
// regressed. A [Witness] keeps it in a file.
type record struct {
	kv.Position // of the register's stream
	// Most messages in it: none is ever deleted.
	Entries   uint64   `json:"entries,omitempty"`
	First     int64    `json:"first,omitempty"`     // lowest first ID of a new tag
	Decisions []string `json:"decisions,omitempty"` // every decision ever found
	// Time of the latest decision in the register; zero if unknown.
	Decided time.Time `json:"decided,omitzero"`
}

// Keys in the metadata of the register's stream. A poll reads them with the
// last sequence.
const (
	metaID = "idworker_id" // random, made with the stream
	// Random; all decisions so far, the latest last.
	metaDecisions = "idworker_decisions"
	metaFirst     = "idworker_first" // lowest first ID of a new tag
	// The latest decision, a space, and its time as in RFC 3339. It counts only
	// if it names the latest of all decisions: version 0.1.0 writes none.
	metaDecided = "idworker_decided"
	// Set while entries are raised for a decision: a random text, a space, and
	// the target of the raise, which is its lowest first ID.
	metaRaising = "idworker_raising"
)

// poll is a reply of the stream's leader.
type poll struct {
	kv.Position
	missing   bool // there is no stream
	decisions []string
	decided   time.Time // of the latest decision; zero if unknown
	raising   bool
	mark      string // while raising
	target    int64  // of the mark; 0 if it has none
	entries   uint64
	first     int64
	replicas  int
	full      bool // nine tenths of the limit of its bytes
}

func pollOf(info *jetstream.StreamInfo) poll {
	meta := info.Config.Metadata
	first, err := strconv.ParseInt(meta[metaFirst], 10, 64)
	if err != nil {
		first = 1
	}
	_, text, _ := strings.Cut(meta[metaRaising], " ")
	target, err := strconv.ParseInt(text, 10, 64)
	if err != nil { // a mark of version 0.1.0
		target = 0
	}
	decisions := strings.Fields(meta[metaDecisions])
	return poll{
		Position: kv.Position{ID: meta[metaID], Last: info.State.LastSeq}, decisions: decisions, decided: timeOf(decisions, meta[metaDecided]), first: max(1, first),
		raising: meta[metaRaising] != "", mark: meta[metaRaising], target: target,
		entries: info.State.Msgs, replicas: info.Config.Replicas,
		full: info.Config.MaxBytes > 0 && int64(info.State.Bytes) > info.Config.MaxBytes/10*9,
	}
}

// timeOf returns the time of the latest decision, or zero if decided is not
// about that decision.
func timeOf(decisions []string, decided string) time.Time {
	decision, text, _ := strings.Cut(decided, " ")
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || len(decisions) == 0 || decision != decisions[len(decisions)-1] {
		return time.Time{}
	}
	return at
}

// follows reports whether a poll shows the register of an earlier poll, under
// the same decisions and not being raised.
func (p poll) follows(earlier poll) bool {
	return !p.missing && !p.raising && p.ID == earlier.ID && earlier.Judge(p.Position) == kv.Same &&
		slices.Equal(p.decisions, earlier.decisions) && p.first == earlier.first && p.entries >= earlier.entries
}

// decided reports whether the register has a decision that is new to this
// process. Decisions are random, and each process keeps all of them. So a
// register restored to an older decision does not count as decided.
func (e *record) decided(p poll) bool {
	return !p.missing && !p.raising && e.Judge(p.Position) != kv.Another &&
		slices.ContainsFunc(p.decisions, func(d string) bool { return !slices.Contains(e.Decisions, d) })
}

// assess reports whether a poll shows a new decision. It returns nil, or the
// fault of the decision or of the register.
func (e *record) assess(bucket string, p poll, seen uint64) (decided bool, wrong *store.RegressionError) {
	if e.decided(p) {
		return true, e.checkFloor(bucket, p)
	}
	return false, e.check(bucket, p, seen)
}

// checkFloor returns the fault of a new decision that did not raise the lowest
// first ID above that of the record: it was made over a state from before
// another decision. The highest number cannot be raised.
func (e *record) checkFloor(bucket string, p poll) *store.RegressionError {
	if p.first > e.First || p.first == math.MaxInt64 {
		return nil
	}
	return &store.RegressionError{Bucket: bucket, Reason: fmt.Sprintf("was not raised enough: its lowest first ID for new tags is %d, and was %d", p.first, e.First), Short: e.First + 1 - p.first}
}

const beingRaised = "is being raised, or a raise was interrupted"

// check compares a poll with the record, and with the sequence seen before
// the poll was sent: later messages may be written after the reply. It returns
// nil or the fault.
func (e *record) check(bucket string, p poll, seen uint64) *store.RegressionError {
	wrong := store.RegressionError{Bucket: bucket, Seen: seen, Found: p.Last}
	switch relation := (kv.Position{ID: e.ID, Last: seen}).Judge(p.Position); {
	case p.missing && relation != kv.NoEvidence:
		wrong.Reason = "is missing"
	case relation == kv.Another:
		wrong.Reason = "was recreated or replaced"
	case p.raising:
		wrong.Reason = beingRaised
	case p.first < e.First:
		wrong.Reason = "predates a decision"
	case relation == kv.WentBack: // the error has both sequences
	case p.entries < e.Entries:
		wrong.Reason = fmt.Sprintf("lost entries: has %d, had %d", p.entries, e.Entries)
	default:
		return nil
	}
	return &wrong
}

// adopt makes a poll the record from now on. Sequence and number of entries
// belong to a decision. The lowest first ID, the list of decisions and the time
// of the latest only rise; an unknown time stands for the latest possible.
func (e *record) adopt(p poll) {
	e.Position, e.Entries, e.First = p.Position, p.entries, max(e.First, p.first)
	if p.decided.IsZero() || p.decided.After(e.Decided) {
		e.Decided = p.decided
	}
	e.learn(p)
}

// learn adds the decisions of a register to the record.
func (e *record) learn(p poll) {
	for _, d := range p.decisions {
		if !slices.Contains(e.Decisions, d) {
			e.Decisions = append(e.Decisions, d)
		}
	}
}

func (e *record) clone() record {
	c := *e
	c.Decisions = slices.Clone(e.Decisions)
	return c
}
