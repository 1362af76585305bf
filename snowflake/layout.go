package snowflake

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Layout defines the bits of an ID. It is an immutable value: two layouts are
// the same if they are ==, and the zero Layout is no layout.
//
//	 63 62                    22 21        12 11         0
//	┌──┬────────────────────────┬────────────┬────────────┐
//	│ 0│ time since the epoch   │ worker ID  │ sequence   │   Default
//	└──┴────────────────────────┴────────────┴────────────┘
//	   │ 41 bits of 1 ms        │ 10         │ 12         │
//
//	 63 62                    22 21  17 16 12 11         0
//	┌──┬────────────────────────┬──────┬─────┬────────────┐
//	│ 0│ time since the epoch   │datac.│ w.ID│ sequence   │   Twitter
//	└──┴────────────────────────┴──────┴─────┴────────────┘
//	   │ 41 bits of 1 ms        │ 5    │ 5   │ 12         │
//
//	 63 62                  24 23      16 15             0
//	┌──┬──────────────────────┬──────────┬────────────────┐
//	│ 0│ time since the epoch │ sequence │ worker ID      │   Sonyflake
//	└──┴──────────────────────┴──────────┴────────────────┘
//	   │ 39 bits of 10 ms     │ 8        │ 16             │
//
//	 63    53 52                      15 14      8 7       0
//	┌────────┬──────────────────────────┬─────────┬─────────┐
//	│ 0      │ time since the epoch     │worker ID│sequence │   JavaScript
//	└────────┴──────────────────────────┴─────────┴─────────┘
//	         │ 38 bits of 10 ms         │ 7       │ 8       │
//
// The sign bit is always 0. Time comes first, so that IDs sort by it.
type Layout struct {
	epoch int64 // Unix time in milliseconds
	unit  int64 // in nanoseconds

	// Widths in bits. They are uint, and values shifted by them are int64: a
	// worker ID shifted in a type of just its width would lose its high bits.
	time, datacenter, worker, sequence uint

	sequenceFirst bool // the sequence lies above datacenter and worker ID
}

// LayoutSpec describes a [Layout].
type LayoutSpec struct {
	Epoch time.Time     // when time 0 was; whole milliseconds, 1970 to 2261
	Unit  time.Duration // of the timestamp; whole microseconds, 1µs to 1s

	// Widths in bits, 63 together, or 53 for IDs that are exact as numbers of
	// JavaScript too, with the bits above left 0. Time has at least 32, worker
	// ID and sequence at least 1; the datacenter may be left out. It lies on
	// top of the worker ID.
	Time, Datacenter, Worker, Sequence int

	// SequenceFirst puts the sequence between time and worker ID, as Sonyflake
	// does, instead of last. Consecutive IDs are then not consecutive numbers.
	SequenceFirst bool
}

// The bounds of a layout. An ID is useless without room for some time, a worker
// bit and a sequence bit. Only two sums of the widths are allowed, so that a
// mistake in a width is noticed.
const (
	layoutBits  = 63
	numberBits  = 53 // exact as a number in JavaScript
	minTimeBits = 32
	minUnit     = time.Microsecond
	maxUnit     = time.Second
	// Its nanoseconds fit an int64.
	lastEpoch    = math.MaxInt64 / int64(time.Millisecond)
	nanosInMilli = int64(time.Millisecond)
)

// NewLayout checks the spec. The error wraps [ErrLayout].
func NewLayout(s LayoutSpec) (Layout, error) {
	bad := func(format string, args ...any) (Layout, error) {
		return Layout{}, fmt.Errorf("%w: "+format, append([]any{ErrLayout}, args...)...)
	}
	for _, w := range []struct {
		name       string
		width, min int
	}{
		{"time", s.Time, minTimeBits}, {"datacenter", s.Datacenter, 0}, {"worker ID", s.Worker, 1}, {"sequence", s.Sequence, 1},
	} {
		if w.width < w.min || w.width > layoutBits {
			return bad("%d bits for the %s, allowed is %d or more", w.width, w.name, w.min)
		}
	}
	if sum := s.Time + s.Datacenter + s.Worker + s.Sequence; sum != layoutBits && sum != numberBits {
		return bad("widths of %d bits in all, allowed is %d, or %d for IDs below 2^53", sum, layoutBits, numberBits)
	}
	if s.Unit < minUnit || s.Unit > maxUnit || s.Unit%minUnit != 0 {
		return bad("unit %v, allowed are whole microseconds from %v to %v", s.Unit, minUnit, maxUnit)
	}
	epoch := s.Epoch.UnixMilli()
	if epoch < 0 || epoch >= lastEpoch || !time.UnixMilli(epoch).Equal(s.Epoch) {
		return bad("epoch %v, allowed are whole milliseconds from 1970 to 2261", s.Epoch)
	}
	return Layout{
		epoch:         epoch,
		unit:          int64(s.Unit),
		time:          uint(s.Time),
		datacenter:    uint(s.Datacenter),
		worker:        uint(s.Worker),
		sequence:      uint(s.Sequence),
		sequenceFirst: s.SequenceFirst,
	}, nil
}

// Spec returns the description of the layout; change it and call [NewLayout] to
// get another layout.
func (l Layout) Spec() LayoutSpec {
	return LayoutSpec{
		Epoch:         time.UnixMilli(l.epoch).UTC(),
		Unit:          time.Duration(l.unit),
		Time:          int(l.time),
		Datacenter:    int(l.datacenter),
		Worker:        int(l.worker),
		Sequence:      int(l.sequence),
		SequenceFirst: l.sequenceFirst,
	}
}

// IsZero reports whether this is the zero Layout, which is no layout.
func (l Layout) IsZero() bool { return l == Layout{} }

// MaxWorkerID is the highest worker ID of a datacenter; the lowest is 0.
func (l Layout) MaxWorkerID() int64 { return mask(l.worker) }

// MaxDatacenter is the highest datacenter; 0 if the layout has none.
func (l Layout) MaxDatacenter() int64 { return mask(l.datacenter) }

// MaxSequence is the highest sequence number: one less than a worker's IDs in a
// time unit.
func (l Layout) MaxSequence() int64 { return mask(l.sequence) }

// MaxTimestamp is the last timestamp of the layout.
func (l Layout) MaxTimestamp() int64 { return mask(l.time) }

// End is the moment at which the lifetime of the layout is over.
func (l Layout) End() time.Time { return l.TimeAt(l.MaxTimestamp() + 1) }

// Where the parts lie.

func (l Layout) timeShift() uint { return l.datacenter + l.worker + l.sequence }

func (l Layout) datacenterShift() uint { return l.workerShift() + l.worker }

func (l Layout) workerShift() uint {
	if l.sequenceFirst {
		return 0
	}
	return l.sequence
}

func (l Layout) sequenceShift() uint {
	if l.sequenceFirst {
		return l.datacenter + l.worker
	}
	return 0
}

// mask has the lowest width bits set.
func mask(width uint) int64 { return int64(1)<<width - 1 }

// String returns the layout as text, which [ParseLayout] reads back. No two
// layouts have the same text:
//
//	41:1ms/w10/s12@1735689600000      Default
//	38:10ms/w7/s8@1735689600000       JavaScript
//	41:1ms/d5/w5/s12@1288834974657    Twitter
//	39:10ms/s8/w16@1409529600000      Sonyflake
//
// That is: the bits of time and its unit; then datacenter, worker ID and
// sequence with their bits, in the order in which they lie in the ID; then the
// epoch as Unix time in milliseconds.
func (l Layout) String() string {
	worker := fmt.Sprintf("/w%d", l.worker)
	if l.datacenter > 0 {
		worker = fmt.Sprintf("/d%d%s", l.datacenter, worker)
	}
	order := worker + fmt.Sprintf("/s%d", l.sequence)
	if l.sequenceFirst {
		order = fmt.Sprintf("/s%d", l.sequence) + worker
	}
	return fmt.Sprintf("%d:%v%s@%d", l.time, time.Duration(l.unit), order, l.epoch)
}

// maxLayoutText is longer than any layout's text. Longer input is refused
// unparsed, even if it is a megabyte.
const maxLayoutText = 64

// ParseLayout reads the text of String, and the names of [LayoutNames]. The
// error wraps [ErrLayout].
func ParseLayout(text string) (Layout, error) {
	for _, n := range named {
		if n.name == text {
			return n.layout(), nil
		}
	}
	spec, ok := parseSpec(text)
	if !ok {
		return Layout{}, fmt.Errorf("%w: %.64q, allowed is %s, or text like %s", ErrLayout, text, allNames(), Default())
	}
	l, err := NewLayout(spec)
	if err != nil {
		return Layout{}, err
	}
	// Each layout has a single text: no +5, 05 or 1000µs, so that texts can be
	// compared.
	if l.String() != text {
		return Layout{}, fmt.Errorf("%w: %q must be written as %s", ErrLayout, text, l)
	}
	return l, nil
}

// parseSpec splits the text into its numbers. It does not check whether they
// make sense.
func parseSpec(text string) (s LayoutSpec, ok bool) {
	if len(text) > maxLayoutText {
		return s, false
	}
	rest, epoch, ok := strings.Cut(text, "@")
	millis, err := strconv.ParseInt(epoch, 10, 64)
	if !ok || err != nil {
		return s, false
	}
	s.Epoch = time.UnixMilli(millis)

	parts := strings.Split(rest, "/")
	bits, unit, ok := strings.Cut(parts[0], ":")
	if !ok {
		return s, false
	}
	if s.Time, err = strconv.Atoi(bits); err != nil {
		return s, false
	}
	if s.Unit, err = time.ParseDuration(unit); err != nil {
		return s, false
	}
	for i, part := range parts[1:] {
		if part == "" {
			return s, false
		}
		width, err := strconv.Atoi(part[1:])
		if err != nil {
			return s, false
		}
		switch part[0] {
		case 'd':
			s.Datacenter = width
		case 'w':
			s.Worker = width
		case 's':
			s.Sequence = width
			s.SequenceFirst = i == 0
		default:
			return s, false
		}
	}
	return s, true
}

// named are the layouts that have a name.
var named = []struct {
	name   string
	layout func() Layout
}{
	{"default", Default},
	{"js", JavaScript},
	{"twitter", Twitter},
	{"discord", Discord},
	{"instagram", Instagram},
	{"sonyflake", Sonyflake},
}

// LayoutNames are the names that [ParseLayout] accepts.
func LayoutNames() []string {
	names := make([]string, len(named))
	for i, n := range named {
		names[i] = n.name
	}
	return names
}

// allNames are the names as a text lists them.
func allNames() string { return strings.Join(LayoutNames(), ", ") }

// Default ("default") is 41 bits of milliseconds since 2025, 10 bits of worker
// ID, 12 bits of sequence: 1,024 workers with 4,096,000 IDs a second each,
// until September 2094.
func Default() Layout {
	return Layout{epoch: 1735689600000, unit: int64(time.Millisecond), time: 41, worker: 10, sequence: 12}
}

// JavaScript ("js") has all IDs below 2^53, so that they are exact in
// JavaScript and anywhere else where numbers are floating point: 38 bits of 10
// ms since 2025, 7 bits of worker ID, 8 bits of sequence.
//
// It has ten bits less than Default. It keeps a long lifetime, until February
// 2112, because IDs outlive plans. The unit of 10 ms costs the least: IDs sort
// by time only as well as the workers' clocks agree, which is not much better.
// So 128 workers are left, many more than most installations have, with spare
// IDs for processes that just died. Each makes 25,600 IDs a second, all
// 3,276,800.
func JavaScript() Layout {
	return Layout{epoch: 1735689600000, unit: int64(10 * time.Millisecond), time: 38, worker: 7, sequence: 8}
}

// Twitter ("twitter") is the original layout. It differs from Default in two
// ways: the worker ID is split into 5 bits of datacenter and 5 bits of worker,
// and its epoch is 4 November 2010. Leaf and bwmarrin/snowflake have the same
// bits and epoch, without the split.
func Twitter() Layout {
	return Layout{epoch: 1288834974657, unit: int64(time.Millisecond), time: 41, datacenter: 5, worker: 5, sequence: 12}
}

// Discord ("discord") has Twitter's bits since 2015. Discord's internal worker
// is the datacenter here, and its process the worker. It counts the sign bit to
// the time, which makes no difference before 2084.
func Discord() Layout {
	return Layout{epoch: 1420070400000, unit: int64(time.Millisecond), time: 41, datacenter: 5, worker: 5, sequence: 12}
}

// Instagram ("instagram") has 13 bits of worker ID, which is the shard there,
// 10 bits of sequence, and milliseconds since 24 August 2011. Instagram has 41
// bits of time, up to the sign bit of the 64. IDs here are never negative, so
// 40 are left, and the lifetime is half as long: until June 2046. Until then
// the bits are the same.
func Instagram() Layout {
	return Layout{epoch: 1314220021721, unit: int64(time.Millisecond), time: 40, worker: 13, sequence: 10}
}

// Sonyflake ("sonyflake") is the layout of sony/sonyflake: 39 bits of 10 ms
// since September 2014, 8 bits of sequence, and then 16 bits of worker ID.
// (Version 2 of it starts in 2025 by default.)
func Sonyflake() Layout {
	return Layout{epoch: 1409529600000, unit: int64(10 * time.Millisecond), time: 39, sequence: 8, worker: 16, sequenceFirst: true}
}
