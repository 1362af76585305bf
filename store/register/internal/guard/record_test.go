package guard

import (
	"slices"
	"testing"

	"github.com/idworker/idworker/internal/position"
)

// TestAssess: what a process concludes from a poll of a register that it has
// seen before, and whether it goes on with a decision that it has found.
func TestAssess(t *testing.T) {
	known := Record{Position: position.Position{ID: "a", Last: 7}, Entries: 3, First: 1000, Decisions: []string{"old"}}
	same := Poll{Position: known.Position, Entries: 3, First: 1000, Decisions: []string{"old"}}
	for name, c := range map[string]struct {
		change  func(p *Poll)
		decided bool
		reason  string // "-" if the error has only the sequences
	}{
		"equal":                         {func(*Poll) {}, false, ""},
		"ahead":                         {func(p *Poll) { p.Last, p.Entries = 9, 5 }, false, ""},
		"behind":                        {func(p *Poll) { p.Last = 6 }, false, "-"},
		"fewer entries":                 {func(p *Poll) { p.Entries = 2 }, false, "lost entries: has 2, had 3"},
		"another identity":              {func(p *Poll) { p.ID, p.Last = "b", 9 }, false, "was recreated or replaced"},
		"identity gone":                 {func(p *Poll) { p.ID = "" }, false, "was recreated or replaced"},
		"missing":                       {func(p *Poll) { *p = Poll{Missing: true} }, false, "is missing"},
		"being raised":                  {func(p *Poll) { p.Mark, p.Last = "raised", 9 }, false, BeingRaised},
		"a lower floor":                 {func(p *Poll) { p.First = 999 }, false, "predates a decision"},
		"decided":                       {func(p *Poll) { p.Decisions, p.First, p.Last = []string{"old", "new"}, 2000, 1 }, true, ""},
		"decided, and the floor stands": {func(p *Poll) { p.Decisions = []string{"new"} }, true, "was not raised enough: its lowest first ID for new tags is 1000, and was 1000"},
		"decided, and being raised":     {func(p *Poll) { p.Decisions, p.Mark = []string{"new"}, "raised" }, false, BeingRaised},
		"decided, another identity":     {func(p *Poll) { p.Decisions, p.First, p.ID = []string{"new"}, 2000, "b" }, false, "was recreated or replaced"},
	} {
		found := same
		found.Decisions = slices.Clone(same.Decisions)
		c.change(&found)
		decided, wrong := known.Assess("r", found, known.Last)
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
	var first Record
	for _, found := range []Poll{same, {Missing: true}} {
		found.Decisions = nil
		if decided, wrong := first.Assess("r", found, 0); decided || wrong != nil {
			t.Errorf("first sight of %+v: %v, %v", found, decided, wrong)
		}
	}
}
