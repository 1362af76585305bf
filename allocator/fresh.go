package allocator

import (
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"
)

// templateShare is the part of Config.MaxFirstUses that one template may have.
const templateShare = 8

// freshTags counts the tags that came into being by Config.FirstUse and were never granted.
type freshTags struct {
	all *atomic.Int64
	of  *xsync.Map[string, *freshCount] // by Config.Template
}

// freshCount is how many there are of one template.
type freshCount struct {
	n   atomic.Int64
	all *atomic.Int64
}

func newFreshTags() freshTags {
	return freshTags{new(atomic.Int64), xsync.NewMap[string, *freshCount]()}
}

// find returns the count of a template, and whether there may be one more.
func (f freshTags) find(template string, cfg Config) (count *freshCount, hasRoom bool) {
	count, found := f.of.Load(template)
	if !found {
		count, _ = f.of.LoadOrStore(template, &freshCount{all: f.all})
	}
	return count, f.all.Load() < int64(cfg.MaxFirstUses) && count.n.Load() < int64(cfg.maxFirstUsesEach)
}

func (c *freshCount) add(n int64) {
	c.n.Add(n)
	c.all.Add(n)
}

// settle ends that the tag is fresh. It needs mu.
func (t *tag) settle() {
	if t.fresh != nil {
		t.fresh.add(-1)
		t.fresh = nil
	}
}
