package snowflake

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNamedLayoutsAreWhatTheyAreNamedAfter(t *testing.T) {
	cases := []struct {
		name, text       string
		layout           Layout
		maxWorker, maxDC int64
		epoch, end       string
	}{
		{"default", "41:1ms/w10/s12@1735689600000", Default(), 1023, 0, "2025-01-01T00:00:00Z", "2094-09-07T15:47:35.552Z"},
		{"js", "38:10ms/w7/s8@1735689600000", JavaScript(), 127, 0, "2025-01-01T00:00:00Z", "2112-02-09T13:44:29.44Z"},
		{"twitter", "41:1ms/d5/w5/s12@1288834974657", Twitter(), 31, 31, "2010-11-04T01:42:54.657Z", "2080-07-10T17:30:30.209Z"},
		{"discord", "41:1ms/d5/w5/s12@1420070400000", Discord(), 31, 31, "2015-01-01T00:00:00Z", "2084-09-06T15:47:35.552Z"},
		{"instagram", "40:1ms/w13/s10@1314220021721", Instagram(), 8191, 0, "2011-08-24T21:07:01.721Z", "2046-06-27T17:00:49.497Z"},
		{"sonyflake", "39:10ms/s8/w16@1409529600000", Sonyflake(), 65535, 0, "2014-09-01T00:00:00Z", "2188-11-16T03:28:58.88Z"},
	}
	if len(cases) != len(LayoutNames()) {
		t.Errorf("%d layouts are looked at, of %v", len(cases), LayoutNames())
	}
	for _, c := range cases {
		l := c.layout
		if got, err := ParseLayout(c.name); err != nil || got != l {
			t.Errorf("ParseLayout(%q) = %v, %v", c.name, got, err)
		}
		if got, err := ParseLayout(c.text); err != nil || got != l || l.String() != c.text {
			t.Errorf("text %q: parsed %v (%v), written %v", c.text, got, err, l)
		}
		if got, err := NewLayout(l.Spec()); err != nil || got != l {
			t.Errorf("%s does not pass its own check: %v", c.name, err)
		}
		if l.MaxWorkerID() != c.maxWorker || l.MaxDatacenter() != c.maxDC {
			t.Errorf("%s: worker IDs to %d, datacenters to %d", c.name, l.MaxWorkerID(), l.MaxDatacenter())
		}
		if got := l.TimeAt(0).Format(time.RFC3339Nano); got != c.epoch {
			t.Errorf("%s: epoch %s, want %s", c.name, got, c.epoch)
		}
		if got := l.End().Format(time.RFC3339Nano); got != c.end {
			t.Errorf("%s: end %s, want %s", c.name, got, c.end)
		}
	}
}

// allNamed are the layouts that have a name.
func allNamed() (all []Layout) {
	for _, n := range named {
		all = append(all, n.layout())
	}
	return all
}

// IDs that the originals made, or that their documentation takes apart.
func TestDecodesForeignIDs(t *testing.T) {
	// A tweet of 2022, as Wikipedia takes it apart: machine 378 (11·32 + 26).
	id := ID(1541815603606036480)
	l := Twitter()
	if at := l.Time(id); !at.Equal(time.Date(2022, 6, 28, 16, 7, 40, 105e6, time.UTC)) {
		t.Errorf("tweet's time %v", at)
	}
	if l.Datacenter(id) != 11 || l.WorkerID(id) != 26 || l.Sequence(id) != 0 {
		t.Errorf("tweet's datacenter %d, worker %d, sequence %d", l.Datacenter(id), l.WorkerID(id), l.Sequence(id))
	}
	// Made by sony/sonyflake 1.3.0 with machine ID 0xbeef, and taken apart by
	// it: time 38569324076, sequence 0. With the sequence set to 200:
	s := Sonyflake()
	id = 647085880997101295 | 200<<16
	if s.Timestamp(id) != 38569324076 || s.Sequence(id) != 200 || s.WorkerID(id) != 0xbeef {
		t.Errorf("sonyflake: %d, %d, %#x", s.Timestamp(id), s.Sequence(id), s.WorkerID(id))
	}
	if at := s.Time(id); !at.Equal(time.Date(2026, 11, 21, 1, 0, 40, 760e6, time.UTC)) {
		t.Errorf("sonyflake's time %v", at)
	}
	// The ID in Discord's documentation: worker 1, process 0, increment 7.
	id = 175928847299117063
	d := Discord()
	if at := d.Time(id); !at.Equal(time.Date(2016, 4, 30, 11, 18, 25, 796e6, time.UTC)) {
		t.Errorf("Discord's time %v", at)
	}
	if d.Datacenter(id) != 1 || d.WorkerID(id) != 0 || d.Sequence(id) != 7 {
		t.Errorf("Discord's worker %d, process %d, increment %d", d.Datacenter(id), d.WorkerID(id), d.Sequence(id))
	}
	// As Instagram's function for PostgreSQL puts it together, with the figures
	// of the example that goes with it: 1,387,263,000 ms after the epoch, shard
	// 1341, the 5,001st of a sequence modulo 1,024.
	id = 1387263000<<23 | 1341<<10 | 5001%1024
	i := Instagram()
	if i.Timestamp(id) != 1387263000 || i.WorkerID(id) != 1341 || i.Sequence(id) != 905 {
		t.Errorf("Instagram's time %d, shard %d, sequence %d", i.Timestamp(id), i.WorkerID(id), i.Sequence(id))
	}
	// Made by bwmarrin/snowflake 0.3.0 as node 378, time 1795222840766, step 0.
	id = 2123944652373991424
	if l.Time(id).UnixMilli() != 1795222840766 || l.Datacenter(id)<<5|l.WorkerID(id) != 378 || l.Sequence(id) != 0 {
		t.Errorf("bwmarrin's time %v, node %d", l.Time(id), l.Datacenter(id)<<5|l.WorkerID(id))
	}
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
	for _, text := range []string{"", "Default", "41:1ms/w10/s12", "41:1ms/w10/s12@", "41/w10/s12@0", "41:1ms/w10/s12@-1",
		"41:1ms/w10/s12@0 ", "041:1ms/w10/s12@0", "+41:1ms/w10/s12@0", "41:1000µs/w10/s12@0", "41:1ms/w10/w10/s12@0",
		"41:1ms/x10/s12@0", "41:1ms//w10/s12@0", "41:1ms/w10/s12/d0@0", "41:1ms/w5/d5/s12@0", "41:1ms/d0/w10/s12@0", "41:1ms/w10/s4/s12@0"} {
		if l, err := ParseLayout(text); !errors.Is(err, ErrLayout) {
			t.Errorf("%q: %v, %v", text, l, err)
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
