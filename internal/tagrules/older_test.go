package tagrules

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kvwatch"
)

// rule is an entry that was written at a revision, some seconds after others.
func rule(key, value string, revision uint64, seconds int) kvwatch.Entry {
	return kvwatch.Entry{Key: key, Value: []byte(value), Position: kvwatch.Position{Revision: revision, Created: time.Unix(int64(seconds), 0)}}
}

// TestOlderEntriesTakeNothing: a bucket that went back takes neither strictness nor templates from who has read
// them. What is strict there counts, and so does all that is written there later.
func TestOlderEntriesTakeNothing(t *testing.T) {
	t.Parallel()
	const older = `[{"pattern":"x.*","step":10},{"pattern":"y.*","step":10,"order":"strict"}]`
	w := NewWatcher(nil, "ids", zap.NewNop())
	expect := func(tag string, order Order, template bool) {
		t.Helper()
		if got := w.Lookup(tag); got.Order != order || (got.Template != nil) != template {
			t.Errorf("%s is %+v, want %s, with a template: %v", tag, got, order, template)
		}
	}
	before := []kvwatch.Entry{
		rule("order.a", "trend", 4, 4),
		rule("order.b", "strict", 5, 5),
		rule("templates", older, 6, 6),
	}
	for _, e := range before {
		w.apply(e)
	}
	w.apply(rule("order.a", "strict", 9, 9))
	w.apply(rule("order.b", "trend", 10, 10))
	w.apply(rule("templates", `[{"pattern":"x.*","step":10,"order":"strict"},{"pattern":"y.*","step":10},{"pattern":"chat.*","step":10,"order":"strict"}]`, 11, 11))
	expect("y.1", Trend, true)
	for _, e := range before { // as it is read again from its beginning
		w.apply(e)
	}
	expect("a", Strict, false)
	expect("b", Strict, false)
	expect("x.1", Strict, true)
	expect("y.1", Strict, true)
	expect("chat.1", Strict, true)
	w.apply(rule("order.a", "trend", 7, 20)) // the revisions are used again
	w.apply(rule("templates", older, 8, 21))
	expect("a", Trend, false)
	expect("x.1", Trend, true)
	expect("chat.1", Trend, false)
}

// TestFirstIDsStay: no change of a template lowers the first ID of its tags, nor does a list that is older.
func TestFirstIDsStay(t *testing.T) {
	t.Parallel()
	all := templates{{Pattern: "x.*", Step: 10, First: 50}, {Pattern: "y.*", Step: 10, First: 50}}
	changed, err := all.change("x.*", func(t *Template) { *t = Template{Step: 20, Order: Trend} })
	if err != nil || changed[0].FirstID() != 50 {
		t.Errorf("%+v, %v", changed, err)
	}
	for _, kept := range all.keepFrom(templates{{Pattern: "x.*", Step: 10, Order: Strict, First: 7}, {Pattern: "y.*", Step: 10, First: 7}}) {
		if kept.FirstID() != 50 {
			t.Errorf("%+v, want 50 as the first ID", kept)
		}
	}
}

// TestRedecided: tags are told apart from those of which a change of the templates leaves the order as it was.
func TestRedecided(t *testing.T) {
	t.Parallel()
	const (
		all   = `{"pattern":"chat.>","step":10}`
		vip   = `{"pattern":"chat.vip.*","step":10,"order":"strict"}`
		twice = `{"pattern":"chat.vip.*","step":10,"order":"strict","becoming":true}`
		large = `{"pattern":"chat.vip.*","step":1000,"order":"strict"}`
		gone  = `{"pattern":"chat.vip.*","step":10,"order":"strict","removed":true}`
	)
	w := NewWatcher(nil, "ids", zap.NewNop())
	revision := 1
	for _, change := range []struct {
		value string
		vip   bool
	}{
		{`[` + all + `]`, false},
		{`[` + all + `,` + twice + `]`, true},
		{`[` + all + `,` + vip + `]`, true}, // the second write
		{`[` + all + `,` + large + `]`, false},
		{`[` + all + `,` + gone + `]`, true},
		{`[` + all + `,` + twice + `]`, true},
	} {
		revision++
		w.apply(rule("templates", change.value, uint64(revision), revision))
		if w.Redecided("chat.vip.a") != change.vip || w.Redecided("chat.a") {
			t.Errorf("%s: chat.vip.a %v, want %v; chat.a %v", change.value, w.Redecided("chat.vip.a"), change.vip, w.Redecided("chat.a"))
		}
	}
}
