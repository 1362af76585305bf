// Package loadmsg has the messages between workers and loaders: a worker requests
// a segment with an [Event], and a loader answers with a [Grant]. Callers need
// neither.
//
// An event that requests wait for travels as a plain message. Other events
// travel through the load stream. A grant is a plain message that is sent once.
// If it is lost, the worker loses a second, and the range becomes a gap.
package loadmsg

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/metric"
	"github.com/idworker/idworker/internal/oneline"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/templates"
)

// ErrMalformed is wrapped by the errors of [DecodeEvent] and [DecodeGrant].
var ErrMalformed = errors.New("malformed load message")

// Event is a worker's request for a segment of a tag.
type Event struct {
	// Instance names the requesting process; the grant goes to its subject.
	Instance string `json:"instance"`

	Tag string `json:"tag"`

	// Step is the number of IDs that the worker's step policy requests. It is 0
	// if the tag is new to the worker or strict: then the loader decides.
	Step int64 `json:"step"`

	// Unknown means that the worker was never granted the tag, so it may not
	// exist.
	Unknown bool `json:"unknown,omitempty"`

	// Want is the number of IDs that parked requests wait for.
	Want int64 `json:"want"`

	// TrendOnly is how many of Want are for requests that a strict tag refuses. If
	// that is all of them, a loader refuses the event of a strict tag with
	// CodeStrict, and reserves nothing. Version 0.2.0 sends none, and ignores it.
	TrendOnly int64 `json:"trend_only,omitempty"`

	// Seq numbers the worker's loads. A repeated load keeps its number.
	Seq uint64 `json:"seq"`

	// Runway is the time that the worker's buffer lasts, in milliseconds, when
	// the event is sent.
	Runway int64 `json:"runway_ms,omitempty"`

	// Installation is the ID of the worker's installation.
	Installation string `json:"installation"`

	// Floor, Sequence and Next are the worker's claim, see [store.Claim].
	// Version 0.2.0 sends none, and ignores them.
	Floor    int64  `json:"floor,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
	Next     int64  `json:"next,omitempty"`
}

// Slack is the time that the event may wait, by which events are ordered.
// Parked requests cannot wait at all. Otherwise it is half of the runway: the
// buffer should outlast the wait, even if parked requests of other tags go
// first.
func (e Event) Slack() time.Duration {
	if e.Want > 0 {
		return 0
	}
	return time.Duration(e.Runway) * time.Millisecond / 2
}

// Claim is what the event says about the register, or nothing.
func (e Event) Claim() store.Claim {
	if e.Floor == 0 {
		return store.Claim{}
	}
	return store.Claim{By: e.Instance, Floor: e.Floor, Sequence: e.Sequence, Tag: e.Tag, Next: e.Next}
}

// maxRunway is ten years, in milliseconds: above any runway of a worker, and
// below an overflow.
const maxRunway = 10 * 365 * 24 * 60 * 60 * 1000

// Encode returns the event as it is published.
func (e Event) Encode() []byte { return encode(e) }

// DecodeEvent reads a load event that reserves at most limit IDs.
func DecodeEvent(data []byte, limit int64) (Event, error) {
	var e Event
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := checkAddress(e.Instance, e.Tag); err != nil {
		return e, err
	}
	if err := checkName("installation", e.Installation); err != nil {
		return e, err
	}
	if e.Runway < 0 || e.Runway > maxRunway {
		return e, fmt.Errorf("%w: runway of %d ms, allowed is 0 to %d", ErrMalformed, e.Runway, int64(maxRunway))
	}
	if most := max(e.Step, e.Want); e.Step < 0 || e.Want < 0 || most < 1 || most > limit {
		return e, fmt.Errorf("%w: step %d, want %d, allowed is 1 to %d", ErrMalformed, e.Step, e.Want, limit)
	}
	if e.Floor < 0 || e.Next < 0 {
		return e, fmt.Errorf("%w: floor %d, next %d", ErrMalformed, e.Floor, e.Next)
	}
	if e.TrendOnly < 0 || e.TrendOnly > e.Want {
		return e, fmt.Errorf("%w: %d of %d IDs for trend tags only", ErrMalformed, e.TrendOnly, e.Want)
	}
	return e, nil
}

// Grant is a loader's answer to a load event: the segment [First, End), or the
// reason for its absence.
type Grant struct {
	Instance string `json:"instance"`
	Tag      string `json:"tag"`
	Seq      uint64 `json:"seq"`
	First    int64  `json:"first,omitempty"`
	End      int64  `json:"end,omitempty"`

	// Step and Order are the tag's configured step and stored order at the
	// write that reserved the segment.
	Step  int64       `json:"step,omitempty"`
	Order store.Order `json:"order,omitempty"`

	// Installation is the ID of the loader's installation.
	Installation string `json:"installation"`

	// Floor is the lowest first ID of new tags under the latest decision that
	// the loader has adopted; of a segment, when it was reserved. A worker drops
	// segments with a lower floor. Version 0.2.0 sends none.
	Floor int64 `json:"floor,omitempty"`

	// Loader names the loader's process, new at each start, and Sequence is that
	// of the write that reserved the segment: they tell two histories of the
	// register apart. Version 0.2.0 sends neither.
	Loader   string `json:"loader,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`

	// Refused is the code of a refusal, or 0: CodeNoTag or CodeExhausted from
	// the store; CodeStrict if a strict tag has nothing to reserve for an event
	// (see Event.TrendOnly); CodeBusy if no new tag is looked up or created for now;
	// CodeUnavailable if the tag's stored data cannot be used.
	Refused messages.Code `json:"refused,omitempty"`

	// NotNow means that the load was not served, but a retry may be.
	NotNow NotNow `json:"not_now,omitempty"`

	// Reason explains NotNow, and CodeBusy or CodeUnavailable in Refused. It is
	// for people.
	Reason string `json:"reason,omitempty"`

	// FullTemplate is the pattern of the template that is full, if that is why
	// Refused is CodeBusy. Version 0.2.0 sends none, and ignores it.
	FullTemplate string `json:"full_template,omitempty"`

	// Pause is the time in milliseconds, at most a second, for which the loader
	// refuses all names unknown to the worker. It is set after too many
	// requests for names that do not exist.
	Pause int64 `json:"pause_ms,omitempty"`
}

// NotNow is the reason why a loader does not serve a load.
type NotNow string

// The values of Grant.NotNow.
const (
	// the store failed or hung for this tag; others may be served
	NotNowTag   NotNow = "tag"
	NotNowStore NotNow = "store" // the store fails
)

// Encode returns the grant as it is published.
func (g Grant) Encode() []byte { return encode(g) }

// DecodeGrant reads a grant: a range in 1 … 2^63−1, or a refusal.
func DecodeGrant(data []byte) (Grant, error) {
	var g Grant
	if err := json.Unmarshal(data, &g); err != nil {
		return g, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := checkAddress(g.Instance, g.Tag); err != nil {
		return g, err
	}
	if err := errors.Join(checkName("installation", g.Installation), checkName("loader", g.Loader)); err != nil {
		return g, err
	}
	if len(g.Reason) > maxReasonLen || strings.ContainsAny(g.Reason, "\r\n") {
		return g, fmt.Errorf("%w: reason %.40q, allowed is one line of %d bytes", ErrMalformed, g.Reason, maxReasonLen)
	}
	if g.Floor < 0 {
		return g, fmt.Errorf("%w: floor %d", ErrMalformed, g.Floor)
	}
	if g.FullTemplate != "" && (g.Refused != messages.CodeBusy || templates.CheckPattern(g.FullTemplate) != nil) {
		return g, fmt.Errorf("%w: full template %.40q", ErrMalformed, g.FullTemplate)
	}
	if g.Pause < 0 || g.Pause > maxPause || g.Pause > 0 && g.Refused != messages.CodeBusy {
		return g, fmt.Errorf("%w: pause of %d ms", ErrMalformed, g.Pause)
	}
	switch g.Refused {
	case 0:
		if g.NotNow != "" {
			if g.NotNow != NotNowTag && g.NotNow != NotNowStore || g.First != 0 || g.End != 0 {
				return g, fmt.Errorf("%w: not_now %.20q, range [%d, %d)", ErrMalformed, string(g.NotNow), g.First, g.End)
			}
			return g, nil
		}
		if g.First < 1 || g.End <= g.First {
			return g, fmt.Errorf("%w: range [%d, %d)", ErrMalformed, g.First, g.End)
		}
		if g.Step < 1 || g.Order != store.Trend && g.Order != store.Strict {
			return g, fmt.Errorf("%w: step %d, order %.20q", ErrMalformed, g.Step, string(g.Order))
		}
	case messages.CodeNoTag, messages.CodeStrict, messages.CodeExhausted, messages.CodeBusy, messages.CodeUnavailable:
		if g.First != 0 || g.End != 0 || g.NotNow != "" {
			return g, fmt.Errorf("%w: refused together with a range or not_now", ErrMalformed)
		}
	default:
		return g, fmt.Errorf("%w: refused with %d, allowed are %d, %d, %d, %d or %d", ErrMalformed, g.Refused, messages.CodeNoTag, messages.CodeStrict, messages.CodeBusy, messages.CodeUnavailable, messages.CodeExhausted)
	}
	return g, nil
}

const maxPause = 1000

// maxReasonLen leaves ample room for a sentence with a pattern in it.
const maxReasonLen = 512

// Reason formats an error as the reason of a refusal, or of an outage: a single
// line of bounded length.
func Reason(err error) string { return oneline.Cut(err.Error(), maxReasonLen) }

// maxInstanceLen leaves ample room for a NUID, which names a process.
const maxInstanceLen = 32

// checkAddress checks the fields that become part of a subject, so that no
// event can make a loader publish elsewhere.
func checkAddress(instance, tag string) error {
	if err := checkInstance(instance); err != nil {
		return err
	}
	if err := messages.CheckTag(tag); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

func checkInstance(instance string) error {
	if len(instance) > maxInstanceLen || strings.Contains(instance, ".") || messages.CheckTag(instance) != nil {
		return fmt.Errorf("%w: instance %.40q is not one token of at most %d bytes", ErrMalformed, instance, maxInstanceLen)
	}
	return nil
}

// checkName checks the name of an installation or a loader, which may be missing.
func checkName(what, name string) error {
	if name != "" && (len(name) > maxInstanceLen || strings.Contains(name, ".") || messages.CheckTag(name) != nil) {
		return fmt.Errorf("%w: %s %.40q is not one token of at most %d bytes", ErrMalformed, what, name, maxInstanceLen)
	}
	return nil
}

// encode marshals a struct of numbers and strings, which cannot fail.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// StreamName is the name of the work-queue stream of load events.
func StreamName(p messages.Prefix) string { return strings.ToUpper(string(p)) + "_LOAD" }

// Subject is the subject of a worker's load events for a tag. The load stream
// keeps a single message per subject, and so allows one load at a time per
// worker and tag.
func Subject(p messages.Prefix, instance, tag string) string {
	return string(p) + ".load." + instance + "." + tag
}

// ReserveSubject is the subject of load events as plain messages to loaders.
func ReserveSubject(p messages.Prefix) string { return string(p) + ".reserve" }

// GrantSubject is the subject of grants to a worker process.
func GrantSubject(p messages.Prefix, instance string) string { return string(p) + ".grant." + instance }

// LoadersSubject is the subject of messages to all loaders: a request for their
// names, which is empty, or [Claims].
func LoadersSubject(p messages.Prefix) string { return string(p) + ".process.loader" }

// IsLoadersSubject reports whether a subject is that of [LoadersSubject] for some
// prefix.
func IsLoadersSubject(subject string) bool {
	prefix, ok := strings.CutSuffix(subject, LoadersSubject(""))
	return ok && messages.Prefix(prefix).Check() == nil
}

// DropSubject is the subject of requests to all workers to drop a tag's buffer.
func DropSubject(p messages.Prefix) string { return string(p) + ".drop" }

// Foreign drops and counts the messages of other installations. A load event of
// another installation must not get a segment of this installation's store, and
// a grant of another store must not be used.
//
// Dropping an event is harmless, even in the load stream: this installation's
// stream may hold the events of others, but only this installation's loaders
// read it.
type Foreign struct {
	Installation string // the process's own
	Log          *zap.Logger
	counts       [len(kinds)]atomic.Int64

	mu     sync.Mutex
	logged map[string]bool
}

// MessageKind is the kind of a message.
type MessageKind int

// The kinds.
const (
	EventMessage MessageKind = iota
	GrantMessage
)

var kinds = [...]string{"load_event", "grant"}

// maxForeignLogged bounds the set of logged installations.
const maxForeignLogged = 100

// Drop reports whether a message must be dropped because it names another
// installation.
func (f *Foreign) Drop(kind MessageKind, installation, sender string) bool {
	if installation == f.Installation {
		return false
	}
	f.counts[kind].Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if key := kinds[kind] + " " + installation; !f.logged[key] && len(f.logged) < maxForeignLogged {
		if f.logged == nil {
			f.logged = make(map[string]bool)
		}
		f.logged[key] = true
		f.Log.Error("message of another installation dropped", zap.String("kind", kinds[kind]),
			zap.String("other", installation), zap.String("own", f.Installation), zap.String("sender", sender))
	}
	return true
}

var foreignTotal = metric.Declare("foreign_messages_total", "Load events and grants of other installations, dropped.", "kind")

// Collect sends the metrics.
func (f *Foreign) Collect(to metric.Sink) {
	for i, kind := range kinds {
		to.Counter(foreignTotal, f.counts[i].Load(), kind)
	}
}
