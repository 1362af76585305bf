package register

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/store"
)

// evidence is a process's record of the register, to detect that it regressed.
// A [Witness] keeps it in a file.
type evidence struct {
	ID   string `json:"id,omitempty"` // identity of the register's stream
	Seen uint64 `json:"seen"`         // highest sequence of that stream
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
	missing   bool // there is no stream
	id        string
	decisions []string
	decided   time.Time // of the latest decision; zero if unknown
	raising   bool
	mark      string // while raising
	target    int64  // of the mark; 0 if it has none
	last      uint64
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
		id: meta[metaID], decisions: decisions, decided: timeOf(decisions, meta[metaDecided]), first: max(1, first),
		raising: meta[metaRaising] != "", mark: meta[metaRaising], target: target,
		last: info.State.LastSeq, entries: info.State.Msgs, replicas: info.Config.Replicas,
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
	return !p.missing && !p.raising && p.id == earlier.id && slices.Equal(p.decisions, earlier.decisions) &&
		p.first == earlier.first && p.last >= earlier.last && p.entries >= earlier.entries
}

// decided reports whether the register has a decision that is new to this
// process. Decisions are random, and each process keeps all of them. So a
// register restored to an older decision does not count as decided.
func (e *evidence) decided(p poll) bool {
	return !p.missing && !p.raising && !e.foreign(p) &&
		slices.ContainsFunc(p.decisions, func(d string) bool { return !slices.Contains(e.Decisions, d) })
}

// foreign reports whether a register is not the register seen, whatever was
// decided.
func (e *evidence) foreign(p poll) bool { return e.ID != "" && !p.missing && p.id != e.ID }

// judge reports whether a poll shows a new decision. It returns nil, or the
// fault of the decision or of the register.
func (e *evidence) judge(bucket string, p poll, seen uint64) (decided bool, wrong *store.RegressionError) {
	if e.decided(p) {
		return true, e.checkFloor(bucket, p)
	}
	return false, e.check(bucket, p, seen)
}

// checkFloor returns the fault of a new decision that did not raise the lowest
// first ID above that of the evidence: it was made over a state from before
// another decision. The highest number cannot be raised.
func (e *evidence) checkFloor(bucket string, p poll) *store.RegressionError {
	if p.first > e.First || p.first == math.MaxInt64 {
		return nil
	}
	return &store.RegressionError{Bucket: bucket, Reason: fmt.Sprintf("was not raised enough: its lowest first ID for new tags is %d, and was %d", p.first, e.First), Short: e.First + 1 - p.first}
}

const beingRaised = "is being raised, or a raise was interrupted"

// check compares a poll with the evidence, and with the sequence seen before
// the poll was sent: later messages may be written after the reply. It returns
// nil or the fault.
func (e *evidence) check(bucket string, p poll, seen uint64) *store.RegressionError {
	wrong := store.RegressionError{Bucket: bucket, Seen: seen, Found: p.last}
	switch {
	case p.missing && (seen > 0 || e.ID != ""):
		wrong.Reason = "is missing"
	case e.foreign(p):
		wrong.Reason = "was recreated or replaced"
	case p.raising:
		wrong.Reason = beingRaised
	case p.first < e.First:
		wrong.Reason = "predates a decision"
	case p.last < seen:
	case p.entries < e.Entries:
		wrong.Reason = fmt.Sprintf("lost entries: has %d, had %d", p.entries, e.Entries)
	default:
		return nil
	}
	return &wrong
}

// adopt makes a poll the evidence from now on. Sequence and number of entries
// belong to a decision. The lowest first ID, the list of decisions and the time
// of the latest only rise; an unknown time stands for the latest possible.
func (e *evidence) adopt(p poll) {
	e.ID, e.Seen, e.Entries, e.First = p.id, p.last, p.entries, max(e.First, p.first)
	if p.decided.IsZero() || p.decided.After(e.Decided) {
		e.Decided = p.decided
	}
	e.learn(p)
}

// learn adds the decisions of a register to the evidence.
func (e *evidence) learn(p poll) {
	for _, d := range p.decisions {
		if !slices.Contains(e.Decisions, d) {
			e.Decisions = append(e.Decisions, d)
		}
	}
}

func (e *evidence) clone() evidence {
	c := *e
	c.Decisions = slices.Clone(e.Decisions)
	return c
}
