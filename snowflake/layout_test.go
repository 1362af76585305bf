package snowflake

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// allNamed are the layouts that have a name.
func allNamed() (all []Layout) {
	for _, n := range named {
		all = append(all, n.layout())
	}
	return all
}

func TestNewLayoutRefuses(t *testing.T) {
	for name, change := range map[string]func(*LayoutSpec){
		"64 bits":              func(s *LayoutSpec) { s.Sequence++ },
		"62 bits":              func(s *LayoutSpec) { s.Sequence-- },
		"54 bits":              func(s *LayoutSpec) { s.Sequence = 3 },
		"52 bits":              func(s *LayoutSpec) { s.Sequence = 1 },
		"no worker":            func(s *LayoutSpec) { s.Worker, s.Sequence = 0, 22 },
		"no sequence":          func(s *LayoutSpec) { s.Worker, s.Sequence = 22, 0 },
		"little time":          func(s *LayoutSpec) { s.Time, s.Worker = 31, 20 },
		"negative datacenter":  func(s *LayoutSpec) { s.Datacenter, s.Worker = -1, 11 },
		"widths that overflow": func(s *LayoutSpec) { s.Worker, s.Sequence = math.MaxInt, math.MinInt },
		"no unit":              func(s *LayoutSpec) { s.Unit = 0 },
		"negative unit":        func(s *LayoutSpec) { s.Unit = -time.Millisecond },
		"long unit":            func(s *LayoutSpec) { s.Unit = 2 * time.Second },
		"odd unit":             func(s *LayoutSpec) { s.Unit = 1500 * time.Nanosecond },
		"no epoch":             func(s *LayoutSpec) { s.Epoch = time.Time{} },
		"epoch before 1970":    func(s *LayoutSpec) { s.Epoch = time.UnixMilli(-1) },
		"odd epoch":            func(s *LayoutSpec) { s.Epoch = time.Unix(1, 5) },
		"far epoch":            func(s *LayoutSpec) { s.Epoch = time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		spec := Default().Spec()
		change(&spec)
		if l, err := NewLayout(spec); !errors.Is(err, ErrLayout) || !l.IsZero() {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
}

// anyLayout draws layouts of all shapes, from the narrowest to the widest.
func anyLayout(t *rapid.T) Layout {
	spec := LayoutSpec{
		Epoch:         time.UnixMilli(rapid.Int64Range(0, lastEpoch-1).Draw(t, "epoch")),
		Unit:          time.Duration(rapid.Int64Range(1, 1_000_000).Draw(t, "unit")) * time.Microsecond,
		SequenceFirst: rapid.Bool().Draw(t, "sequence first"),
	}
	sum := rapid.SampledFrom([]int{layoutBits, numberBits}).Draw(t, "bits")
	spec.Time = rapid.IntRange(minTimeBits, sum-2).Draw(t, "time")
	rest := sum - spec.Time
	spec.Sequence = rapid.IntRange(1, rest-1).Draw(t, "sequence")
	spec.Worker = rapid.IntRange(1, rest-spec.Sequence).Draw(t, "worker")
	spec.Datacenter = rest - spec.Sequence - spec.Worker
	l, err := NewLayout(spec)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLayoutTextNamesOneLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, other := anyLayout(t), anyLayout(t)
		if got, err := ParseLayout(l.String()); err != nil || got != l {
			t.Fatalf("%v came back as %v, %v", l, got, err)
		}
		if len(l.String()) > maxLayoutText {
			t.Fatalf("%v is longer than what is read", l)
		}
		if (l == other) != (l.String() == other.String()) {
			t.Fatalf("%v and %v", l, other)
		}
	})
}

func TestTimestampsAreTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLayout(t)
		// Years that time.Time can print.
		at := rapid.Int64Range(0, min(l.MaxTimestamp(), 1<<40)).Draw(t, "t")
		begin := l.TimeAt(at)
		for moment, want := range map[time.Time]int64{
			begin: at,
			// −1 is what "before the epoch" is called as well.
			begin.Add(-1):                        at - 1,
			begin.Add(time.Duration(l.unit) - 1): at,
			begin.Add(time.Duration(l.unit)):     at + 1,
		} {
			if got := l.TimestampAt(moment); got != want {
				t.Fatalf("%v: timestamp at %v is %d, want %d", l, moment, got, want)
			}
		}
	})
	if got := Default().TimestampAt(time.Time{}); got != -1 {
		t.Errorf("before the epoch: %d", got)
	}
	if got := Default().TimestampAt(time.Unix(1<<55, 0)); got < Default().MaxTimestamp() {
		t.Errorf("the far future: %d", got)
	}
}

// TestIDsStayBelow: the highest ID of a layout is one less than a power of two
// that its widths make; for js it is JavaScript's MAX_SAFE_INTEGER.
func TestIDsStayBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLayout(t)
		spec := l.Spec()
		highest := ID(mask(uint(spec.Time + spec.Datacenter + spec.Worker + spec.Sequence)))
		if l.Timestamp(highest) != l.MaxTimestamp() || l.Datacenter(highest) != l.MaxDatacenter() ||
			l.WorkerID(highest) != l.MaxWorkerID() || l.Sequence(highest) != l.MaxSequence() {
			t.Fatalf("%v: %d is not the highest", l, highest)
		}
	})
	l := JavaScript()
	last := l.End().Add(-1)
	g, err := New(Settings{
		Layout: l, Worker: l.MaxWorkerID(), Fence: Fence{Hi: Forever},
		Clock: func() int64 { return last.UnixNano() },
	})
	if err != nil {
		t.Fatal(err)
	}
	var highest ID
	for {
		id, err := g.Next()
		if errors.Is(err, ErrExhausted) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		highest = id
	}
	if highest != maxSafeNumber {
		t.Errorf("the highest ID is %d, want %d", highest, int64(maxSafeNumber))
	}
}
