package allocator

import (
	"testing"
	"time"
)

func TestNextStep(t *testing.T) {
	const floor, ceiling = 100, 1_000_000
	for _, c := range []struct {
		why    string
		step   int64
		lasted time.Duration
		want   int64
	}{
		{"short: doubled", 1000, 15*time.Minute - 1, 2000},
		{"15 minutes: kept", 1000, 15 * time.Minute, 1000},
		{"just under 30 minutes: kept", 1000, 30*time.Minute - 1, 1000},
		{"30 minutes: halved", 1000, 30 * time.Minute, 500},
		{"not below the configured step", 150, time.Hour, floor},
		{"not above the ceiling", 600_000, time.Second, ceiling},
		{"at the ceiling", ceiling, time.Second, ceiling},
		{"configured step was raised", 50, 20 * time.Minute, floor},
		{"no overflow", 1 << 62, 0, ceiling},
	} {
		if got := nextStep(c.step, c.lasted, floor, ceiling); got != c.want {
			t.Errorf("%s: %d, want %d", c.why, got, c.want)
		}
	}
}

func TestConfiguredStepCountsFromTheNextLoad(t *testing.T) {
	for _, c := range []struct {
		why                   string
		old, grown, new, want int64
	}{
		{"never loaded", 100, 0, 500, 0},
		{"raised above the grown one", 100, 200, 500, 500},
		{"raised below the grown one", 100, 800, 500, 800},
		{"lowered", 100, 800, 50, 50},
		{"the same", 100, 800, 100, 800},
	} {
		tag := &tag{configured: c.old, step: c.grown}
		tag.setConfigured(c.new)
		if tag.step != c.want || tag.configured != c.new {
			t.Errorf("%s: step %d, configured %d; want %d, %d", c.why, tag.step, tag.configured, c.want, c.new)
		}
	}
}
