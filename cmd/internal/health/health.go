// Package health judges an installation once, and shows the result everywhere:
// on a page for browsers, as a table, as the lines of doctor, as JSON, in the
// log, in /readyz, and as an exit code.
//
// A [Collector] sends all requests at once, each with a deadline, on one
// connection (collect.go): for the reports of processes, the buckets of worker
// IDs, templates and enrichments, and the checks of a role (checks.go). Rules
// make a [Diagnosis] of every state, with a severity (judge.go). The result is
// an [Installation] (installation.go), which is shown by [Installation.Diagnoses],
// a [View] (text.go), or the [StatusPage] (page.go). A process judges its own
// report by the same rules, without NATS, with [Own].
//
// A missing answer proves nothing. A failed request hides no other result: it is
// in [Installation.Unread], with the reason. A worker that has a lease and does
// not report is listed as silent.
package health

import (
	"errors"
	"slices"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/store"
)

// Severity is the severity of a diagnosis; empty if all is well.
type Severity string

// Severities. An error means that requests fail because of it, or will soon.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Diagnosis is the judgement about a part of an installation.
type Diagnosis struct {
	Severity Severity `json:"severity,omitempty"`
	What     string   `json:"what"` // the process, tag, enrichment or check
	Text     string   `json:"text"`

	Short string `json:"-"` // the state of a process, in few words; or empty

	err error // that Text explains; may be nil
}

// String formats the diagnosis without its severity.
func (d Diagnosis) String() string {
	if d.What == "" {
		return d.Text
	}
	return d.What + ": " + d.Text
}

// Problems with a hint.
var (
	ErrOtherLayout = problem.New(problem.OtherLayout, "the installation has another layout")
	ErrClockOff    = errors.New("the clock is off")
	ErrNoAnswer    = problem.New(problem.NobodyAnswers, "no worker answers")

	// ErrReplicasDiffer means that a replica has lost or revived entries.
	ErrReplicasDiffer = problem.New(problem.CopiesDiffer, "replicas differ")

	// Warnings: of storage, of room for the tags of templates, of limits of IDs
	// within a year, of copies on a cluster, of a NATS server that accepts only
	// small messages, and of a usable resource that provisioning would change.
	ErrShared     = problem.New(problem.StorageFull, "the account has no storage limit, so other accounts can fill the server and stop grants")
	ErrNearlyFull = problem.New(problem.StorageFull, "the account's storage is nearly full; a full account stops grants")
	ErrFills      = problem.New(problem.Fills, "room for tags may end, and templates make no more then")
	ErrRunsOut    = problem.New(problem.RunsOut, "numbers run out")
	ErrCopies     = problem.New(problem.TooFewCopies, "too few copies")
	ErrPayload    = problem.New(problem.SmallPayload, "max_payload is small, so status may lack tags")
	ErrDifferent  = problem.New(problem.Different, "not as provisioned")

	// Warnings about the versions of NATS servers.
	ErrVersionsUnknown = errors.New("the other servers' versions are unknown")
	ErrRevivesOld      = errors.New("nats-server before 2.12.2 may bring back older counters after damage to a disk")
)

var (
	errRights     = errors.New("this user's rights are unknown")
	errClockAhead = errors.New("the clock differs")
)

// mayBeRight lists the errors that are warnings.
var mayBeRight = []error{
	durability.ErrSyncUnknown, store.ErrSettingUnknown, errClockAhead,
	errRights, ErrShared, ErrNearlyFull, ErrFills, ErrRunsOut, ErrCopies, ErrPayload, ErrDifferent, ErrVersionsUnknown, ErrRevivesOld,
	enrich.ErrMixedTarget,
}

// severityOf returns the severity of an error. It is a warning if all parts are
// in mayBeRight.
func severityOf(err error) Severity {
	if err == nil {
		return ""
	}
	for _, part := range problem.Parts(err) {
		if !slices.ContainsFunc(mayBeRight, func(w error) bool { return errors.Is(part, w) }) {
			return Error
		}
	}
	return Warning
}

// diagnose returns the diagnosis for an error, or if it is nil the text right.
func (i *Installation) diagnose(what, right string, wrong error) Diagnosis {
	if wrong == nil {
		return Diagnosis{What: what, Text: right}
	}
	text := wrong.Error()
	if i.explain != nil {
		text = i.explain(wrong)
	}
	return Diagnosis{Severity: severityOf(wrong), What: what, Text: text, err: wrong}
}
