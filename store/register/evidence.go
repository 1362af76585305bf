package register

import (
	"fmt"
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
	metaFirst     = "idworker_first"   // lowest first ID of a new tag
	metaRaising   = "idworker_raising" // set while entries are raised for a decision
	// The latest decision and its time. Version 0.1.0 decides without a time,
	// so the time is void if it names another decision.
	metaDecided = "idworker_decided"
)

// poll is a reply of the stream's leader.
type poll struct {
	missing   bool // there is no stream
	id        string
	decisions []string
	decided   time.Time // of the latest decision; zero if unknown
	raising   bool
	last      uint64
	entries   uint64
	first     int64
	replicas  int
}

func pollOf(info *jetstream.StreamInfo) poll {
	meta := info.Config.Metadata
	first, err := strconv.ParseInt(meta[metaFirst], 10, 64)
	if err != nil {
		first = 1
	}
	decisions := strings.Fields(meta[metaDecisions])
	return poll{
		id: meta[metaID], decisions: decisions, decided: timeOf(decisions, meta[metaDecided]), raising: meta[metaRaising] != "", first: max(1, first),
		last: info.State.LastSeq, entries: info.State.Msgs, replicas: info.Config.Replicas,
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

// adopt makes a poll the evidence from now on.
func (e *evidence) adopt(p poll) {
	e.ID, e.Seen, e.Entries, e.First, e.Decided = p.id, p.last, p.entries, p.first, p.decided
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
