package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/testing/natstest"
)

// TestDrill: a restore of a healthy installation raises nothing, because a raise
// makes all IDs long for good: --yes skips the prompt alone. To raise anyway needs
// a flag of its own, and is confirmed as always.
func TestDrill(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dir := filepath.Join(t.TempDir(), "backup")
	s.must("tag create order")
	s.must("backup", dir)
	s.must("get order")
	natstest.Eventually(t, "restores of nothing change nothing", func() bool { // a grant may still come
		before := s.must("tag ls")
		for _, flags := range []string{"--yes", "--yes --json", "--dry-run", ""} {
			if r := s.at("restore "+flags, dir); r.code != exitOK || flags != "--yes --json" && !strings.Contains(r.stdout, "nothing is missing") {
				t.Errorf("restore %s: %+v", flags, r)
			}
		}
		if r := s.at("restore --raise-anyway", dir); r.code != exitUsage || !strings.Contains(r.stderr, "nothing was changed") {
			t.Errorf("restore --raise-anyway, not confirmed: %+v", r)
		}
		return s.must("tag ls") == before
	})
	if out := s.must("restore --raise-anyway --yes", dir); !strings.Contains(out, "raised; tags created from now on begin at ") {
		t.Errorf("restore --raise-anyway --yes:\n%s", out)
	}
}

// TestFutureIsConfirmed: a known time from the future is shown, and asked about
// above a day. A restore that has no clock but this machine's asks about that.
func TestFutureIsConfirmed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		plan        tags.Plan
		shows, asks string
	}{
		"no future": {tags.Plan{}, "", ""},
		"an hour":   {tags.Plan{Future: time.Hour}, "the backup is of 2026-11-26 13:00:00 UTC, 1h0m0s ahead of the clock (2026-11-26 12:00:00 UTC)\n", ""},
		"two days": {tags.Plan{Future: 48 * time.Hour}, "the backup is of 2026-11-28 12:00:00 UTC, 48h0m0s ahead of the clock (2026-11-26 12:00:00 UTC)\n",
			"the target lies above 2026-11-28 12:00:00 UTC"},
		"no other clock": {tags.Plan{Unconfirmed: true}, "", "only this machine's clock shows the time: is it 2026-11-26 12:00:00 UTC?"},
		"snowflake IDs":  {tags.Plan{Issued: now.Add(time.Hour)}, "", "their bucket is lost: worker IDs wait until "},
	} {
		p := c.plan
		p.Clock, p.Newest, p.NewestOf = now, now.Add(p.Future), "the backup"
		p.Time, p.Target = p.Newest, p.Newest.UnixMicro()
		for _, yes := range []bool{false, true} {
			text := new(strings.Builder)
			out := output{Writer: text}
			err := raisePrompt{yes: yes}.confirm(t.Context(), p, input{strings.NewReader("no\n")}, out, newRaised(out, false))
			if (err != nil) != (c.asks != "" && !yes) || !strings.Contains(text.String(), c.shows) || !strings.Contains(text.String(), c.asks) {
				t.Errorf("%s, --yes %v: %v, want it shown %q, asked %q:\n%s", name, yes, err, c.shows, c.asks, text)
			}
			if c.shows == "" && strings.Contains(text.String(), "ahead of the clock") {
				t.Errorf("%s shows:\n%s", name, text)
			}
		}
	}
}
