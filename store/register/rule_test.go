package register

import (
	"errors"
	"testing"
	"time"

	"github.com/idworker/idworker/store"
)

// ruleCase is what a rule makes of a tag a.
type ruleCase struct {
	present
	rule  rule
	entry entry  // the entry as it should be
	want  Effect // without Tag.Name, Entry and WasOrder, which follow from the entry before
	err   error
}

func (c ruleCase) check(t *testing.T, name string) {
	t.Helper()
	c.name = "a"
	e, change, err := c.rule.apply(c.present)
	if c.err != nil {
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v, want %v", name, e, err, c.err)
		}
		return
	}
	if c.want != (Effect{}) {
		c.want.Name, c.want.Entry = "a", c.had.Next
		if c.had.exists() {
			c.want.WasOrder = c.had.order()
		}
	}
	if err != nil || e != c.entry || change != c.want {
		t.Errorf("%s: %+v, %+v, %v\nwant %+v, %+v", name, e, change, err, c.entry, c.want)
	}
}

// at is a tag after a rule.
func at(next, step int64, order store.Order) store.Tag {
	return store.Tag{Next: next, Step: step, Order: order}
}

// listedTag is the tag a in a list, or in a table.
func listedTag(next, step int64, order store.Order) *store.Tag {
	return &store.Tag{Name: "a", Next: next, Step: step, Order: order}
}

// TestRaiseOfATag: what a raise to 1000 makes of each tag, and what it puts back.
func TestRaiseOfATag(t *testing.T) {
	t.Parallel()
	const high, far = 1 << 50, 1 << 51 // above the target
	since := time.UnixMicro(400)       // 600 IDs before the target
	raised := Raise{Target: 1000}
	restored := Raise{Target: 1000, Since: since, List: []store.Tag{{Name: "b"}}}
	strict, trend := store.Strict, store.Trend
	listed, removed := listedTag(50, 20, strict), listedTag(50, 0, trend)
	far2 := listedTag(far, 20, trend)
	worker := listedTag(70, 30, strict)
	row := listedTag(90, 5, "")
	had := func(e entry) storedEntry { return storedEntry{e, 7} }
	byHand := storedEntry{revision: 7}

	for name, c := range map[string]ruleCase{
		"below":   {present{had: had(entry{Next: 5, Step: 10})}, raised, entry{Next: 1000, Step: 10}, Effect{Tag: at(1000, 10, trend), Before: 5}, nil},
		"strict":  {present{had: had(entry{Next: 5, Step: 10, Order: strict})}, raised, entry{Next: 1000, Step: 10, Order: strict}, Effect{Tag: at(1000, 10, strict), Before: 5}, nil},
		"removed": {present{had: had(entry{Next: 5, Step: 10, Removed: true})}, raised, entry{Next: 1000, Step: 10, Removed: true}, Effect{Tag: at(1000, 0, trend), Before: 5}, nil},
		"above, written 100 before": {present{had: had(entry{Next: high, Step: 10}), written: time.UnixMicro(900)}, raised,
			entry{Next: high + 100 + Slack, Step: 10}, Effect{Tag: at(high+100+Slack, 10, trend), Before: high}, nil},
		"above, written again since": {present{had: had(entry{Next: high, Step: 10}), written: time.UnixMicro(900), least: high + 300 + Slack}, raised,
			entry{Next: high + 300 + Slack, Step: 10}, Effect{Tag: at(high+300+Slack, 10, trend), Before: high}, nil},
		"above, made after the list": {present{had: had(entry{Next: high, Step: 10}), written: time.UnixMicro(900)}, restored,
			entry{Next: high + 600 + Slack, Step: 10}, Effect{Tag: at(high+600+Slack, 10, trend), Before: high}, nil},
		"used up": {present{had: had(entry{Next: 1<<63 - 1, Step: 10})}, raised, entry{Next: 1<<63 - 1, Step: 10}, Effect{Tag: at(1<<63-1, 10, trend), Before: 1<<63 - 1}, nil},
		"above, written unknown": {present{had: had(entry{Next: high, Step: 10})}, raised,
			entry{Next: high + 1000 + Slack, Step: 10}, Effect{Tag: at(high+1000+Slack, 10, trend), Before: high}, nil},
		"above, written in the future": {present{had: had(entry{Next: high, Step: 10}), written: time.UnixMicro(1100)}, raised,
			entry{Next: high + Slack, Step: 10}, Effect{Tag: at(high+Slack, 10, trend), Before: high}, nil},
		"at the target, written 100 before": {present{had: had(entry{Next: 1000, Step: 10}), written: time.UnixMicro(900)}, raised,
			entry{Next: 1100 + Slack, Step: 10}, Effect{Tag: at(1100+Slack, 10, trend), Before: 1000}, nil},
		"a worker holds more": {present{had: had(entry{Next: 5, Step: 10}), written: time.UnixMicro(900)}, Raise{Target: 1000, Held: map[string]int64{"a": high}},
			entry{Next: high + Slack, Step: 10}, Effect{Tag: at(high+Slack, 10, trend), Before: 5}, nil},
		"a worker holds as much": {present{had: had(entry{Next: high, Step: 10}), written: time.UnixMicro(900)}, Raise{Target: 1000, Held: map[string]int64{"a": high}},
			entry{Next: high + 100 + Slack, Step: 10}, Effect{Tag: at(high+100+Slack, 10, trend), Before: high}, nil},
		"almost used up": {present{had: had(entry{Next: 1<<63 - 6, Step: 10}), written: time.UnixMicro(900)}, raised,
			entry{Next: 1<<63 - 1, Step: 10}, Effect{Tag: at(1<<63-1, 10, trend), Before: 1<<63 - 6}, nil},
		"by the highest number": {present{had: had(entry{Next: 5, Step: 10})}, Raise{Target: 1000, Lifts: []Lift{{"a.*", 30}, {"*", 20}, {"a", 10}}},
			entry{Next: 25, Step: 10}, Effect{Tag: at(25, 10, trend), Before: 5}, nil},
		"by no number": {present{had: had(entry{Next: 5, Step: 10})}, Raise{Target: 1000, Lifts: []Lift{{"b", 30}}},
			entry{Next: 1000, Step: 10}, Effect{Tag: at(1000, 10, trend), Before: 5}, nil},
		"by a number":                 {present{had: had(entry{Next: 5, Step: 10})}, Raise{Target: 1000, By: 7}, entry{Next: 12, Step: 10}, Effect{Tag: at(12, 10, trend), Before: 5}, nil},
		"deleted by hand":             {present{had: byHand}, raised, entry{}, Effect{}, nil},
		"deleted by hand, with a row": {present{had: byHand, table: true, row: row}, raised, entry{}, Effect{}, nil},

		"a row above its entry":                      {present{had: had(entry{Next: 5}), table: true, row: row}, raised, entry{Next: 1000}, Effect{Tag: at(1000, 5, trend), Before: 90}, nil},
		"a row without an entry":                     {present{table: true, row: row}, raised, entry{Next: 1000}, Effect{Tag: at(1000, 5, trend), Before: 90}, nil},
		"a row without a step":                       {present{table: true, row: listedTag(90, 0, "")}, raised, entry{Next: 1000}, Effect{Tag: at(1000, 1, trend), Before: 90}, nil},
		"an entry without a row":                     {present{had: had(entry{Next: 5}), table: true}, raised, entry{Next: 1000}, Effect{Tag: at(1000, 0, trend), Before: 5}, nil},
		"an entry without a row that the list lacks": {present{had: had(entry{Next: 5}), table: true}, restored, entry{Next: 1000, Removed: true}, Effect{Tag: at(1000, 0, trend), Before: 5}, nil},

		"listed, lost":                  {present{listed: listed}, restored, entry{Next: 1000, Step: 20, Order: strict}, Effect{Tag: at(1000, 20, strict), Listed: listed}, nil},
		"listed, lost, by a number":     {present{listed: listed, floor: 60}, Raise{Target: 1000, By: 7}, entry{Next: 67, Step: 20, Order: strict}, Effect{Tag: at(67, 20, strict), Listed: listed}, nil},
		"listed, deleted by hand":       {present{had: byHand, listed: listed}, restored, entry{Next: 1000, Step: 20, Order: strict}, Effect{Tag: at(1000, 20, strict), Listed: listed}, nil},
		"listed as removed, lost":       {present{listed: removed}, restored, entry{Next: 1000, Removed: true}, Effect{Tag: at(1000, 0, trend), Listed: removed}, nil},
		"listed as removed, made again": {present{had: had(entry{Next: 5, Step: 10}), listed: removed}, restored, entry{Next: 1000, Step: 10}, Effect{Tag: at(1000, 10, trend), Before: 5, Listed: removed}, nil},
		"listed above, lost":            {present{listed: far2}, restored, entry{Next: far + 600 + Slack, Step: 20}, Effect{Tag: at(far+600+Slack, 20, trend), Listed: far2}, nil},
		"listed above, made again": {present{had: had(entry{Next: 5, Step: 10}), listed: far2, written: time.UnixMicro(900)}, restored,
			entry{Next: far + 600 + Slack, Step: 10}, Effect{Tag: at(far+600+Slack, 10, trend), Before: 5, Listed: far2}, nil},
		"listed as strict, became trend": {present{had: had(entry{Next: 5, Step: 10}), listed: listed}, restored, entry{Next: 1000, Step: 10, Order: strict}, Effect{Tag: at(1000, 10, strict), Before: 5, Listed: listed}, nil},
		"listed as trend, is strict":     {present{had: had(entry{Next: 5, Step: 10, Order: strict}), listed: removed}, restored, entry{Next: 1000, Step: 10, Order: strict}, Effect{Tag: at(1000, 10, strict), Before: 5, Listed: removed}, nil},

		"listed, lost with its row":            {present{table: true, listed: listed}, restored, entry{Next: 1000, Order: strict}, Effect{Tag: at(1000, 20, strict), Rowless: true, Listed: listed}, nil},
		"listed, lost beside its row":          {present{table: true, listed: listed, row: row}, restored, entry{Next: 1000, Order: strict}, Effect{Tag: at(1000, 5, strict), Before: 90, Listed: listed}, nil},
		"listed, its row is lost":              {present{had: had(entry{Next: 5, Order: strict}), table: true, listed: listed}, restored, entry{Next: 1000, Order: strict}, Effect{Tag: at(1000, 20, strict), Before: 5, Rowless: true, Listed: listed}, nil},
		"listed, removed here":                 {present{had: had(entry{Next: 5, Order: strict, Removed: true}), table: true, listed: listed}, restored, entry{Next: 1000, Order: strict, Removed: true}, Effect{Tag: at(1000, 0, strict), Before: 5, Listed: listed}, nil},
		"listed as removed, lost beside a row": {present{table: true, listed: removed, row: row}, restored, entry{Next: 1000}, Effect{Tag: at(1000, 5, trend), Before: 90, Listed: removed}, nil},

		"held, lost":                {present{worker: worker}, raised, entry{Next: 1000, Step: 30, Order: strict}, Effect{Tag: at(1000, 30, strict), Forgotten: true}, nil},
		"held above, lost":          {present{worker: listedTag(high, 30, trend)}, raised, entry{Next: high + Slack, Step: 30}, Effect{Tag: at(high+Slack, 30, trend), Forgotten: true}, nil},
		"held, known":               {present{had: had(entry{Next: 5, Step: 10}), worker: worker}, raised, entry{Next: 1000, Step: 10}, Effect{Tag: at(1000, 10, trend), Before: 5}, nil},
		"held, deleted by hand":     {present{had: byHand, worker: worker}, raised, entry{}, Effect{}, nil},
		"held, without a row":       {present{table: true, worker: worker}, raised, entry{}, Effect{}, nil},
		"held, lost beside its row": {present{table: true, worker: worker, row: row}, raised, entry{Next: 1000, Order: strict}, Effect{Tag: at(1000, 5, strict), Before: 90, Forgotten: true}, nil},
	} {
		c.check(t, name)
	}
}

// TestImportOfATag: what an import makes of each tag of its list.
func TestImportOfATag(t *testing.T) {
	t.Parallel()
	strict, trend := store.Strict, store.Trend
	live, row := storedEntry{entry{Next: 500, Step: 10}, 7}, listedTag(600, 5, "")
	gone := storedEntry{entry{Next: 500, Step: 10, Removed: true}, 7}
	byHand := storedEntry{revision: 7}
	tag, low, again := listedTag(1000, 20, trend), listedTag(50, 20, trend), listedTag(1000, 20, strict)
	removed, first := listedTag(1000, 0, trend), listedTag(1, 20, trend)

	for name, c := range map[string]ruleCase{
		"raised":                 {present{had: live, listed: tag}, Import{}, entry{Next: 1000, Step: 10}, Effect{Tag: at(1000, 10, trend), Before: 500, Listed: tag}, nil},
		"not lowered":            {present{had: live, listed: low}, Import{}, live.entry, Effect{Tag: at(500, 10, trend), Before: 500, Listed: low}, nil},
		"removed elsewhere":      {present{had: live, listed: removed}, Import{}, entry{Next: 1000, Step: 10}, Effect{Tag: at(1000, 10, trend), Before: 500, Listed: removed}, nil},
		"another order":          {present{had: live, listed: again}, Import{}, entry{}, Effect{}, store.ErrOrder},
		"new":                    {present{listed: tag}, Import{}, entry{Next: 1000, Step: 20}, Effect{Tag: at(1000, 20, trend), Listed: tag}, nil},
		"new, below the floor":   {present{listed: low, floor: 300}, Import{}, entry{Next: 300, Step: 20}, Effect{Tag: at(300, 20, trend), Listed: low}, nil},
		"new, removed":           {present{listed: removed}, Import{}, entry{Next: 1000, Step: 1, Removed: true}, Effect{Tag: at(1000, 0, trend), Listed: removed}, nil},
		"made again":             {present{had: gone, listed: low}, Import{}, entry{Next: 500, Step: 20}, Effect{Tag: at(500, 20, trend), Listed: low}, nil},
		"made in another order":  {present{had: gone, listed: again}, Import{}, entry{}, Effect{}, store.ErrOrder},
		"removed, stays so":      {present{had: gone, listed: removed}, Import{}, entry{Next: 1000, Step: 10, Removed: true}, Effect{Tag: at(1000, 0, trend), Listed: removed}, nil},
		"deleted by hand":        {present{had: byHand, listed: tag}, Import{}, entry{Next: 1000, Step: 20}, Effect{Tag: at(1000, 20, trend), Listed: tag}, nil},
		"deleted by hand, first": {present{had: byHand, listed: first}, Import{}, entry{}, Effect{}, store.ErrBadTag},

		"a row is raised":           {present{had: live, table: true, row: row, listed: tag}, Import{}, entry{Next: 1000, Step: 10}, Effect{Tag: at(1000, 5, trend), Before: 600, Listed: tag}, nil},
		"a row is not lowered":      {present{had: live, table: true, row: row, listed: low}, Import{}, live.entry, Effect{Tag: at(600, 5, trend), Before: 600, Listed: low}, nil},
		"a row without an entry":    {present{table: true, row: row, listed: low, floor: 700}, Import{}, entry{Next: 700}, Effect{Tag: at(700, 5, trend), Before: 600, Listed: low}, nil},
		"it is trend":               {present{table: true, row: row, listed: again}, Import{}, entry{}, Effect{}, store.ErrOrder},
		"a row is new":              {present{table: true, listed: again}, Import{}, entry{Next: 1000, Order: strict, Removed: true}, Effect{Tag: at(1000, 20, strict), Rowless: true, Listed: again}, nil},
		"a row is made again":       {present{had: gone, table: true, listed: low}, Import{}, gone.entry, Effect{Tag: at(500, 20, trend), Rowless: true, Listed: low}, nil},
		"a missing row":             {present{had: live, table: true, listed: low}, Import{}, live.entry, Effect{Tag: at(500, 20, trend), Rowless: true, Listed: low}, nil},
		"new, removed, in a table":  {present{table: true, listed: removed}, Import{}, entry{Next: 1000, Removed: true}, Effect{Tag: at(1000, 0, trend), Listed: removed}, nil},
		"removed, stays so in it":   {present{had: gone, table: true, listed: removed}, Import{}, entry{Next: 1000, Step: 10, Removed: true}, Effect{Tag: at(1000, 0, trend), Listed: removed}, nil},
		"in a table, lost, at one":  {present{had: byHand, table: true, listed: first}, Import{}, entry{}, Effect{}, store.ErrBadTag},
		"in a table, below a floor": {present{table: true, listed: low, floor: 300}, Import{}, entry{Next: 300, Removed: true}, Effect{Tag: at(300, 20, trend), Rowless: true, Listed: low}, nil},
	} {
		c.check(t, name)
	}
}

// TestAcceptanceOfATag: a loader puts back only what is not there at all.
func TestAcceptanceOfATag(t *testing.T) {
	t.Parallel()
	cached := entry{Next: 50, Step: 10, Order: store.Strict}
	gone := cached
	gone.Removed = true
	accepted := func(e entry) acceptance { return acceptance{map[string]storedEntry{"a": {e, 3}}, 1000} }
	for name, c := range map[string]ruleCase{
		"lost":             {present{}, accepted(cached), entry{Next: 1000, Step: 10, Order: store.Strict}, Effect{}, nil},
		"lost, removed":    {present{}, accepted(gone), entry{Next: 1000, Step: 10, Order: store.Strict, Removed: true}, Effect{}, nil},
		"lost, in a table": {present{table: true}, accepted(entry{Next: 50}), entry{Next: 1000, Removed: true}, Effect{}, nil},
		"put back since":   {present{had: storedEntry{entry{Next: 1}, 7}}, accepted(cached), entry{Next: 1}, Effect{}, nil},
		"deleted by hand":  {present{had: storedEntry{revision: 7}}, accepted(cached), entry{}, Effect{}, nil},
	} {
		c.check(t, name)
	}
}
