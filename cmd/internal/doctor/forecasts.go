package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/worker"
)

// usesOf returns how the numbers of tags are used up, by all workers together.
// Each worker reports its worker.MaxReportTags busiest tags, so a tag that is
// not among them is missing: it is far from its limit, or nearly idle.
func usesOf(reports []worker.Report) map[string]forecast.Use {
	uses := make(map[string]forecast.Use)
	for _, r := range reports {
		for _, t := range r.Stats.Tags {
			uses[t.Tag] = uses[t.Tag].Join(t.Use)
		}
	}
	return uses
}

func (d *Doctor) examineLayoutEnd(ctx context.Context, now time.Time, find func(Finding)) {
	var layout snowflake.Layout
	err := d.ask(ctx, func(ctx context.Context) error {
		text, err := lease.InstalledLayout(ctx, d.JetStream, d.Prefix)
		if err == nil && text != "" {
			layout, err = snowflake.ParseLayout(text)
		}
		return err
	})
	if err != nil {
		return // the bucket is a resource, and was reported
	}
	for _, date := range forecast.OfLayout(layout, now) {
		f := Finding{What: "end of the layout", Good: date.LayoutWarning(), Warning: true}
		if date.IsSoon(now) {
			f.Err = fmt.Errorf("%w: %s", ErrRunsOut, date.LayoutWarning())
		}
		find(f)
	}
}

// maxTagsRunningOut bounds how many tags are named.
const maxTagsRunningOut = 5

// running is a tag, and the limit that it reaches first.
type running struct {
	tag   string
	use   forecast.Use
	first forecast.Date
}

// findRunningOut warns of the tags that reach a limit within a year, or names the
// first to reach one. It reports nothing if no tag is listed.
func findRunningOut(uses map[string]forecast.Use, now time.Time, find func(Finding)) {
	var all []running
	for tag, use := range uses {
		if dates := use.Dates(now); len(dates) > 0 {
			all = append(all, running{tag, use, dates[0]})
		}
	}
	slices.SortFunc(all, func(a, b running) int { return cmp.Or(a.first.At.Compare(b.first.At), cmp.Compare(a.tag, b.tag)) })
	switch {
	case len(uses) == 0:
		return
	case len(all) == 0:
		find(Finding{What: "numbers of tags", Good: "too little was measured to say when any run out"})
	case !all[0].first.IsSoon(now):
		find(Finding{What: "numbers of tags", Good: fmt.Sprintf("tag %s is the first at a limit: %s", all[0].tag, all[0].first)})
	}
	soon := 0
	for _, r := range all {
		if !r.first.IsSoon(now) {
			break
		}
		if soon++; soon <= maxTagsRunningOut {
			find(Finding{What: "tag " + r.tag, Err: fmt.Errorf("%w: %s", ErrRunsOut, r.use.Warning(r.first, now)), Warning: true})
		}
	}
	if more := soon - maxTagsRunningOut; more > 0 {
		find(Finding{What: "numbers of tags", Err: fmt.Errorf("%w: %d others reach 2^31, 2^53 or their end within a year", ErrRunsOut, more), Warning: true})
	}
}
