package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/snowflake"
)

// Forecast says when a tag's numbers run out, if it goes on as it did.
type Forecast struct {
	forecast.Use
	RunsOut []forecast.Date `json:"runs_out"` // the first one first
}

// addForecasts says when numbers run out, where there is evidence enough.
func (i *Installation) addForecasts(layout snowflake.Layout) {
	i.LayoutEnds = list(forecast.OfLayout(layout, i.Taken))
	for n := range i.Tags {
		t := &i.Tags[n]
		if dates := t.use.Dates(i.Taken); len(dates) > 0 {
			t.Forecast = &Forecast{t.use, dates}
		}
	}
}

// First is the limit that is reached first, for people.
func (f *Forecast) First() string {
	if f == nil {
		return "-"
	}
	return f.RunsOut[0].String()
}

// Ends is when the snowflake IDs of the layout end; zero if that is not known.
func (i *Installation) Ends() (at time.Time) {
	for _, date := range i.LayoutEnds {
		if date.Limit == forecast.End {
			at = date.At
		}
	}
	return at
}

// forecastTroubles are limits that are less than a year ahead.
func (i *Installation) forecastTroubles() (all []Trouble) {
	for _, date := range i.LayoutEnds {
		if date.IsSoon(i.Taken) {
			all = append(all, Trouble{Warning, "layout " + i.Layout, date.LayoutWarning()})
		}
	}
	return append(all, i.tagForecastTroubles()...)
}

func (i *Installation) tagForecastTroubles() (all []Trouble) {
	var soon []Tag
	for _, t := range i.Tags {
		if t.Forecast != nil && t.Forecast.RunsOut[0].IsSoon(i.Taken) {
			soon = append(soon, t)
		}
	}
	slices.SortFunc(soon, func(a, b Tag) int {
		return cmp.Or(a.Forecast.RunsOut[0].At.Compare(b.Forecast.RunsOut[0].At), byName(a, b))
	})
	for _, t := range soon[:min(len(soon), maxTagTroubles)] {
		all = append(all, Trouble{Warning, "tag " + t.Name, t.Forecast.Warning(t.Forecast.RunsOut[0], i.Taken)})
	}
	if more := len(soon) - maxTagTroubles; more > 0 {
		all = append(all, Trouble{Warning, "tags", fmt.Sprintf("%d others reach 2^31, 2^53 or their end within a year", more)})
	}
	return all
}
