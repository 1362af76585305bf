package health

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/worker"
)

const day = 24 * 60 * 60

// used is a tag that reaches 2^31 after some days.
func used(tag string, days int64) worker.TagStats {
	return worker.TagStats{Tag: tag, Order: "trend", Rate: 1, Runway: 1e6, Use: forecast.Use{High: 1<<31 - days*day, Rate: 1, Seconds: day}}
}

// TestForecasts warns of limits less than a year ahead, the soonest first.
// Later limits are shown without a warning. Without data there is no forecast.
func TestForecasts(t *testing.T) {
	t.Parallel()
	unmeasured := used("unmeasured", 3)
	unmeasured.Use.Seconds = 59
	// As a worker reports it after a minute.
	ahead := used("soon", 200)
	ahead.Use.Seconds = 60
	ahead.Use.Rate *= 100
	// Ends in 2033.
	layout, err := snowflake.ParseLayout("38:1ms/w13/s12@1735689600000")
	if err != nil {
		t.Fatal(err)
	}
	reports := []worker.Report{
		reportOf("a", worker.RoleAll, used("soon", 300), used("far", 366), unmeasured, worker.TagStats{Tag: "fresh", Rate: 1, Runway: 1e6}),
		reportOf("b", worker.RoleAll, ahead),
	}
	lasts := func(c *collection) { c.layout = layout }
	i := merged(now, reports, lasts)
	want := "warning tag soon: numbers run out: its IDs reach 2^31 in 200 days, on 2027-06-10, at a rate of 1/s, as in the last 24 h"
	if got := troublesOf(i); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for _, tag := range i.Tags {
		want := map[string]string{"soon": "2^31 on 2027-06-10", "far": "2^31 on 2027-11-23"}[tag.Name]
		if got := tag.Forecast.First(); got != want && (want != "" || got != "-") {
			t.Errorf("%s: %s, want %s", tag.Name, got, want)
		}
	}
	var text bytes.Buffer
	if err := i.View("", ByRate, 10).Print(&text); err != nil || !strings.Contains(text.String(), "snowflake layout 38:1ms/w13/s12@1735689600000, until 2033-09-17") ||
		!strings.Contains(text.String(), "  2^31 on 2027-11-23\n") {
		t.Errorf("%v:\n%s", err, &text)
	}

	i = merged(time.Date(2033, 1, 1, 0, 0, 0, 0, time.UTC), reports, lasts)
	if got := troublesOf(i); !strings.Contains(got, "warning layout 38:1ms/w13/s12@1735689600000: numbers run out: snowflake IDs end on 2033-09-17") {
		t.Errorf("in 2033: %s", got)
	}
}

// TestManyForecasts: five tags are named, and the others counted.
func TestManyForecasts(t *testing.T) {
	t.Parallel()
	var tags []worker.TagStats
	for n := range int64(8) {
		tags = append(tags, used(fmt.Sprint("t", n), 100-n))
	}
	got := strings.Split(troublesOf(merged(now, []worker.Report{reportOf("a", worker.RoleAll, tags...)})), "\n")
	if len(got) != 6 || !strings.HasPrefix(got[0], "warning tag t7: ") || got[5] != "warning tags: numbers run out: 3 more tags with 2^31, 2^53 or the end within a year" {
		t.Error(strings.Join(got, "\n"))
	}
}
