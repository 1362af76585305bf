package e2e

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
)

// forecastTag is what status says of a tag that is used up.
type forecastTag struct {
	Tag      string `json:"tag"`
	Forecast *struct {
		High    int64   `json:"high"`
		Rate    float64 `json:"rate"`
		Seconds float64 `json:"seconds"`
		RunsOut []struct {
			Limit string    `json:"limit"`
			At    time.Time `json:"at"`
		} `json:"runs_out"`
	} `json:"forecast"`
}

// TestForecasts: a busy tag near 2^31 gets a date there, in metrics and status, and a warning of both status and doctor. One
// that is asked for now and then gets none, and neither does anything that was not measured since a restart.
func TestForecasts(t *testing.T) {
	t.Parallel()
	const before = 1_000_000_000
	address, data := freeAddress(t), t.TempDir()
	s := startServer(t, data, "--http", address)
	createTag(t, s.url, "fast", "--first", "1147483648")
	createTag(t, s.url, "slow", "--first", "2147400000", "--step", "10")
	client := dial(t, s.url)
	begun, given := time.Now(), new(atomic.Int64)
	asked := 0
	use := func() {
		if _, err := client.NextN(t.Context(), "fast", 10_000); err == nil {
			given.Add(10_000)
		}
		if asked++; asked < 50 {
			_, _ = client.Next(t.Context(), "slow")
		}
	}
	const dated = `limit="2^31",tag="fast"} `
	var page string
	natstest.Eventually(t, "there is a date", func() bool {
		use()
		_, page = fetch(t, address, "/metrics")
		return strings.Contains(page, dated)
	})
	if strings.Count(page, "\nidworker_tag_runs_out_timestamp_seconds{") != 1 || strings.Count(page, "\nidworker_layout_runs_out_timestamp_seconds{") != 1 {
		t.Errorf("want one date of a tag, and one of the layout:\n%s", page)
	}

	r := must(t, "status", "--server", s.url, "--json")
	var status struct {
		Taken time.Time     `json:"taken"`
		Tags  []forecastTag `json:"tags"`
		Ends  []struct {
			Limit string    `json:"limit"`
			At    time.Time `json:"at"`
		} `json:"layout_ends"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Ends) != 1 || status.Ends[0].Limit != "end" || status.Ends[0].At.Format(time.DateOnly) != "2094-09-07" {
		t.Errorf("the layout ends %v", status.Ends)
	}
	real := float64(given.Load()) / time.Since(begun).Seconds()
	for _, tag := range status.Tags {
		f := tag.Forecast
		if f == nil != (tag.Tag != "fast") {
			t.Errorf("tag %s: %+v", tag.Tag, f)
		}
		if f == nil {
			continue
		}
		t.Logf("%+v, and %.0f IDs a second were given", *f, real)
		left := 1<<31 - float64(f.High)
		if f.Seconds < 60 || f.Rate < real/100 || f.Rate > 10*real || left >= before || left < before/2 ||
			f.RunsOut[0].Limit != "2^31" || f.RunsOut[0].At.Sub(status.Taken).Seconds() > left/f.Rate+10 || f.RunsOut[0].At.Sub(status.Taken).Seconds() < left/f.Rate-10 {
			t.Errorf("%+v, where %.0f IDs a second were given", *f, real)
		}
	}
	said := map[string]string{
		must(t, "status", "--server", s.url).stdout: "warning  tag fast: its IDs reach 2^31 in ",
		must(t, "doctor", "--server", s.url).stdout: "warn  tag fast: numbers run out: its IDs reach 2^31 in ",
	}
	for text, want := range said {
		if !strings.Contains(text, want) || strings.Contains(text, "tag slow: ") || !strings.Contains(text, "2094-09-07") {
			t.Errorf("no %q and the end of the layout, or something of slow, in\n%s", want, text)
		}
	}
	if _, page := fetch(t, address, "/"); !strings.Contains(page, "2^31 on ") {
		t.Errorf("no date on the page:\n%s", page)
	}

	s.stop(syscall.SIGTERM)
	begun = time.Now()
	s = startServer(t, data, "--http", address)
	client = dial(t, s.url)
	natstest.Eventually(t, "the tag is used", func() bool {
		use()
		_, page = fetch(t, address, "/metrics")
		return strings.Contains(page, `tag="fast"}`)
	})
	if time.Since(begun) < time.Minute && strings.Contains(page, dated) {
		t.Errorf("a date right after a restart:\n%s", page)
	}
}
