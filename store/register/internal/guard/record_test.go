package guard

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

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

// TestAccept: an administrator's decision makes any register the record, unless
// its lowest first ID is below that of the record, or a decision did not raise it.
// The time of the latest decision only rises, or is unknown.
func TestAccept(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	known := Record{Position: position.Position{ID: "a", Last: 7}, Entries: 3, First: 1000, Decisions: []string{"old"}, Decided: at}
	same := Poll{Position: position.Position{ID: "b", Last: 5}, Entries: 2, First: 1000, Decisions: []string{"old"}, Decided: at}
	for name, c := range map[string]struct {
		change func(p *Poll)
		wrong  bool
		want   time.Time
	}{
		"another register":           {func(*Poll) {}, false, at},
		"a lower floor":              {func(p *Poll) { p.First = 999 }, true, at},
		"decided":                    {func(p *Poll) { p.First, p.Decisions = 1001, []string{"old", "new"} }, false, at},
		"decided, the floor stands":  {func(p *Poll) { p.Decisions = []string{"old", "new"} }, true, at},
		"decided at the highest":     {func(p *Poll) { p.First, p.Decisions = math.MaxInt64, []string{"new"} }, false, at},
		"a higher floor":             {func(p *Poll) { p.First = 2000 }, false, at},
		"decided later":              {func(p *Poll) { p.Decided = at.Add(1) }, false, at.Add(1)},
		"decided earlier":            {func(p *Poll) { p.Decided = at.Add(-1) }, false, at},
		"decided at an unknown time": {func(p *Poll) { p.Decided = time.Time{} }, false, time.Time{}},
	} {
		got, found := known.Clone(), same
		c.change(&found)
		want := Record{Position: found.Position, Entries: 2, First: found.First, Decisions: []string{"old"}, Decided: c.want}
		if slices.Contains(found.Decisions, "new") {
			want.Decisions = []string{"old", "new"}
		}
		err := got.Accept("r", found)
		if c.wrong {
			want = known
			want.ID = ""
		}
		if (err != nil) != c.wrong || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %+v, want %+v", name, err, got, want)
		}
	}
}
