package status

import (
	"cmp"
	"slices"
	"time"

	"github.com/idworker/idworker/worker"
)

// installation makes one picture of all the answers.
func (c *collection) installation(now time.Time) *Installation {
	i := &Installation{
		Taken: now, Prefix: string(c.cfg.Prefix),
		Unread: list(c.unread), WorkerIDs: list(c.workerIDs.all), Enrichments: list(c.enrichments), Checks: list(c.checks),
		Processes: []worker.Report{}, Silent: []Silent{}, Templates: []Template{},
	}
	if !c.workerIDs.layout.IsZero() {
		i.Layout = c.workerIDs.layout.String()
	}
	i.addTags(c.reports)
	i.addForecasts(c.workerIDs.layout)
	for _, t := range c.templates {
		i.Templates = append(i.Templates, Template{t.Pattern, t.Step, string(t.Order), t.MaxTags})
	}
	i.addProcesses(c.reports)
	c.addSilent(i)
	i.Totals.WorkersExpected = i.Totals.Workers
	for _, s := range i.Silent {
		if !s.Left {
			i.Totals.WorkersExpected++
		}
	}
	slices.SortFunc(i.Unread, func(a, b Unread) int { return cmp.Compare(a.What, b.What) })
	c.rememberShort(i)
	i.Judge()
	return i
}

// list is a list that is [] in JSON if it is empty.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// addProcesses takes in the reports, but for the tags.
func (i *Installation) addProcesses(reports []worker.Report) {
	for _, r := range reports {
		i.Totals.TagsActive = max(i.Totals.TagsActive, r.Stats.Active)
		i.Totals.TagsUnlisted = max(i.Totals.TagsUnlisted, r.Stats.Active-len(r.Stats.Tags))
		if r.Answers() {
			i.Totals.Workers++
		}
		if r.Loads() {
			i.Totals.Loaders++
		}
		i.ID = cmp.Or(i.ID, r.Stats.Installation)
		r.Stats.Tags = nil
		i.Processes = append(i.Processes, r)
	}
}

// addTags makes one list of the tags of all workers, the busiest first.
func (i *Installation) addTags(reports []worker.Report) {
	all := make(map[string]*Tag)
	for _, r := range reports {
		for _, t := range r.Stats.Tags {
			if all[t.Tag] == nil {
				all[t.Tag] = &Tag{Name: t.Tag}
			}
			all[t.Tag].add(t)
		}
	}
	i.Tags = make([]Tag, 0, len(all))
	for _, t := range all {
		i.Tags = append(i.Tags, *t)
		i.Totals.Rate += t.Rate
	}
	i.Totals.TagsActive = len(all)
	slices.SortFunc(i.Tags, byRate)
}

// add takes in what one worker told.
func (t *Tag) add(s worker.TagStats) {
	if t.Workers == 0 || s.Runway < t.Runway {
		t.Runway = s.Runway
	}
	t.Order = s.Order
	t.Workers++
	t.Step = max(t.Step, s.Step)
	t.Left += s.Left
	t.Room += 2 * s.Step
	t.Rate += s.Rate
	t.Parked += s.Parked
	t.use = t.use.Join(s.Use)
}

// byRate puts the busiest first.
func byRate(a, b Tag) int {
	return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Name, b.Name))
}

// byRunway puts those first whose memory ends first.
func byRunway(a, b Tag) int {
	return cmp.Or(cmp.Compare(a.Runway, b.Runway), byRate(a, b))
}

func byName(a, b Tag) int { return cmp.Compare(a.Name, b.Name) }

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// addSilent lists the holders of worker IDs that did not report. A process without one that
// reported before, such as a loader, may have stopped on purpose: it is listed for a while.
func (c *collection) addSilent(i *Installation) {
	if c.heard == nil {
		c.heard = make(memory)
	}
	silent := make(map[string]Silent)
	for _, id := range c.workerIDs.all {
		heard := c.workerIDs.heard[id.Instance]
		if at := c.heard[id.Instance].at; at.After(heard) {
			heard = at
		}
		if s, found := silent[id.Instance]; id.Instance != "" && (!found || s.Heard.Before(heard)) {
			silent[id.Instance] = Silent{Instance: id.Instance, Host: id.Host, Heard: heard}
		}
	}
	for instance, r := range c.heard {
		if _, found := silent[instance]; !found && r.unleased {
			silent[instance] = Silent{Instance: instance, Host: r.host, Heard: r.at, Left: true}
		}
	}
	for _, r := range c.reports {
		delete(silent, r.Instance)
		c.heard[r.Instance] = remembered{r.Host, r.Stats.WorkerID == nil, i.Taken}
	}
	for instance, r := range c.heard {
		if i.Taken.Sub(r.at) > remembersFor {
			delete(c.heard, instance)
		}
	}
	for _, s := range silent {
		if !s.Left || i.Taken.Sub(s.Heard) < remembersFor {
			i.Silent = append(i.Silent, s)
		}
	}
	slices.SortFunc(i.Silent, func(a, b Silent) int { return cmp.Compare(a.Instance, b.Instance) })
}
