package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/worker"
)

// Collector collects the state of an installation. It is not safe for
// concurrent use.
type Collector struct {
	Prefix messages.Prefix

	// Dial connects, with [Options]. Each collection has its own connection:
	// reports must not delay grants, and a missing right must not look like an
	// error of another part.
	Dial func() (*nats.Conn, jetstream.JetStream, error)
	// JetStream is in another domain, whose rights are unknown.
	Domain bool

	// Self returns the report of this process, or false before it serves. May
	// be nil.
	Self func() (worker.Report, bool)

	// Doctor does the other checks. It needs no connection.
	Doctor doctor.Doctor

	checks   []doctor.Finding // the latest findings of Doctor
	examined time.Time
}

// Bounds of a collection. Their sum is less than a viewer waits.
const (
	dialTimeout   = 2 * time.Second
	rightsWithin  = time.Second
	partTimeout   = 2 * time.Second
	reportsWithin = 1500 * time.Millisecond
	examineWithin = 4 * time.Second // a dozen requests in sequence
	examineEvery  = time.Minute
	maxMeasured   = 100 // enrichments whose backlog is counted
)

// Names of the parts, for [Unread].
const (
	everything      = "all but this process"
	reportsPart     = "reports of workers and loaders"
	configPart      = "templates"
	workerIDsPart   = "worker IDs"
	checksPart      = "checks of doctor"
	enrichmentsPart = "enrichments"
)

// Options returns the options of a connection for [Collector.Dial]. It does not
// reconnect. The register, which doctor opens, refuses a reconnect buffer.
func Options() []nats.Option {
	return []nats.Option{
		nats.Name("idworker status"), nats.NoReconnect(), nats.ReconnectBufSize(-1), nats.Timeout(dialTimeout),
		// A collection handles errors itself.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
}

// collection is a collection in progress. Its parts set different fields.
type collection struct {
	*Installation
	by *Collector

	conn    *nats.Conn
	js      jetstream.JetStream
	allowed doctor.Permissions

	mu     sync.Mutex         // guards Unread and denied
	denied []rights.Violation // violations of the user's permissions

	reports []worker.Report
	layout  snowflake.Layout
}

// Collect sends all requests at once and returns the replies. It takes about
// 300 ms, or a few seconds if some are not answered.
func (c *Collector) Collect(ctx context.Context) *Installation {
	col := &collection{by: c, Installation: &Installation{
		Prefix: string(c.Prefix), LayoutEnds: []forecast.Date{}, Unread: []Unread{},
		Processes: []worker.Report{}, Silent: []Silent{},
		Tags: []Tag{}, Templates: templates.List{}, WorkerIDs: []WorkerID{}, Others: []Other{}, store: true, Enrichments: []Enrichment{}, Checks: []doctor.Finding{},
	}}
	var err error
	if col.conn, col.js, err = c.Dial(); err != nil {
		col.miss(everything, err)
	} else {
		col.conn.SetErrorHandler(col.handleError)
		col.queryAll(ctx)
		col.conn.Close()
	}
	col.merge(time.Now())
	return col.Installation
}

func (c *collection) queryAll(ctx context.Context) {
	if !c.by.Domain {
		ctx, cancel := context.WithTimeout(ctx, rightsWithin)
		// Without a reply, each part is tried.
		c.allowed, _ = doctor.RequestPermissions(ctx, c.conn)
		cancel()
	}
	var parts sync.WaitGroup
	parts.Go(func() { c.query(ctx, configPart, rights.ReadBucket(agreement.BucketName(c.by.Prefix)), c.readConfig) })
	parts.Go(func() { c.query(ctx, enrichmentsPart, enrich.ListRights(c.by.Prefix), c.readEnrichments) })
	parts.Go(func() { c.Checks = append(c.Checks, c.by.check(ctx)...) })
	c.query(ctx, workerIDsPart, lease.ListRights(c.by.Prefix), c.readWorkerIDs)
	c.query(ctx, reportsPart, worker.AskReportsRights(), c.readReports)
	parts.Wait()
}

// query sends a request, unless the user lacks the right: the server would not
// answer.
func (c *collection) query(ctx context.Context, part string, need rights.Rights, question func(context.Context) error) {
	if err := c.allowed.Check(need); err != nil {
		c.miss(part, err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	err := question(ctx)
	switch {
	// Nothing has needed the bucket yet.
	case err == nil, errors.Is(err, jetstream.ErrBucketNotFound):
		return
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		err = fmt.Errorf("no answer within %v", partTimeout)
	case errors.Is(err, nats.ErrNoResponders):
		err = errors.New("JetStream is unavailable or has no leader")
	}
	c.miss(part, cmp.Or(c.denial(need), err))
}

// handleError records a denied request, which is not answered.
func (c *collection) handleError(_ *nats.Conn, _ *nats.Subscription, err error) {
	if v, ok := rights.ViolationOf(err); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.denied = append(c.denied, v)
	}
}

// denial returns the error of a part whose requests, or their replies, the
// server denied, or nil.
func (c *collection) denial(need rights.Rights) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	missing := &doctor.MissingError{}
	for _, v := range c.denied {
		if v.Subscribe {
			return errors.New("no reply can arrive: the user may not subscribe " + v.Subject)
		}
		for _, pattern := range need.Publish {
			if rights.Covers(pattern, v.Subject) && !slices.Contains(missing.Missing.Publish, pattern) {
				missing.Missing.Publish = append(missing.Missing.Publish, pattern)
			}
		}
	}
	if len(missing.Missing.Publish) == 0 {
		return nil
	}
	return missing
}

// miss records that a part is unknown. A missing right is only a note, except
// for reports, which are needed to judge anything.
func (c *collection) miss(part string, err error) {
	u := Unread{What: part, Why: err.Error()}
	if missing := new(doctor.MissingError); errors.As(err, &missing) {
		u.Denied, u.Why = true, "this NATS user lacks a right: "+u.Why
		if part == reportsPart {
			u.Denied, u.Why = false, "this NATS user may not list processes; with nats.conf, admin may: "+err.Error()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Unread = append(c.Unread, u)
}

// readConfig reads the installation's ID and the templates, from any replica.
func (c *collection) readConfig(ctx context.Context) error {
	id, err := agreement.LookupID(ctx, c.js, c.by.Prefix)
	if err != nil {
		return err
	}
	c.ID = id
	_, found, err := agreement.Lookup(ctx, c.js, c.by.Prefix, agreement.StoreKey)
	if err != nil {
		return err
	}
	c.store = found
	value, found, err := agreement.Lookup(ctx, c.js, c.by.Prefix, templates.Key)
	if err != nil || !found {
		return err
	}
	list, err := templates.Decode([]byte(value))
	c.Templates = append(c.Templates, list...)
	return err
}

func (c *collection) readWorkerIDs(ctx context.Context) error {
	holdings, layout, err := lease.List(ctx, c.js, c.by.Prefix)
	c.layout = layout
	for _, h := range holdings {
		c.WorkerIDs = append(c.WorkerIDs, WorkerID{
			Datacenter: h.Datacenter, Worker: h.Worker, Instance: h.Instance, Host: h.Host, Since: h.Since,
			AheadMS: h.ClockDiff.Milliseconds(), Reserved: h.Reserved, heard: h.Heartbeat,
		})
	}
	return err
}

// readReports requests reports of all processes, and waits for the holders of
// worker IDs.
func (c *collection) readReports(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, reportsWithin)
	defer cancel()
	var expected []string
	for _, id := range c.Held() {
		expected = append(expected, id.Instance)
	}
	c.reports, err = worker.AskReports(ctx, c.conn, c.by.Prefix, expected)
	return err
}

func (c *collection) readEnrichments(ctx context.Context) error {
	all, err := enrich.List(ctx, c.js, c.by.Prefix)
	for n, s := range all {
		e := Enrichment{
			Source: s.Source, Target: s.Target, To: s.To, IDs: s.ID, Enricher: s.Owner, Done: s.Done,
			Written: s.Written, Stalled: time.Since(s.Written) > enrich.Stalled, Failing: s.Failing,
		}
		if n < maxMeasured {
			c.query(ctx, "backlog of "+s.Source, enrich.MeasureRights(s.Source), func(ctx context.Context) error {
				err := s.Measure(ctx, c.js)
				if err == nil {
					e.Lag, e.Oldest = &s.Lag, s.Oldest
				}
				return err
			})
		}
		c.Enrichments = append(c.Enrichments, e)
	}
	return err
}

// check runs doctor, if it has not run lately, and returns the findings.
func (c *Collector) check(ctx context.Context) []doctor.Finding {
	if time.Since(c.examined) > examineEvery {
		ctx, cancel := context.WithTimeout(ctx, examineWithin)
		defer cancel()
		c.checks, c.examined = c.examine(ctx), time.Now()
	}
	return c.checks
}

// dropDenied removes the checks for which the user lacks a right. A process, or
// an operator, has to see whether servers sync.
func (c *collection) dropDenied() {
	all := len(c.Checks)
	c.Checks = slices.DeleteFunc(c.Checks, func(f doctor.Finding) bool {
		return f.Denied() && (f.What != doctor.Sync || !c.Known(reportsPart))
	})
	if n := all - len(c.Checks); n > 0 {
		c.Unread = append(c.Unread, Unread{checksPart, fmt.Sprintf("this NATS user lacks a right for %d of %d checks", n, all), true})
	}
}

// examine returns the findings of doctor. It has its own connection, because of
// the errors of denied requests.
func (c *Collector) examine(ctx context.Context) (all []doctor.Finding) {
	add := func(f doctor.Finding) { all = append(all, f) }
	conn, js, err := c.Dial()
	if err != nil {
		add(doctor.Finding{Severity: doctor.Warning, What: "doctor", Text: c.Doctor.Explain(err)})
		return all
	}
	defer conn.Close()
	look := c.Doctor
	look.Conn, look.JetStream, look.Prefix, look.SkipProcesses = conn, js, c.Prefix, true
	look.Examine(ctx, func(f doctor.Finding) {
		if ctx.Err() == nil { // later findings are only timeouts
			add(f)
		}
	})
	if err := ctx.Err(); err != nil {
		add(doctor.Finding{Severity: doctor.Warning, What: "doctor", Text: "some checks were not answered: " + err.Error()})
	}
	return all
}

// merge combines all replies.
func (c *collection) merge(now time.Time) {
	c.Taken = now
	c.addSelf()
	c.addProcesses()
	c.addTags()
	c.dropDenied()
	if !c.layout.IsZero() {
		c.Layout = c.layout.String()
		c.LayoutEnds = append(c.LayoutEnds, forecast.OfLayout(c.layout, now)...)
	}
	slices.SortFunc(c.Unread, func(a, b Unread) int { return cmp.Compare(a.What, b.What) })
	c.judge(c.reports)
}

// addSelf replaces the report of this process by its current state, which is
// available without NATS.
func (c *collection) addSelf() {
	if c.by.Self == nil {
		return
	}
	self, ok := c.by.Self()
	if !ok {
		return
	}
	c.ID = cmp.Or(self.Stats.Installation, c.ID)
	c.reports = slices.DeleteFunc(c.reports, func(r worker.Report) bool { return r.Instance == self.Instance })
	c.reports = append(c.reports, self)
	slices.SortFunc(c.reports, func(a, b worker.Report) int { return cmp.Compare(a.Instance, b.Instance) })
}

// addProcesses adds the reports, without tags, and the holders of worker IDs
// that did not report. It drops other installations on the same subjects, if
// the ID of this installation is available.
func (c *collection) addProcesses() {
	var own, others []worker.Report
	for _, r := range c.reports {
		if c.ID == "" || r.Stats.Installation == c.ID {
			own = append(own, r)
		} else {
			others = append(others, r)
		}
	}
	c.reports = own
	c.addOthers(others)
	workers, loaders, snowflakes := doctor.Count(c.reports)
	c.Totals.Workers, c.Totals.Loaders = workers+snowflakes, loaders
	reported := make(map[string]bool)
	for _, r := range c.reports {
		reported[r.Instance] = true
		c.ID = cmp.Or(c.ID, r.Stats.Installation)
		c.Totals.TagsActive = max(c.Totals.TagsActive, r.Stats.Active)
		c.Totals.TagsUnlisted = max(c.Totals.TagsUnlisted, r.Stats.Active-len(r.Stats.Tags))
		c.Totals.TagsCut = max(c.Totals.TagsCut, r.Stats.Cut)
		r.Stats.Tags = nil
		c.Processes = append(c.Processes, r)
	}
	for _, id := range c.Held() {
		if !reported[id.Instance] {
			reported[id.Instance] = true // only once
			c.Silent = append(c.Silent, Silent{id.Instance, id.Host, id.heard})
		}
	}
	c.Totals.WorkersExpected = c.Totals.Workers + len(c.Silent)
}

// addOthers counts the processes of other installations.
func (c *collection) addOthers(reports []worker.Report) {
	type key struct {
		installation string
		datacenter   int64
	}
	found := make(map[key]*Other)
	for _, r := range reports {
		k := key{r.Stats.Installation, -1}
		if r.Datacenter != nil {
			k.datacenter = *r.Datacenter
		}
		o := found[k]
		if o == nil {
			o = &Other{ID: r.Stats.Installation, Datacenter: r.Datacenter}
			found[k] = o
		}
		o.Processes++
		o.Conflict = o.Conflict || slices.ContainsFunc(c.reports, func(own worker.Report) bool { return own.ConflictsWith(&r) })
	}
	byKey := func(a, b key) int {
		return cmp.Or(cmp.Compare(a.installation, b.installation), cmp.Compare(a.datacenter, b.datacenter))
	}
	for _, k := range slices.SortedFunc(maps.Keys(found), byKey) {
		c.Others = append(c.Others, *found[k])
	}
}

// addTags combines the tags of all workers, the busiest first.
func (c *collection) addTags() {
	all, limit := make(map[string]*Tag), doctor.Limit(c.reports)
	for _, r := range c.reports {
		for _, s := range r.Stats.Tags {
			t := all[s.Tag]
			if t == nil {
				t = &Tag{Name: s.Tag, Runway: s.Runway}
				all[s.Tag] = t
			}
			t.Order = s.Order
			t.Workers++
			t.Step = max(t.Step, s.Step)
			t.Left += s.Left
			t.Room += 2 * s.Step
			t.Rate += s.Rate
			t.Runway = min(t.Runway, s.Runway)
			t.Parked += s.Parked
			s.Use.Limit = limit
			t.use = t.use.Join(s.Use)
		}
	}
	for _, t := range all {
		if dates := t.use.Dates(c.Taken); len(dates) > 0 {
			t.Forecast = &Forecast{t.use, dates}
		}
		c.Tags = append(c.Tags, *t)
		c.Totals.Rate += t.Rate
	}
	c.Totals.TagsActive = max(c.Totals.TagsActive, len(all))
	slices.SortFunc(c.Tags, byRate)
}

// byRate sorts the busiest first.
func byRate(a, b Tag) int {
	return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Name, b.Name))
}

// byRunway sorts the tags whose buffers run out soonest first.
func byRunway(a, b Tag) int {
	return cmp.Or(cmp.Compare(a.Runway, b.Runway), byRate(a, b))
}

func byName(a, b Tag) int { return cmp.Compare(a.Name, b.Name) }
