package statuspage

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/idworker/idworker/cmd/internal/status"
	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/worker"
)

// content is what the template gets.
type content struct {
	status.View
	Now time.Time
}

// functions are what the template calls.
var functions = template.FuncMap{
	"duration": status.Duration,
	"rate":     status.Rate,
	"count":    status.Count,
	"countInt": func(n int) string { return status.Count(int64(n)) },
	"countBig": func(n uint64) string { return status.Count(int64(min(n, math.MaxInt64))) },
	"percent":  func(of float64) string { return fmt.Sprintf("%.0f %%", 100*of) },
	"number":   func(of float64) string { return strconv.FormatFloat(of, 'f', 3, 64) },
	"level":    level,
	"signed":   func(ms int64) string { return fmt.Sprintf("%+d ms", ms) },
}

// Ago is how long ago something was, for people.
func (c content) Ago(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return c.Age(t) + " ago"
}

// Age is how long something has been so, for people.
func (c content) Age(since time.Time) string {
	return status.Duration(max(c.Taken.Sub(since).Seconds(), 0))
}

// Until is how far ahead something is, for people.
func (c content) Until(t time.Time) string {
	switch ahead := t.Sub(c.Taken).Seconds(); {
	case t.IsZero():
		return "–"
	case ahead < 0:
		return "over"
	default:
		return "for " + status.Duration(ahead)
	}
}

// Clock is a time of day.
func (c content) Clock() string { return c.Taken.UTC().Format("2006-01-02 15:04:05 UTC") }

// First are the tags that run out first.
func (c content) First() []status.Tag { return c.EndFirst(5) }

// Workers and Loaders are the processes of each role; one may be both.
func (c content) Workers() []worker.Report {
	return c.only((*worker.Report).Answers)
}

// Loaders are those that reserve segments.
func (c content) Loaders() []worker.Report {
	return c.only((*worker.Report).Loads)
}

func (c content) only(is func(*worker.Report) bool) (some []worker.Report) {
	for _, r := range c.Processes {
		if is(&r) {
			some = append(some, r)
		}
	}
	return some
}

// Held are the worker IDs that somebody holds.
func (c content) Held() (held []status.WorkerID) {
	for _, id := range c.WorkerIDs {
		if id.Instance != "" {
			held = append(held, id)
		}
	}
	return held
}

// LastDay is that of the layout; empty if it is not known.
func (c content) LastDay() string {
	if at := c.Ends(); !at.IsZero() {
		return forecast.Day(at)
	}
	return ""
}

// Free is how many worker IDs were used and are not now.
func (c content) Free() int { return len(c.WorkerIDs) - len(c.Held()) }

// Summary is the state in one line.
func (c content) Summary() string {
	errors, warnings := 0, 0
	for _, t := range c.Troubles {
		if t.Severity == status.Error {
			errors++
		} else {
			warnings++
		}
	}
	switch {
	case errors == 0 && warnings == 0:
		return "All is well"
	case errors == 0:
		return plural(warnings, "warning")
	case warnings == 0:
		return plural(errors, "error")
	}
	return plural(errors, "error") + ", " + plural(warnings, "warning")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// Link is the address of another page of the same tags, or of the same page in another order.
func (c content) Link(page int, order status.Order) string {
	form := url.Values{}
	if c.Query.Search != "" {
		form.Set("q", c.Query.Search)
	}
	if order != status.ByRate {
		form.Set("sort", string(order))
	}
	if page > 1 {
		form.Set("page", strconv.Itoa(page))
	}
	if len(form) == 0 {
		return "/"
	}
	return "/?" + form.Encode()
}

// Sorts are the orders there are.
func (c content) Sorts() []sort {
	return []sort{{status.ByRate, "busiest first"}, {status.ByRunway, "memory ends first"}, {status.ByName, "by name"}}
}

type sort struct {
	Order status.Order
	Name  string
}

// Previous and Next are the numbers of the pages beside this one, or 0.
func (c content) Previous() int { return c.Query.Page - 1 }

// Next is the number of the next page, or 0.
func (c content) Next() int {
	if c.Query.Page < c.Pages {
		return c.Query.Page + 1
	}
	return 0
}

// level says how well a tag is doing, as a class of the style sheet.
func level(t status.Tag) string {
	return string(cmp.Or(t.Level(), "good"))
}
