package messages

import (
	"testing"
	"time"
)

// TestPace: the target follows the rate, doubling and halving at most.
func TestPace(t *testing.T) {
	begin := time.Now()
	cfg := PrefetchConfig{Runway: time.Second, Limit: 1000, MaxBatch: 10}
	for name, c := range map[string]struct {
		target  int64
		elapsed time.Duration
		handed  int64
		want    int64
	}{
		"no time went by":             {100, 0, 50, 100},
		"grows at once":               {100, 10 * time.Millisecond, 50, 200},
		"grows to what is needed":     {100, time.Second, 75, 150},
		"no further than the limit":   {800, time.Millisecond, 900, 1000},
		"settled":                     {100, time.Second, 50, 100},
		"a pause says nothing":        {100, 999 * time.Millisecond, 0, 100},
		"shrinks by half":             {100, time.Hour, 1, 50},
		"shrinks to what is needed":   {100, time.Second, 40, 80},
		"shrinks to 1":                {2, time.Hour, 0, 1},
		"and stays there":             {1, time.Hour, 0, 1},
		"a day of a billion a second": {1000, 24 * time.Hour, 86_400_000_000_000, 1000},
	} {
		p := newPace(cfg, begin)
		p.target = c.target
		if got := p.updateTarget(begin.Add(c.elapsed), c.handed); got != c.want || p.target != c.want {
			t.Errorf("%s: from %d to %d, want %d", name, c.target, got, c.want)
		}
	}
}

// TestPaceMeasuresAnew: each rate is measured since the last change, and a rate
// measured too early to shrink counts later.
func TestPaceMeasuresAnew(t *testing.T) {
	now := time.Now()
	p := newPace(PrefetchConfig{Runway: time.Second, Limit: 1000, MaxBatch: 10}, now)
	for i, c := range []struct {
		elapsed time.Duration
		handed  int64
		want    int64
	}{
		{100 * time.Millisecond, 100, 2},
		{100 * time.Millisecond, 200, 4},
		{600 * time.Millisecond, 201, 4}, // 1 in 0.6 s: nothing yet
		{400 * time.Millisecond, 201, 2}, // 1 in 1 s
	} {
		now = now.Add(c.elapsed)
		if got := p.updateTarget(now, c.handed); got != c.want {
			t.Errorf("step %d: %d, want %d", i, got, c.want)
		}
	}
}
