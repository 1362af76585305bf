package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/forecast"
)

// TestRunningOut: doctor warns of limits less than a year ahead, and else names the first one.
func TestRunningOut(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	const day = 24 * 60 * 60
	in := func(days int64) forecast.Use { return forecast.Use{High: 1<<31 - days*day, Rate: 1, Seconds: day} }
	for _, c := range []struct {
		uses map[string]forecast.Use
		want string
	}{
		{map[string]forecast.Use{"a": {High: 1<<31 - 1}}, "ok numbers of tags: too little was measured to say when any run out"},
		{map[string]forecast.Use{"a": in(2000), "b": in(1000)}, "ok numbers of tags: tag b is the first at a limit: 2^31 on 2029-08-19"},
		{map[string]forecast.Use{"a": in(2000), "b": in(100)}, "warn tag b: numbers run out: its IDs reach 2^31 in 100 days, on 2027-03-03, if 1 numbers a second go on to be used, as in the last 24 h"},
		{
			map[string]forecast.Use{"a": in(1), "b": in(2), "c": in(3), "d": in(4), "e": in(5), "f": in(6), "g": in(2000)},
			"warn tag a|warn tag b|warn tag c|warn tag d|warn tag e|warn numbers of tags: numbers run out: 1 others reach 2^31, 2^53 or their end within a year",
		},
	} {
		var got []string
		findRunningOut(c.uses, now, func(f Finding) {
			result := "ok"
			if f.Err != nil {
				if result = "warn"; !f.Warning || !errors.Is(f.Err, ErrRunsOut) {
					t.Errorf("%+v is no warning that numbers run out", f)
				}
				f.Good = f.Err.Error()
			}
			got = append(got, fmt.Sprintf("%s %s: %s", result, f.What, f.Good))
		})
		want := strings.Split(c.want, "|")
		if len(got) != len(want) {
			t.Errorf("%q, want %q", got, want)
			continue
		}
		for n := range want {
			if !strings.HasPrefix(got[n], want[n]) {
				t.Errorf("%q, want %q", got[n], want[n])
			}
		}
	}
}
