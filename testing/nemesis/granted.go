package nemesis

import (
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/worker/loadmsg"
)

// Granted are the segments that loaders sent to workers, by tag. A reply does
// not name the worker, but its IDs identify it.
type Granted struct {
	mu    sync.Mutex
	tags  map[string][]grantedRange // they ascend
	count int64                     // of grants, each counted once
}

// grantedRange is a range that was granted to a worker. Ranges of a worker that
// adjoin each other are joined.
type grantedRange struct {
	first, end int64
	instance   string
}

// Add adds a grant, which may be a duplicate, and returns an error if it
// overlaps with another grant.
func (g *Granted) Add(grant loadmsg.Grant) error {
	if grant.Refused != 0 || grant.First == grant.End { // no IDs are granted
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tags == nil {
		g.tags = make(map[string][]grantedRange)
	}
	s := grantedRange{grant.First, grant.End, grant.Instance}
	list := g.tags[grant.Tag]
	i := sort.Search(len(list), func(i int) bool { return list[i].end > s.first })
	if i < len(list) && list[i].first < s.end {
		if list[i].instance == s.instance && list[i].first <= s.first && s.end <= list[i].end {
			return nil // read at another server before
		}
		return fmt.Errorf("DUPLICATE: [%d, %d) of %s granted to %s, and [%d, %d) to %s",
			s.first, s.end, grant.Tag, s.instance, list[i].first, list[i].end, list[i].instance)
	}
	g.tags[grant.Tag] = join(list, i, s)
	g.count++
	return nil
}

// Count is the number of grants.
func (g *Granted) Count() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// join inserts a segment at a place, and joins it with those beside it.
func join(list []grantedRange, i int, s grantedRange) []grantedRange {
	if i > 0 && list[i-1].end == s.first && list[i-1].instance == s.instance {
		list[i-1].end = s.end
		if i < len(list) && list[i].first == s.end && list[i].instance == s.instance {
			list[i-1].end = list[i].end
			list = slices.Delete(list, i, i+1)
		}
		return list
	}
	if i < len(list) && list[i].first == s.end && list[i].instance == s.instance {
		list[i].first = s.first
		return list
	}
	return slices.Insert(list, i, s)
}

// Holder is the worker that was granted all IDs of an answer. It is empty if a
// grant is missing, and the error reports IDs of two workers.
func (g *Granted) Holder(tag string, ranges []messages.Range) (instance string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	list, unknown := g.tags[tag], false
	for _, r := range ranges {
		for next := r.First; next <= r.Last; {
			i := sort.Search(len(list), func(i int) bool { return list[i].end > next })
			if i == len(list) || list[i].first > next {
				unknown = true
				break
			}
			if instance != "" && list[i].instance != instance {
				return "", fmt.Errorf("GRANTED TO TWO: %v of %s has IDs of %s and of %s", ranges, tag, instance, list[i].instance)
			}
			instance, next = list[i].instance, list[i].end
		}
	}
	if unknown {
		return "", nil
	}
	return instance, nil
}
