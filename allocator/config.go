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
	DefaultMaxFirstUses    = 16_384
)

// Config says what an allocator may do. Clock and Load must be set; the rest has
// defaults.
type Config struct {
	// Clock is the time since some fixed moment. It must not step back, so a wall
	// clock will not do.
	Clock func() time.Duration

	// Load is called when a tag wants a segment. Any of the allocator's methods may
	// call it, so it must not block. No lock is held meanwhile.
	Load func(Load)

	// FirstUse is asked about a tag that Update has not added. If the tag comes into being when it is
	// asked for, FirstUse returns its configured step, else the error that the request gets. It must
	// not block. No lock is held meanwhile. By default it is store.ErrNoTag. See firstuse.go.
	FirstUse func(name string) (step int64, err error)

	// Template names what FirstUse made a tag of. It is asked as FirstUse is. By default it is the same
	// for all.
	Template func(name string) string

	// MaxFirstUses bounds the tags that came into being by FirstUse and were never granted; a request
	// for one more gets ErrBusy. Those of one Template are no more than an eighth, if it is set: who
	// makes names up for one of them leaves room for the others.
	MaxFirstUses     int
	maxFirstUsesEach int

	// Ordered says whether a tag has terms, so that none of its IDs may be without one, see
	// [Allocator.TakeOrParkIn]. It is asked with a lock held and must not block. By default no
	// tag has.
	Ordered func(name string) bool

	// MaxStep is the ceiling of the step policy, in IDs.
	MaxStep int64

	// Wait is how long a request is parked before it gets ErrNoSegment.
	Wait time.Duration

	// ReAsk is how long to wait for a grant before asking for the load again. The pause
	// doubles with each time, up to 16 times as long.
	ReAsk time.Duration

	// MaxParkedPerTag and MaxParked bound the parked requests; one more gets
	// ErrBusy.
	MaxParkedPerTag int
	MaxParked       int
}

// Load asks for one more segment of a tag.
type Load struct {
	Tag   string
	Step  int64 // what the step policy asks for, from 1 to Config.MaxStep
	Want  int64 // the IDs that parked requests wait for, at most Config.MaxStep
	Above int64 // the end of the highest segment ever granted, 0 if none: lower ones are burnt

	Runway time.Duration // how long memory lasts at the present rate, at most MaxRunway

	Seq uint64 // the load's number, the same when it is asked for again
	Try int    // 1 for the first time, 2 for the second, …
}

// The errors with which requests are answered, besides store.ErrNoTag and
// store.ErrExhausted.
var (
	// ErrNoSegment: no segment came before the request's deadline.
	ErrNoSegment = errors.New("no segment came in time")

	// ErrBusy: the limit of parked requests is reached, for this tag or in all.
	ErrBusy = errors.New("too many parked requests")

	// ErrCount: fewer than one ID was asked for.
	ErrCount = errors.New("count below 1")
)

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	c.MaxStep = cmp.Or(c.MaxStep, DefaultMaxStep)
	c.Wait = cmp.Or(c.Wait, DefaultWait)
	c.ReAsk = cmp.Or(c.ReAsk, DefaultReAsk)
	c.MaxParkedPerTag = cmp.Or(c.MaxParkedPerTag, DefaultMaxParkedPerTag)
	c.MaxParked = cmp.Or(c.MaxParked, DefaultMaxParked)
	c.MaxFirstUses = cmp.Or(c.MaxFirstUses, DefaultMaxFirstUses)
	if c.FirstUse == nil {
		c.FirstUse = func(string) (int64, error) { return 0, store.ErrNoTag }
	}
	c.maxFirstUsesEach = c.MaxFirstUses / templateShare
	if c.Template == nil {
		c.Template, c.maxFirstUsesEach = func(string) string { return "" }, c.MaxFirstUses
	}
	if c.Ordered == nil {
		c.Ordered = func(string) bool { return false }
	}
	return c
}
