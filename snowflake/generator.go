package snowflake

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Fence is the time that a [Generator] may use: timestamps t with Lo ≤ t < Hi.
//
// IDs are unique if successive holders of a worker ID get fences that do not
// overlap. A Generator that has its worker ID alone and for good may use
// Fence{Hi: Forever}. After a restart it then relies on a clock that was not
// set back.
type Fence struct {
	Lo int64 // 0 counts as 1, so that there is no ID 0
	Hi int64 // 0 or Lo: nothing may be issued before Extend
}

// Forever is a Hi that is never reached.
const Forever = math.MaxInt64

// DefaultMaxAhead is the default for the lead of IDs over the clock.
const DefaultMaxAhead = time.Second

// Settings configure a [Generator].
type Settings struct {
	Layout     Layout
	Datacenter int64 // 0 to the layout's MaxDatacenter
	Worker     int64 // 0 to the layout's MaxWorkerID
	Fence      Fence

	// 0: DefaultMaxAhead; less than a time unit: no borrowing.
	MaxAhead time.Duration
	Clock    Clock // nil: SystemClock()
}

// Generator issues IDs for one worker ID. The package comment has its promises,
// and why they hold. All methods may be called from many goroutines.
type Generator struct {
	// next is the position of the next ID, timestamp<<sequenceBits | sequence.
	// The sign bit is set once the generator is revoked.
	next atomic.Int64

	// Every call writes next and reads the fields below, so they have different
	// cache lines.
	_ [56]byte

	hi    atomic.Int64 // of the fence; only rises, but for Suspend
	clock Clock

	epoch int64 // Unix time in nanoseconds
	unit  int64 // nanoseconds
	ahead int64 // units
	end   int64 // the first timestamp past the layout

	sequenceBits  uint
	sequenceShift uint
	timeShift     uint
	machine       int64 // datacenter and worker ID, where they belong in the ID
	random        int64 // mask of the bits that are random in a new unit
}

// New makes a Generator. The error wraps [ErrSettings], or is [ErrExhausted] if
// the fence begins past the layout's lifetime.
func New(s Settings) (*Generator, error) {
	l := s.Layout
	if s.MaxAhead == 0 {
		s.MaxAhead = DefaultMaxAhead
	}
	if s.Clock == nil {
		s.Clock = SystemClock()
	}
	switch {
	case l.IsZero():
		return nil, fmt.Errorf("%w: no layout", ErrSettings)
	case s.Worker < 0 || s.Worker > l.MaxWorkerID():
		return nil, fmt.Errorf("%w: worker ID %d, allowed is 0 to %d", ErrSettings, s.Worker, l.MaxWorkerID())
	case s.Datacenter < 0 || s.Datacenter > l.MaxDatacenter():
		return nil, fmt.Errorf("%w: datacenter %d, allowed is 0 to %d", ErrSettings, s.Datacenter, l.MaxDatacenter())
	case s.MaxAhead < 0:
		return nil, fmt.Errorf("%w: MaxAhead %v, allowed is 0 or more", ErrSettings, s.MaxAhead)
	case s.Fence.Lo > l.MaxTimestamp():
		return nil, ErrExhausted
	}
	g := &Generator{
		clock:         s.Clock,
		epoch:         l.epoch * nanosInMilli,
		unit:          l.unit,
		ahead:         int64(s.MaxAhead) / l.unit,
		end:           l.MaxTimestamp() + 1,
		sequenceBits:  l.sequence,
		sequenceShift: l.sequenceShift(),
		timeShift:     l.timeShift(),
		machine:       s.Datacenter<<l.datacenterShift() | s.Worker<<l.workerShift(),
		random:        mask(randomBits(l.sequence)),
	}
	g.next.Store(max(s.Fence.Lo, 1) << g.sequenceBits)
	g.hi.Store(max(s.Fence.Hi, 0))
	return g, nil
}

// randomBits is how many low bits of the first sequence number in a unit are
// random: enough for id % 16, more where that costs less than a 32nd of the
// unit.
func randomBits(sequence uint) uint { return min(sequence, max(4, sequence-min(5, sequence))) }

// Next issues an ID.
func (g *Generator) Next() (ID, error) {
	at, err := g.takePositions(1)
	if err != nil {
		return 0, err
	}
	return g.id(at), nil
}

// NextN issues n IDs, all or none, and appends them to dst as ascending ranges
// of consecutive IDs: a range per time unit that they come from, and at most
// two if n is less than the layout's MaxSequence. With SequenceFirst, each ID
// is a range of its own.
//
// The error is one of Next's, or [ErrCount]; dst is then returned unchanged. A
// request for more IDs than MaxAhead has room for always fails with [ErrAhead].
func (g *Generator) NextN(dst []IDRange, n int64) ([]IDRange, error) {
	if n < 1 {
		return dst, ErrCount
	}
	at, err := g.takePositions(n)
	if err != nil {
		return dst, err
	}
	for n > 0 {
		// Left in this unit.
		run := min(n, (at>>g.sequenceBits+1)<<g.sequenceBits-at)
		if g.sequenceShift > 0 {
			run = 1
		}
		dst = append(dst, IDRange{g.id(at), g.id(at + run - 1)})
		at, n = at+run, n-run
	}
	return dst, nil
}

// Extend raises the upper end of the fence to hi. A lower hi changes nothing,
// and neither does any hi once the generator is revoked.
func (g *Generator) Extend(hi int64) { raise(&g.hi, hi) }

// Suspend takes the fence away: until Extend, the generator returns only
// [ErrFenced].
func (g *Generator) Suspend() { g.hi.Store(0) }

// Revoke ends the generator for good: from now on it returns only [ErrRevoked].
// Revoke returns Last, which is then final, so that a clean stop can hand over
// the unused time: the next holder's fence may begin at Revoke() + 1.
func (g *Generator) Revoke() (last int64) {
	g.next.Or(revoked)
	return g.Last()
}

// Last is the highest timestamp issued so far, or the timestamp before the
// fence.
func (g *Generator) Last() int64 { return (g.next.Load()&^revoked - 1) >> g.sequenceBits }

// revoked is the sign bit of Generator.next.
const revoked = math.MinInt64

// takePositions takes n positions, and returns the first.
func (g *Generator) takePositions(n int64) (first int64, err error) {
	now := g.now()
	for {
		at := g.next.Load()
		if at < 0 {
			return 0, ErrRevoked
		}
		first = at
		if now > at>>g.sequenceBits {
			first = now<<g.sequenceBits | int64(rand.Uint32())&g.random
		}
		hi := g.hi.Load()
		if !g.fits(first, n, min(hi, g.end, now+g.ahead+1)) {
			if err := g.refusal(first, n, hi); !errors.Is(err, ErrAhead) {
				return 0, err
			}
			// The clock may have been read before a pause of this goroutine.
			// Then the position is ahead of it only because others have gone
			// on.
			again := g.now()
			if again == beforeEpoch {
				return 0, ErrEpoch
			}
			if again <= now {
				return 0, ErrAhead
			}
			now = again
			continue
		}
		if g.next.CompareAndSwap(at, first+n) {
			return first, nil
		}
	}
}

// fits reports whether the n positions from first all lie below timestamp
// limit, which is at most g.end, so that nothing here can overflow.
func (g *Generator) fits(first, n, limit int64) bool {
	return limit > first>>g.sequenceBits && n <= limit<<g.sequenceBits-first
}

// refusal returns the most lasting reason why the n positions from first are
// not available.
func (g *Generator) refusal(first, n, hi int64) error {
	switch {
	case !g.fits(first, n, g.end):
		return ErrExhausted
	case (n-1)>>g.sequenceBits > g.ahead: // whatever the fence
		return ErrAhead
	case !g.fits(first, n, min(hi, g.end)):
		return ErrFenced
	default:
		return ErrAhead
	}
}

// beforeEpoch stands for any time before the epoch. It is so low that no
// MaxAhead reaches from there into the layout's lifetime.
const beforeEpoch = math.MinInt64 / 2

// now is the clock's timestamp; g.end if the layout's lifetime is over.
func (g *Generator) now() int64 {
	nanos := g.clock()
	if nanos < g.epoch {
		return beforeEpoch
	}
	return min((nanos-g.epoch)/g.unit, g.end)
}

// id is the ID at a position.
func (g *Generator) id(at int64) ID {
	timestamp, sequence := at>>g.sequenceBits, at&mask(g.sequenceBits)
	return ID(timestamp<<g.timeShift | g.machine | sequence<<g.sequenceShift)
}

// IDRange is a range of consecutive IDs, both ends included.
type IDRange struct {
	First ID
	Last  ID
}

// Len is the number of IDs in the range.
func (r IDRange) Len() int64 { return int64(r.Last-r.First) + 1 }
