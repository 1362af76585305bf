package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/worker"
)

// Forecasts ask when numbers run out.
type Forecasts struct {
	Takes  rights.Rights // to ask for the reports of workers; if the user lacks them, tags are not looked at
	Uses   func(context.Context) (map[string]forecast.Use, error)
	Layout func(context.Context) (text string, err error) // of the installation; empty if it has none yet
}

// forecastTags is of how many tags each worker is asked, the busiest first: who is far from a limit is not in
// danger unless it is busy.
const forecastTags = 10_000

// reportsWithin is how long reports of workers are waited for.
const reportsWithin = 3 * time.Second

// AskForecasts are those of an installation.
func AskForecasts(conn *nats.Conn, js jetstream.JetStream, prefix messages.Prefix) *Forecasts {
	return &Forecasts{
		Takes: worker.AskReportsRights(prefix),
		Uses: func(ctx context.Context) (map[string]forecast.Use, error) {
			ctx, cancel := context.WithTimeout(ctx, reportsWithin)
			defer cancel()
			reports, err := worker.AskReports(ctx, conn, prefix, forecastTags, nil)
			uses := make(map[string]forecast.Use)
			for _, r := range reports {
				for _, t := range r.Stats.Tags {
					uses[t.Tag] = uses[t.Tag].Join(t.Use)
				}
			}
			return uses, err
		},
		Layout: func(ctx context.Context) (string, error) { return lease.InstalledLayout(ctx, js, prefix) },
	}
}

// examineForecasts says which limit is reached when. What cannot be asked was reported, and of what was not measured nothing
// is said.
func (d *Doctor) examineForecasts(ctx context.Context, find func(Finding)) {
	if d.Forecasts == nil {
		return
	}
	now := time.Now()
	d.examineLayoutEnd(ctx, now, find)
	if d.allowed.check(d.Forecasts.Takes) != nil {
		return
	}
	var uses map[string]forecast.Use
	err := d.ask(ctx, func(ctx context.Context) (err error) {
		uses, err = d.Forecasts.Uses(ctx)
		return err
	})
	if err == nil && len(uses) > 0 {
		findRunningOut(uses, now, find)
	}
}

func (d *Doctor) examineLayoutEnd(ctx context.Context, now time.Time, find func(Finding)) {
	var layout snowflake.Layout
	err := d.ask(ctx, func(ctx context.Context) error {
		text, err := d.Forecasts.Layout(ctx)
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

// findRunningOut warns of the tags that reach a limit within a year. If there are none, it says which one is
// the first to reach one.
func findRunningOut(uses map[string]forecast.Use, now time.Time, find func(Finding)) {
	var all []running
	for tag, use := range uses {
		if dates := use.Dates(now); len(dates) > 0 {
			all = append(all, running{tag, use, dates[0]})
		}
	}
	slices.SortFunc(all, func(a, b running) int { return cmp.Or(a.first.At.Compare(b.first.At), cmp.Compare(a.tag, b.tag)) })
	switch {
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
