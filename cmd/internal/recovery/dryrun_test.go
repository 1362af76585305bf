package recovery

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// kinds are the commands that have a dry run.
var kinds = []string{"raise", "raise by a number", "raise some by a number", "restore", "restore anyway", "import", "import with a floor"}

// firstSeed is IDWORKER_SEED, if that is set.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("IDWORKER_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64() >> 1
	}
	t.Logf("IDWORKER_SEED=%d", seed)
	return seed
}

// TestDryRunSaysWhatHappens: a dry run reports each tag that the command then
// changes, with the same numbers, and nothing else. The plan counts what becomes
// of them, and names what is put back. Afterwards the register, and the table,
// are what was reported. A restore that has ended leaves nothing to restore.
func TestDryRunSaysWhatHappens(t *testing.T) {
	t.Parallel()
	dryRuns(t, false)
}

// TestDryRunInFrontOfATable is [TestDryRunSaysWhatHappens] with a database.
func TestDryRunInFrontOfATable(t *testing.T) {
	tier.All(t)
	t.Parallel()
	dryRuns(t, true)
}

func dryRuns(t *testing.T, table bool) {
	first := firstSeed(t)
	for seed := first; seed < first+uint64(len(kinds)*tier.Pick(1, 40)); seed++ {
		kind := kinds[seed%uint64(len(kinds))]
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 0))
			imports := strings.HasPrefix(kind, "import")
			g := generate(t, rng, table, imports)
			if !imports && kind != "restore anyway" {
				g.damage()
			}
			w := g.wish(kind)
			g.dryRun(w)
			if w.Backup != nil {
				g.freeze()
				if p, err := g.plan(Wish{Backup: w.Backup}); err != nil && !errors.Is(err, store.ErrCorrupt) || !p.Nothing() {
					t.Errorf("after the restore: %+v, %v", p, err)
				}
			} else if !imports {
				g.dryRun(Wish{}) // above an earlier raise
			}
			if t.Failed() {
				t.Logf("IDWORKER_SEED=%d", seed)
			}
		})
	}
}

// freeze stops the clock of this machine, a bit ahead of the NATS server's, so
// that this one counts.
func (g *generated) freeze() {
	at := time.Now().Add(8 * time.Second)
	g.now = func() time.Time { return at }
	g.writer.now = g.now
}

// dryRun plans what a command asks for, does it, and compares.
func (g *generated) dryRun(w Wish) {
	g.Helper()
	var p *Plan
	natstest.Eventually(g.T, "the clocks agree", func() (agree bool) { // a slow machine asks long after one was stopped
		g.freeze()
		stop := g.beWorkers()
		defer stop()
		var err error
		if p, err = g.plan(w); errors.Is(err, ErrClock) {
			return false
		}
		must(g.T, err)
		return true
	})
	before, rows := g.entries(), g.rows()
	expected := g.preview(p)
	dry := make(map[string]tags.Change)
	var dryFailed error
	target := p.Target
	if p.Nothing() && !w.Anyway {
		target = 0
	} else {
		dryFailed = p.Changes(g.Context(), g.Site, once(g, dry))
	}
	done := make(map[string]tags.Change)
	result, failed := Apply(g.Context(), g.writer, p, once(g, done))
	if errors.Is(dryFailed, store.ErrCorrupt) != errors.Is(failed, store.ErrCorrupt) || (dryFailed == nil) != (failed == nil) {
		g.Errorf("the dry run ended with %v, the command with %v", dryFailed, failed)
	}
	if result.Target != target {
		g.Errorf("raised to %d, planned %d", result.Target, target)
	}
	for name := range union(dry, done) {
		if dry[name] != done[name] {
			g.Errorf("%s: the dry run has %+v, the command %+v; before %+v", name, dry[name], done[name], before[name])
		}
	}
	if g.Failed() {
		return
	}
	g.compareSurvey(p, done, before, rows)
	g.compareEntries(w, expected, done, before, g.entries())
	g.compareRows(done, rows, g.rows())
	g.compareRest(p)
}

// once collects changes by tag, each of which is reported once.
func once(g *generated, into map[string]tags.Change) func(tags.Change) {
	return func(c tags.Change) {
		if _, again := into[c.Tag]; again {
			g.Errorf("%s is reported again", c.Tag)
		}
		into[c.Tag] = c
	}
}

func union[V, W any](a map[string]V, b map[string]W) map[string]bool {
	all := make(map[string]bool)
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	return all
}

// preview returns what the rule does to tags, by name.
func (g *generated) preview(p *Plan) map[string]register.Effect {
	g.Helper()
	segments, err := p.survey(context.WithoutCancel(g.Context()), g.Site)
	must(g.T, err)
	defer func() { must(g.T, segments.Close()) }()
	all := make(map[string]register.Effect)
	err = segments.Preview(g.Context(), p.rule(p.Target), func(c register.Effect) {
		c.Name = strings.Clone(c.Name)
		all[c.Name] = c
	})
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		g.Fatal(err)
	}
	return all
}

// compareSurvey counts what became of the tags, and compares that with the plan.
func (g *generated) compareSurvey(p *Plan, done map[string]tags.Change, before map[string]kept, rows map[string]row) {
	g.Helper()
	var want Survey
	listed := make(map[string]store.Tag)
	for _, tag := range p.raise.List {
		listed[tag.Name] = tag
	}
	matched := make([]bool, len(p.wish.Lifts))
	about := g.about(p, before, rows)
	for name := range union(about, done) {
		c, reported := done[name]
		if c.Template {
			continue
		}
		if reported != about[name] {
			g.Errorf("%s is reported: %v, want %v; before %+v", name, reported, about[name], before[name])
		}
		if c.Removed {
			want.Removed++
		} else {
			want.Tags++
		}
		for n, l := range p.wish.Lifts {
			matched[n] = matched[n] || covers(l.Pattern, name)
		}
		e, r := before[name], rows[name]
		add := func(n *Named, is bool) {
			if is {
				n.Add(name)
			}
		}
		tag, inList := listed[name]
		was := max(e.Next, r.next)
		if was == 0 {
			was = tag.Next
		}
		add(&want.Past31, was < 1<<31 && c.Next > 1<<31)
		add(&want.Past53, was < 1<<53 && c.Next > 1<<53)
		add(&want.Above, !p.counts() && max(was, tag.Next, p.raise.Held[name]) >= p.Target)
		add(&want.UsedUp, c.Next == math.MaxInt64)
		_, hasRow := rows[name]
		add(&want.Forgotten, g.held[name] > 0 && !inList && !e.readable())
		add(&want.Missing, inList && !e.readable())
		add(&want.Rowless, inList && g.db != nil && !hasRow && tag.Step > 0 && !e.Removed)
		add(&want.Lower, inList && e.readable() && e.Next < tag.Next)
		add(&want.Strict, inList && e.readable() && e.order() == store.Trend && tag.Order == store.Strict)
		if inList && e.readable() && e.order() == store.Strict && tag.Order == store.Trend {
			want.Trend = append(want.Trend, name)
		}
	}
	for name := range rows {
		if messages.CheckTag(name) != nil {
			want.Others.Add(name)
		}
	}
	for n, l := range p.wish.Lifts {
		if !matched[n] {
			want.Unmatched = append(want.Unmatched, l.Pattern)
		}
	}
	got := p.Survey
	if got.Tags != want.Tags || got.Removed != want.Removed {
		g.Errorf("the plan has %d tags and %d removed, it was %d and %d", got.Tags, got.Removed, want.Tags, want.Removed)
	}
	if p.wish.List != nil { // of which nothing else is shown
		return
	}
	for name, n := range map[string][2]Named{
		"past 2^31": {got.Past31, want.Past31}, "past 2^53": {got.Past53, want.Past53}, "above": {got.Above, want.Above}, "used up": {got.UsedUp, want.UsedUp},
		"forgotten": {got.Forgotten, want.Forgotten}, "others": {got.Others, want.Others}, "missing": {got.Missing, want.Missing},
		"without a row": {got.Rowless, want.Rowless}, "lower": {got.Lower, want.Lower}, "strict again": {got.Strict, want.Strict},
	} {
		if n[0].Count != n[1].Count || len(n[0].Names) != min(n[0].Count, maxNamed) {
			g.Errorf("%s: the plan has %d, %v, it were %d", name, n[0].Count, n[0], n[1].Count)
		}
	}
	slices.Sort(got.Trend)
	slices.Sort(want.Trend)
	if !slices.Equal(got.Trend, want.Trend) || !slices.Equal(got.Unmatched, want.Unmatched) {
		g.Errorf("kept strict: %v, %v; unmatched: %v, %v", got.Trend, want.Trend, got.Unmatched, want.Unmatched)
	}
}

// about returns the names of the tags that a plan is about. An unreadable entry
// stays as it is, and one that was deleted by hand unless the backup has the tag.
func (g *generated) about(p *Plan, before map[string]kept, rows map[string]row) map[string]bool {
	names := make(map[string]bool)
	if p.wish.List != nil {
		for _, tag := range p.wish.List.Tags {
			names[tag.Name] = true
		}
		return names
	}
	for name, e := range before {
		names[name] = e.readable()
	}
	for name := range rows {
		if _, found := before[name]; !found {
			names[name] = messages.CheckTag(name) == nil
		}
	}
	for name := range g.held {
		if _, found := before[name]; !found && g.db == nil {
			names[name] = true
		}
	}
	for _, tag := range p.raise.List {
		names[tag.Name] = before[tag.Name].readable() || before[tag.Name].data == ""
	}
	maps.DeleteFunc(names, func(_ string, is bool) bool { return !is })
	return names
}

func covers(pattern, name string) bool {
	before, _, wild := strings.Cut(pattern, ".*")
	if !wild {
		before, _, wild = strings.Cut(pattern, ".>")
	}
	return wild && strings.HasPrefix(name, before+".") || pattern == name
}

// compareEntries compares the register afterwards with what was reported.
func (g *generated) compareEntries(w Wish, expected map[string]register.Effect, done map[string]tags.Change, before, after map[string]kept) {
	g.Helper()
	for name := range union(before, after) {
		c, changed := done[name]
		e := after[name]
		switch want := expected[name]; {
		case !changed && e.data != before[name].data:
			g.Errorf("%s was not reported: it is %q, was %q", name, e.data, before[name].data)
		case !changed:
		case w.List != nil && c.Order != want.Order: // of a raise, it is not reported
			g.Errorf("%s was reported as %+v, want %s", name, c, want.Order)
		case e.order() != want.Order || g.db == nil && e.Removed != c.Removed || g.db == nil && !e.Removed && e.Step != want.Step:
			g.Errorf("%s is %q, want %+v", name, e.data, want)
		case e.Next != c.Next && (g.db == nil || w.List == nil):
			g.Errorf("%s was reported as %+v, and is %q", name, c, e.data)
		}
	}
	for name, c := range done {
		if _, found := after[name]; !found && !c.Template {
			g.Errorf("%s was reported as %+v, and is not there", name, c)
		}
	}
}

// compareRows compares the table afterwards with what was reported.
func (g *generated) compareRows(done map[string]tags.Change, before, after map[string]row) {
	g.Helper()
	if g.db == nil {
		return
	}
	for name := range union(before, after) {
		c, changed := done[name]
		r, found := after[name]
		switch {
		case !changed && r != before[name]:
			g.Errorf("row %s was not reported: it is %v, was %v", name, r, before[name])
		case !changed:
		case c.Removed == found || found && r.next != c.Next:
			g.Errorf("row %s is %v, %v, reported %+v", name, r, found, c)
		}
	}
}

// compareRest compares settings, templates and records with the plan.
func (g *generated) compareRest(p *Plan) {
	g.Helper()
	for _, key := range p.Settings {
		if value, _, err := agreement.Lookup(g.Context(), g.js, prefix, key); err != nil || value != p.settings[key] {
			g.Errorf("setting %s is %q, %v, want %q", key, value, err, p.settings[key])
		}
	}
	list, err := templates.Read(g.Context(), g.js, prefix)
	for _, pattern := range p.Templates {
		if _, missing := list.Named(pattern); err != nil || missing != nil {
			g.Errorf("template %s: %v, %v", pattern, err, missing)
		}
	}
	for _, key := range p.Records {
		if e, err := kv.Get(g.Context(), g.js, enrich.BucketName(prefix), key); err != nil || string(e.Value) != p.wish.Backup.Enrichments[key] {
			g.Errorf("record %s is %q, %v", key, e.Value, err)
		}
	}
	if _, err := g.js.KeyValue(g.Context(), register.BucketName(prefix)); errors.Is(err, jetstream.ErrBucketNotFound) {
		g.Error("there is no register")
	}
}
