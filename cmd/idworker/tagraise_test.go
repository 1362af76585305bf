package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/cmd/internal/recovery"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
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

// TestRaiseAgainstALiar: a process that reports a floor and grants near the end of
// all numbers cannot have a raise use up all tags. --yes alone does not take its
// word. With --ignore the raise is that of an installation without it, and the
// decision has loaders ignore it. Only processes that are known can be ignored.
func TestRaiseAgainstALiar(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.must("tag create order")
	js := natstest.JetStream(t, s.nats.Connect(t))
	id, err := agreement.LookupID(t.Context(), js, messages.DefaultPrefix)
	if err != nil || id == "" {
		t.Fatalf("the installation is %q, %v", id, err)
	}
	answerAs(s, id, "liar", 1<<62)
	before := s.must("tag export")
	for flags, says := range map[string]string{
		"--yes":                            "process liar reports 4611686018427387904 as the lowest first ID of new tags; processes report grants of order up to 4611686018427387904 by process liar; to confirm, run the command without --yes; to leave out what a process reports: --ignore INSTANCE",
		"--yes --json":                     "only processes report numbers far above the time",
		"":                                 "nothing was changed",
		"--ignore nobody --yes":            "no such process: nobody; these answer: liar",
		"--ignore liar --ignore a.b --yes": "is not the name of a process",
		"--ignore liar --data x --yes":     "--data excludes",
		"--ignore liar":                    "nothing was changed",
	} {
		if r := s.at("tag raise --all " + flags); r.code == exitOK || !strings.Contains(r.stderr, says) {
			t.Errorf("tag raise --all %s: %+v, want %q", flags, r, says)
		}
	}
	if after := s.must("tag export"); after != before {
		t.Errorf("the tags are\n%s, were\n%s", after, before)
	}
	out := s.must("tag raise --all --ignore liar --yes")
	if !strings.Contains(out, "ignored: what process liar reports\n") || strings.Contains(out, "restart process") || strings.Contains(out, "no answer") {
		t.Errorf("tag raise --all --ignore liar:\n%s", out)
	}
	for line := range strings.Lines(s.must("tag export")) {
		for _, word := range strings.Fields(line) {
			if n, err := strconv.ParseInt(word, 10, 64); err == nil && n > time.Now().Add(time.Hour).UnixMicro() {
				t.Errorf("after the raise: %s", line)
			}
		}
	}
	stream, err := js.Stream(t.Context(), "KV_ids_register")
	if err != nil || stream.CachedInfo().Config.Metadata["idworker_ignored"] != "liar" {
		t.Errorf("the decision ignores %q, %v", stream.CachedInfo().Config.Metadata, err)
	}
}

// TestWritesBesideAClaim: no command writes to a register that is behind what a
// process has seen, or exports it.
func TestWritesBesideAClaim(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.must("tag create order")
	id, err := agreement.LookupID(t.Context(), natstest.JetStream(t, s.nats.Connect(t)), messages.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	reportAs(s, id, "remembers", func(r *worker.Report) {
		r.Claims = []store.Claim{{By: "remembers", Floor: 1, Sequence: 1000}}
	})
	before := s.must("tag ls")
	for _, command := range []string{"tag export", "tag create other", "tag set order --step 5", "tag raise order --by 5", "tag rm order --yes"} {
		if r := s.at(command); r.code == exitOK || !strings.Contains(r.stderr, "was at 1000, says process remembers") {
			t.Errorf("%s: %+v", command, r)
		}
	}
	if after := s.must("tag ls"); after != before {
		t.Errorf("the tags are\n%s, were\n%s", after, before)
	}
	s.must("tag raise --all --yes")
	s.must("tag create other")
}

// answerAs answers as a process that reports a number as its floor, and as the end
// of what it was granted of tag order.
func answerAs(s *site, installation, instance string, number int64) {
	s.Helper()
	reportAs(s, installation, instance, func(r *worker.Report) {
		r.BufferFloor, r.Stats.Highest = number, number
		tag := worker.TagStats{Tag: "order", Order: "trend"}
		tag.Use.High = number
		r.Stats.Tags = []worker.TagStats{tag}
	})
}

// reportAs answers as a process with a report that fill completes.
func reportAs(s *site, installation, instance string, fill func(*worker.Report)) {
	s.Helper()
	conn := s.nats.Connect(s)
	_, err := conn.Subscribe(micro.APIPrefix+".STATS."+worker.ProcessServiceName, func(msg *nats.Msg) {
		r := worker.Report{Instance: instance, Role: worker.RoleWorker, Time: time.Now()}
		r.Stats.Installation = installation
		fill(&r)
		data, err := json.Marshal(r)
		if err != nil {
			s.Error(err)
		}
		answer, err := json.Marshal(micro.Stats{
			ServiceIdentity: micro.ServiceIdentity{Name: worker.ProcessServiceName, ID: instance, Version: "0.2.0", Metadata: map[string]string{
				"prefix": "ids", "instance": instance, "installation": installation, "role": string(worker.RoleWorker), "created": time.Now().Format(time.RFC3339Nano),
			}},
			Endpoints: []*micro.EndpointStats{{Name: "x", Data: data}},
		})
		if err != nil {
			s.Error(err)
		}
		_ = msg.Respond(answer) // to a command that may have ended
	})
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		s.Fatal(err)
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
