package status

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/idworker/idworker/store"
)

// Order is how tags are sorted.
type Order string

// The orders.
const (
	ByRate   Order = "rate"   // the busiest first
	ByRunway Order = "runway" // those first whose memory ends first
	ByName   Order = "name"
)

// Query is what one viewer wants to see.
type Query struct {
	Search string // part of a tag's name, in any case; all if empty
	Sort   Order  // ByRate if it is no order
	Page   int    // from 1
	Size   int    // tags on a page
}

// View is an installation as one viewer wants to see it. It shares all but the tags.
type View struct {
	*Installation
	Query   Query
	Matches int   // tags that match the search
	Pages   int   // 1 or more
	Page    []Tag // of those that match
}

var orders = map[Order]func(a, b Tag) int{ByRate: byRate, ByRunway: byRunway, ByName: byName}

// View picks what a viewer wants to see. A page beyond the last one is the last one.
func (i *Installation) View(q Query) View {
	if orders[q.Sort] == nil {
		q.Sort = ByRate
	}
	q.Size = max(q.Size, 1)
	tags := i.sortedBy(q.Sort)
	if search := strings.ToLower(q.Search); search != "" {
		var found []Tag
		for _, t := range tags {
			if strings.Contains(strings.ToLower(t.Name), search) {
				found = append(found, t)
			}
		}
		tags = found
	}
	v := View{Installation: i, Matches: len(tags), Pages: max(1, (len(tags)+q.Size-1)/q.Size)}
	q.Page = min(max(q.Page, 1), v.Pages)
	from := (q.Page - 1) * q.Size
	v.Page, v.Query = tags[from:min(from+q.Size, len(tags))], q
	return v
}

// sorted is the tags of an installation in the orders that somebody wanted.
type sorted struct {
	mu  sync.Mutex
	all map[Order][]Tag
}

// sortedBy returns all tags in an order. However many ask for it, they are sorted once.
func (i *Installation) sortedBy(order Order) []Tag {
	if order == ByRate {
		return i.Tags
	}
	i.sorted.mu.Lock()
	defer i.sorted.mu.Unlock()
	if i.sorted.all[order] == nil {
		if i.sorted.all == nil {
			i.sorted.all = make(map[Order][]Tag)
		}
		i.sorted.all[order] = slices.SortedFunc(slices.Values(i.Tags), orders[order])
	}
	return i.sorted.all[order]
}

// Strict reports whether the tag is strict, and so workers keep none of its IDs in memory.
func (t Tag) Strict() bool { return t.Order == string(store.Strict) }

// Full is how full the tag's memory is, from 0 to 1.
func (t Tag) Full() float64 {
	if t.Room <= 0 {
		return 0
	}
	return min(max(float64(t.Left)/float64(t.Room), 0), 1)
}

// Answered says how many of the workers that there should be reported, and how many loaders did.
func (t Totals) Answered() (workers, loaders string) {
	workers = Count(int64(t.Workers))
	if t.WorkersExpected > t.Workers {
		workers = Count(int64(t.Workers)) + " of " + Count(int64(t.WorkersExpected))
	}
	return workers, Count(int64(t.Loaders))
}

// Worst is how bad the worst trouble is; empty if there is none.
func (i *Installation) Worst() Severity {
	if len(i.Troubles) == 0 {
		return ""
	}
	return cmp.Or(i.Troubles[0].Severity, Warning)
}
