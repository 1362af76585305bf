package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/cmd/internal/recovery"
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
		plan        recovery.Plan
		shows, asks string
	}{
		"no future": {recovery.Plan{}, "", ""},
		"an hour":   {recovery.Plan{Future: time.Hour}, "the backup is of 2026-11-26 13:00:00 UTC, 1h0m0s ahead of the clock (2026-11-26 12:00:00 UTC)\n", ""},
		"two days": {recovery.Plan{Future: 48 * time.Hour}, "the backup is of 2026-11-28 12:00:00 UTC, 48h0m0s ahead of the clock (2026-11-26 12:00:00 UTC)\n",
			"the target lies above 2026-11-28 12:00:00 UTC"},
		"no other clock": {recovery.Plan{Unconfirmed: true}, "", "only this machine's clock shows the time: is it 2026-11-26 12:00:00 UTC?"},
		"snowflake IDs":  {recovery.Plan{Issued: now.Add(time.Hour)}, "", "their bucket is lost: worker IDs wait until "},
	} {
		p := c.plan
		p.Clock, p.Newest, p.NewestOf = now, now.Add(p.Future), "the backup"
		p.Time, p.Target = p.Newest, p.Newest.UnixMicro()
		text := new(strings.Builder)
		if asks := showRaise(text, &p, 0); asks != (c.asks != "") || !strings.Contains(text.String(), c.shows) || !strings.Contains(text.String(), c.asks) {
			t.Errorf("%s: asks %v, want it shown %q, asked %q:\n%s", name, asks, c.shows, c.asks, text)
		}
		if c.shows == "" && strings.Contains(text.String(), "ahead of the clock") {
			t.Errorf("%s shows:\n%s", name, text)
		}
	}
}

// newStore is an installation that nobody serves.
func newStore(t *testing.T) *site {
	t.Helper()
	ns := natstest.Start(t)
	s := &site{T: t, nats: ns, url: ns.URL()}
	s.must("provision")
	return s
}

// TestRaiseIsConfirmed: a raise with effects that cannot be undone prompts, and
// changes nothing without a yes.
func TestRaiseIsConfirmed(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.must("tag create order")
	before := s.must("tag export")
	if r := s.at("tag raise --all"); r.code != exitUsage || !strings.Contains(r.stdout, "1 tag will pass 2^31") || !strings.Contains(r.stderr, "nothing was changed") {
		t.Errorf("not confirmed: %+v", r)
	}
	if after := s.must("tag export"); after != before {
		t.Errorf("the tags are\n%s, were\n%s", after, before)
	}
}

// TestImportDryRun: a dry run of an import prints what the import then prints,
// and writes nothing.
func TestImportDryRun(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.must("tag create order")
	s.must("tag create other --first 100")
	list := filepath.Join(t.TempDir(), "list")
	text := "order 1000 50\nnew 10 5 strict\ngone removed 9\nother 10 7\nchat.* 10 trend 0 0 1\n"
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	before := s.must("tag export")
	lines := func(command string) []string { return slices.Sorted(strings.Lines(s.must(command, list))) }
	dry := lines("tag import --dry-run")
	if after := s.must("tag export"); after != before {
		t.Errorf("after the dry run the tags are\n%s, were\n%s", after, before)
	}
	if done := lines("tag import"); len(dry) != 5 || !slices.Equal(dry, done) {
		t.Errorf("it prints\n%q, the dry run\n%q", done, dry)
	}
}
