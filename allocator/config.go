package allocator

import (
	"cmp"
	"errors"
	"time"

	"github.com/idworker/idworker/store"
)

// The defaults of [Config].
const (
	DefaultMaxStep         = 1_000_000 // as in Leaf
	DefaultWait            = 2 * time.Second
	DefaultReAsk           = time.Second
	DefaultMaxParkedPerTag = 4096
	DefaultMaxParked       = 65_536
	DefaultMaxUnknown      = 16_384
)

// Config holds an allocator's settings. Clock must be set; the rest has
// defaults.
type Config struct {
	// Clock is the time since some fixed moment. It must not step back, so a
	// wall clock will not do.
	Clock func() time.Duration

	// MaxStep is the ceiling of the step policy, in IDs.
	MaxStep int64

	// Wait is the time that a request is parked before it gets ErrNoSegment.
	Wait time.Duration

	// ReAsk is the time for which a load without an answer has a place, before
	// it waits to be sent again. A refusal is kept for the same time.
	ReAsk time.Duration

	// MaxParkedPerTag and MaxParked bound the parked requests; another gets
	// ErrBusy.
	MaxParkedPerTag int
	MaxParked       int

	// MaxUnknown bounds the tags without a grant; a request for another gets
	// ErrBusy.
	MaxUnknown int
}

// Request is a request for IDs of a tag.
type Request struct {
	Tag string
	N   int64 // how many IDs

	// Kept is set if the caller will hand the IDs out later, as a prefetcher
	// does. For a strict tag, such a request gets ErrStrict.
	Kept bool

	// From returns with the reply, and names the request in Withdraw. It is
	// comparable, and no other parked request of the tag has it.
	From any
}

// Load is a request for another segment of a tag.
type Load struct {
	Tag string
	// From the step policy, 1 to Config.MaxStep; 0: the tag is strict or
	// unknown.
	Step int64
	// The IDs that parked requests wait for, usually at most Config.MaxStep.
	Want int64
	// Of Want, the IDs that are kept for later. A strict tag reserves none for
	// them, and refuses the load with store.ErrStrict if it wants no others.
	TrendOnly int64

	// The time that the buffer lasts at the present rate, at most MaxRunway.
	Runway time.Duration

	Seq uint64 // the load's number, the same when it is sent again

	// The tag is unknown: it has had no grant since it was created here.
	First bool

	// The end of the highest segment that ended a load of the tag; 0 if First. The
	// store has granted all below.
	Next int64

	// The load goes to a loader directly, not into the load stream.
	Direct bool
}

// Answer is what became of a load: a granted segment, a refusal, or a reason
// why it comes later.
type Answer struct {
	store.Segment             // invalid if none was granted
	Step          int64       // the tag's configured step; below 1: not given
	Order         store.Order // from the register's entry that reserved the segment
	store.Line                // of the write that reserved it
	Loader        string      // names the process that reserved it; may be empty

	// An error that will not go away soon, such as store.ErrNoTag.
	Refused error

	Later Later
}

// Later is the reason why a load was not served yet.
type Later int

// The reasons.
const (
	// TagFails: the store failed or hung for this tag.
	TagFails Later = iota + 1

	// StoreFails: the store fails. The load stays open, and keeps its place.
	StoreFails

	// Queued: the load stream refused the load, because it holds an earlier
	// event of the tag.
	Queued

	// NotSent: the load stream failed. Send returns the load once more.
	NotSent
)

// Outcome is the fate of a grant.
type Outcome int

// The outcomes.
const (
	// Burnt: the tag is not held, there is no room, or the grant is late or a
	// duplicate. None of that is evidence about the store.
	Burnt Outcome = iota

	// Used: the segment was added to the buffer, or served a strict load.
	Used

	// OtherOrder: the grant answers the load under way, and its order differs
	// from the tag's. It is burnt, and the tag is dropped, so that the next
	// request creates it again.
	OtherOrder

	// Below: the grant answers the load under way, and yet lies below an earlier
	// grant, or was made under an earlier decision than the allocator has
	// learned. So the store regressed. It is burnt.
	Below
)

// Verdict is the fate of a grant, and why.
type Verdict struct {
	Outcome Outcome

	// Above is the end of the highest segment that was granted before, and By the
	// loader that granted it, at this sequence of the register, if the outcome
	// is Below.
	Above    int64
	By       string
	Sequence uint64

	// FirstBelow is set with the first Below since a grant of the tag was used.
	FirstBelow bool
}

// The errors of requests, in addition to those with which a load was refused.
var (
	// ErrNoSegment: no segment came before the request's deadline.
	ErrNoSegment = errors.New("no segment arrived in time: loaders or store may be unreachable")

	// ErrBusy: the limit of parked requests is reached, for this tag or in all,
	// or that of unknown tags.
	ErrBusy = errors.New("too many parked requests")

	// ErrCount: the count is below 1.
	ErrCount = errors.New("count below 1")

	// ErrStrict: IDs of a strict tag cannot be kept for later.
	ErrStrict = errors.New("IDs of a strict tag cannot be prefetched")

	// ErrTooMany: loaders grant fewer IDs at a time than the request wants.
	ErrTooMany = errors.New("count above the largest grant of a strict tag")

	// ErrDropped: the tag was dropped while the request waited. A retry may
	// create it again.
	ErrDropped = errors.New("the tag was dropped; retry")
)

// withDefaults fills in the settings that are not set.
func (c Config) withDefaults() Config {
	c.MaxStep = cmp.Or(c.MaxStep, DefaultMaxStep)
	c.Wait = cmp.Or(c.Wait, DefaultWait)
	c.ReAsk = cmp.Or(c.ReAsk, DefaultReAsk)
	c.MaxParkedPerTag = cmp.Or(c.MaxParkedPerTag, DefaultMaxParkedPerTag)
	c.MaxParked = cmp.Or(c.MaxParked, DefaultMaxParked)
	c.MaxUnknown = cmp.Or(c.MaxUnknown, DefaultMaxUnknown)
	return c
}
