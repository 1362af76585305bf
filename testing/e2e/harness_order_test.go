package e2e

import (
	"cmp"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
)

// reply is an answered request.
type reply struct {
	tag            string
	sent, received time.Time
	ranges         []messages.Range
}

func (r reply) first() int64 { return r.ranges[0].First }
func (r reply) last() int64  { return r.ranges[len(r.ranges)-1].Last }

// grants listens to what loaders send to workers. A reply does not say who answered,
// but its IDs do: they lie in segments that were granted to one process.
type grants struct {
	mu  sync.Mutex
	all []loads.Grant
	bad []error
}

// listen records every grant from now on.
func listen(t testing.TB, url string) *grants {
	t.Helper()
	g := &grants{}
	conn := connect(t, url)
	sub, err := conn.Subscribe(loads.GrantSubject(messages.DefaultPrefix, "*"), g.record)
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	flush(t, conn)
	return g
}

func (g *grants) record(msg *nats.Msg) {
	grant, err := loads.DecodeGrant(msg.Data)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil:
		g.bad = append(g.bad, err)
	case grant.Refused == 0:
		g.all = append(g.all, grant)
	}
}

// count is the number of grants so far.
func (g *grants) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.all)
}

// byTag returns the grants of each tag in ascending order, and fails the test for
// those that overlap.
func (g *grants) byTag(t testing.TB) map[string][]loads.Grant {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, err := range g.bad {
		t.Errorf("grant on the wire: %v", err)
	}
	tags := make(map[string][]loads.Grant)
	for _, grant := range g.all {
		tags[grant.Tag] = append(tags[grant.Tag], grant)
	}
	for tag, list := range tags {
		slices.SortFunc(list, func(a, b loads.Grant) int { return cmp.Compare(a.First, b.First) })
		for i := 1; i < len(list); i++ {
			if list[i].First < list[i-1].End {
				t.Errorf("DUPLICATE: granted segments of %s overlap: %+v and %+v", tag, list[i-1], list[i])
			}
		}
	}
	return tags
}

// holder is the process that was granted all IDs of a range, or "". A worker joins
// adjacent segments in a reply, so there may be several.
func holder(list []loads.Grant, r messages.Range) (instance string) {
	i := sort.Search(len(list), func(i int) bool { return list[i].End > r.First })
	for next := r.First; next <= r.Last; i++ {
		if i == len(list) || list[i].First > next || instance != "" && list[i].Instance != instance {
			return ""
		}
		instance, next = list[i].Instance, list[i].End
	}
	return instance
}

// served is one process and one tag.
type served struct{ instance, tag string }

// checkOrder fails the test unless each process's IDs of a tag went up, and returns how
// many requests each process answered. Two requests that overlapped in time may have been
// answered in either order; but if one was answered before the other was sent, its IDs have
// to be the lower ones.
func checkOrder(t testing.TB, g *grants, replies []reply) map[string]int {
	t.Helper()
	granted := g.byTag(t)
	groups := make(map[served][]reply)
	answered := make(map[string]int)
	for _, r := range replies {
		who := holder(granted[r.tag], r.ranges[0])
		for _, ids := range r.ranges {
			if owner := holder(granted[r.tag], ids); owner == "" || owner != who {
				t.Errorf("reply %v of %s: %v was granted to %q, its beginning to %q", r.ranges, r.tag, ids, owner, who)
			}
		}
		groups[served{who, r.tag}] = append(groups[served{who, r.tag}], r)
		answered[who]++
	}
	for who, list := range groups {
		checkAscending(t, who, list)
	}
	return answered
}

// checkAscending goes through the requests in the order in which they were sent, and
// compares each with the replies that had been received by then.
func checkAscending(t testing.TB, who served, list []reply) {
	t.Helper()
	bySent := slices.SortedFunc(slices.Values(list), func(a, b reply) int { return a.sent.Compare(b.sent) })
	byReceived := slices.SortedFunc(slices.Values(list), func(a, b reply) int { return a.received.Compare(b.received) })
	var highest reply
	for _, r := range bySent {
		for len(byReceived) > 0 && byReceived[0].received.Before(r.sent) {
			if highest.ranges == nil || byReceived[0].last() > highest.last() {
				highest = byReceived[0]
			}
			byReceived = byReceived[1:]
		}
		if highest.ranges != nil && r.first() <= highest.last() {
			t.Errorf("NOT ASCENDING: process %s gave %v of %s after %v", who.instance, r.ranges, who.tag, highest.ranges)
			return // one shows it
		}
	}
}
