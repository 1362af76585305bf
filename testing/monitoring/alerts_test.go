package monitoring

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// TestAlerts: each rule of docs/prometheus-rules.yml fires by a fault of real processes, with texts that name its subject
// and the next command, and ends by the cure. None fires in healthy installations.
//
// The stories are tables of faults. Where no process can be made to fail, a setting causes the fault, and the row names it.
func TestAlerts(t *testing.T) {
	for name, tell := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tell(t)
		})
	}
}

var stories = map[string]func(*testing.T){
	"requests":    requestsStory,
	"connections": connectionsStory,
	"database":    databaseStory,
	"events":      eventsStory,
	"settings":    settingsStory,
}

// TestEachRuleHasItsFault: no rule of the file is left out by the stories, and none of theirs is missing in the file.
func TestEachRuleHasItsFault(t *testing.T) {
	t.Parallel()
	text, files := "", 0
	for _, name := range []string{"requests", "connections", "database", "events", "settings"} {
		story, err := os.ReadFile("alerts_" + name + "_test.go")
		if err != nil {
			t.Fatal(err)
		}
		text, files = text+string(story), files+1
	}
	if files != len(stories) {
		t.Errorf("%d stories, %d files", len(stories), files)
	}
	listed := make(map[string]int)
	for _, list := range regexp.MustCompile(`alerts: +\[\]string\{([^}]*)\}`).FindAllStringSubmatch(text, -1) {
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(list[1], -1) {
			listed["Idworker"+name]++
		}
	}
	rules := make(map[string]int)
	for _, rule := range newLab(t).rules.AlertingRules() {
		rules[rule.Name()] = 1
	}
	if !maps.Equal(listed, rules) {
		t.Errorf("the stories have %v, the file %v", listed, rules)
	}
}

// fault is a row of a story.
type fault struct {
	alerts []string // without "Idworker"
	what   string

	cause func()
	// before each scrape, from the cause until the last alert has ended; may be nil
	during func()
	cure   func()
	pace   time.Duration // real time between two scrapes; 0: as fast as possible
}

// healthy advances the clock by a time in which nothing may fire.
func (l *lab) healthy(lasts time.Duration, during func()) {
	l.t.Helper()
	for end := l.now.Add(lasts); l.now.Before(end); {
		if during != nil {
			during()
		}
		l.scrape()
		for _, a := range l.alerts() {
			if a.Firing {
				l.t.Fatalf("in a healthy installation, %s fires: %s %v%s", a.Name, a.Summary, a.Labels, l.samples(a.Name))
			}
		}
	}
}

// all plays the rows of a story, one after another.
func (l *lab) all(rows []fault) {
	for _, row := range rows {
		l.play(row)
	}
}

// play causes a fault, awaits its alerts, cures it, and awaits that they end.
func (l *lab) play(row fault) {
	l.t.Helper()
	l.scrape()
	for _, name := range row.alerts {
		if l.isFiring("Idworker" + name) {
			l.t.Fatalf("%s fires before its fault, %s%s", name, row.what, l.samples("Idworker"+name))
		}
	}
	began, real := l.now, time.Now()
	row.cause()
	fired := make(map[string]time.Duration)
	l.through(row, "fires", func(name string) bool {
		for _, a := range l.alerts() {
			if _, had := fired[name]; !had && a.Name == "Idworker"+name && a.Firing {
				fired[name] = l.now.Sub(began)
				l.checkTexts(a)
				l.t.Logf("%s %v: %s | %s", a.Name, a.Labels, a.Summary, a.Description)
			}
		}
		_, has := fired[name]
		return has
	})
	began = l.now
	row.cure()
	ended := make(map[string]time.Duration)
	l.through(row, "ends", func(name string) bool {
		if !l.isFiring("Idworker" + name) {
			ended[name] = cmp.Or(ended[name], l.now.Sub(began))
		} else {
			delete(ended, name)
		}
		_, has := ended[name]
		return has
	})
	for _, name := range row.alerts {
		l.t.Logf("| Idworker%s | %s | %.0f | %.0f |", name, row.what, fired[name].Seconds(), ended[name].Seconds())
	}
	l.t.Logf("%s: %v", row.what, time.Since(real).Round(time.Second))
}

// through scrapes until cond holds for each alert of a row.
func (l *lab) through(row fault, what string, cond func(name string) bool) {
	l.t.Helper()
	for deadline := time.Now().Add(natstest.Patience); ; time.Sleep(row.pace) {
		if row.during != nil {
			row.during()
		}
		l.scrape()
		missing := slices.DeleteFunc(slices.Clone(row.alerts), cond)
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, name := range missing {
				l.t.Errorf("%s: it never %s, by %s%s", name, what, row.what, l.samples("Idworker"+name))
			}
			l.t.FailNow()
		}
	}
}

// samples lists the samples that a rule's expression selects now.
func (l *lab) samples(name string) string {
	l.t.Helper()
	var out strings.Builder
	for _, rule := range l.rules.AlertingRules() {
		if rule.Name() != name {
			continue
		}
		fmt.Fprintf(&out, "\n%s\n", rule.Query())
		parser.Inspect(rule.Query(), func(node parser.Node, _ []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok {
				at := *selector
				for _, s := range l.query(at.String()) {
					fmt.Fprintf(&out, "  %s = %v\n", s.Metric, s.F)
				}
			}
			return nil
		})
	}
	return out.String()
}

// command matches what a text may name as the next step.
var command = regexp.MustCompile(`idworker [a-z]+|nats stream [a-z]+|/readyz|[Rr]estart|Repair|Make room`)

// checkTexts requires that an alert's texts name its subject and the next command.
func (l *lab) checkTexts(a alert) {
	l.t.Helper()
	for _, text := range []string{a.Summary, a.Description} {
		if text == "" || strings.Contains(text, "<no value>") || strings.Contains(text, "error expanding") || strings.Contains(text, "  ") {
			l.t.Errorf("%s: its text is %q", a.Name, text)
		}
	}
	subject := false
	for _, label := range []string{"instance", "tag", "enrichment", "kind", "file", "limit", "installation"} {
		value := a.Labels[label]
		named := value != "" && strings.Contains(a.Summary, value)
		subject = subject || named || label == "installation" && value == ""
		if value != "" && !named && label != "installation" {
			l.t.Errorf("%s: its summary %q does not name %s %s", a.Name, a.Summary, label, value)
		}
	}
	if !subject {
		l.t.Errorf("%s: its summary %q names none of %v", a.Name, a.Summary, a.Labels)
	}
	if !command.MatchString(a.Description) {
		l.t.Errorf("%s: its description %q names no command", a.Name, a.Description)
	}
	if s := a.Labels["severity"]; s != "page" && s != "warn" {
		l.t.Errorf("%s has severity %q", a.Name, s)
	}
}

// ask publishes requests for IDs of a tag, and does not wait for replies.
func (s *site) ask(tag string, requests int, ids int64) {
	s.t.Helper()
	if s.caller == nil {
		s.caller = s.connect()
	}
	for range requests {
		if err := s.caller.PublishRequest(messages.DefaultPrefix.Segment(tag), "nobody.waits", fmt.Appendf(nil, "%d", ids)); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.caller.FlushTimeout(natstest.Patience); err != nil {
		s.t.Fatal(err)
	}
}

// warm returns when workers have IDs of a tag in their buffers.
func (s *site) warm(tag string, workers ...*program) {
	s.t.Helper()
	natstest.Eventually(s.t, "workers buffer IDs of "+tag, func() bool {
		s.ask(tag, 2, 1)
		return !slices.ContainsFunc(workers, func(w *program) bool {
			return !regexp.MustCompile(`(?m)^idworker_tag_buffered_ids\{.*tag="` + tag + `"\} [1-9]`).Match(fetch(w.http))
		})
	})
}

// stop ends a process with success, and has it not watched any more.
func (s *site) stop(all ...*program) {
	s.t.Helper()
	for _, p := range all {
		p.Stop(s.t)
		s.forget(p.http)
	}
}

// crash kills a process, which stays watched: Prometheus finds it down.
func (s *site) crash(all ...*program) {
	for _, p := range all {
		p.Kill()
	}
}
