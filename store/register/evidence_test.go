package register

import (
	"slices"
	"testing"

	"github.com/idworker/idworker/internal/kv"
)

// TestAssess: what a process concludes from a poll of a register that it has
// seen before, and whether it goes on with a decision that it has found.
func TestAssess(t *testing.T) {
	known := record{Position: kv.Position{ID: "a", Last: 7}, Entries: 3, First: 1000, Decisions: []string{"old"}}
	same := poll{Position: known.Position, entries: 3, first: 1000, decisions: []string{"old"}}
	for name, c := range map[string]struct {
		change  func(p *poll)
		decided bool
		reason  string // "-" if the error has only the sequences
	}{
		"equal":                         {func(*poll) {}, false, ""},
		"ahead":                         {func(p *poll) { p.Last, p.entries = 9, 5 }, false, ""},
		"behind":                        {func(p *poll) { p.Last = 6 }, false, "-"},
		"fewer entries":                 {func(p *poll) { p.entries = 2 }, false, "lost entries: has 2, had 3"},
		"another identity":              {func(p *poll) { p.ID, p.Last = "b", 9 }, false, "was recreated or replaced"},
		"identity gone":                 {func(p *poll) { p.ID = "" }, false, "was recreated or replaced"},
		"missing":                       {func(p *poll) { *p = poll{missing: true} }, false, "is missing"},
		"being raised":                  {func(p *poll) { p.raising, p.Last = true, 9 }, false, beingRaised},
		"a lower floor":                 {func(p *poll) { p.first = 999 }, false, "predates a decision"},
		"decided":                       {func(p *poll) { p.decisions, p.first, p.Last = []string{"old", "new"}, 2000, 1 }, true, ""},
		"decided, and the floor stands": {func(p *poll) { p.decisions = []string{"new"} }, true, "was not raised enough: its lowest first ID for new tags is 1000, and was 1000"},
		"decided, and being raised":     {func(p *poll) { p.decisions, p.raising = []string{"new"}, true }, false, beingRaised},
		"decided, another identity":     {func(p *poll) { p.decisions, p.first, p.ID = []string{"new"}, 2000, "b" }, false, "was recreated or replaced"},
	} {
		found := same
		found.decisions = slices.Clone(same.decisions)
		c.change(&found)
		decided, wrong := known.assess("r", found, known.Last)
		reason := ""
		if wrong != nil {
			if reason = wrong.Reason; reason == "" {
				reason = "-"
			}
		}
		if decided != c.decided || reason != c.reason {
			t.Errorf("%s: decided %v, %q; want %v, %q", name, decided, reason, c.decided, c.reason)
		}
		if unchanged := c.reason == "" && !c.decided; found.follows(same) != unchanged {
			t.Errorf("%s: follows %v", name, !unchanged)
		}
	}
	var first record
	for _, found := range []poll{same, {missing: true}} {
		found.decisions = nil
		if decided, wrong := first.assess("r", found, 0); decided || wrong != nil {
			t.Errorf("first sight of %+v: %v, %v", found, decided, wrong)
		}
	}
}
