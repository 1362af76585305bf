package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/forecast"
)

// Collector collects the state of an installation. It changes nothing, and is
// not safe for concurrent use.
type Collector struct {
	Prefix messages.Prefix

	// Dial connects, with [Options]. Each collection has its own connection:
	// reports must not delay grants.
	Dial func() (*nats.Conn, jetstream.JetStream, error)

	// Self returns the report of this process, or false before it serves. May
	// be nil.
	Self func() (worker.Report, bool)

	// Role is the role whose checks are made, of package rights, or [RoleAll].
	Role rights.Duty
	Tag  string // a caller's only tag; empty: any
	// Viewer means that the user only looks: a right of the role that it lacks is
	// no problem.
	Viewer bool
	// The installation's; those the role may not open are skipped.
	Resources []kv.Resource
	Store     backend.Backend // not checked if zero

	// Accept servers that do not sync every write.
	AllowUnsynced bool
	MaxClockSkew  time.Duration    // from the server's clock; 0: any
	Layout        snowflake.Layout // that workers are given; zero if unknown

	Explain func(error) string // returns the text of an error; may be nil

	checks   []Diagnosis // of the role, the latest
	examined time.Time
}

// Bounds of a collection. Their sum is less than a viewer waits.
const (
	dialTimeout   = 2 * time.Second
	inboxWithin   = time.Second
	rightsWithin  = 900 * time.Millisecond
	readWithin    = 4 * time.Second
	partTimeout   = 3 * time.Second
	reportsWithin = 1500 * time.Millisecond
	examineEvery  = time.Minute
	maxMeasured   = 100 // enrichments whose backlog and target are looked at
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
// reconnect. The register, which a check opens, refuses a reconnect buffer.
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
	denials *natsconn.Denials

	allowed    natsconn.Permissions
	allowedErr error // of reading allowed

	mu sync.Mutex // guards Unread

	agreed  agreedValues
	reports []worker.Report
}

// agreedValues are the values in the configuration bucket.
type agreedValues struct {
	read   chan struct{} // closed when the values are here
	err    error
	layout string
	store  string

	templatesErr error
}

// hasStore reports whether a loader has agreed on a store. Without an answer it
// is true.
func (a *agreedValues) hasStore() bool { return a.err != nil || a.store != "" }

// Collect sends all requests at once and returns the judged replies. It takes
// about 300 ms, or a few seconds if some are not answered.
func (c *Collector) Collect(ctx context.Context) *Installation {
	col := &collection{by: c, agreed: agreedValues{read: make(chan struct{})}, Installation: &Installation{
		explain: c.Explain, maxSkew: c.MaxClockSkew, partial: !c.whole(),
		Prefix: string(c.Prefix), LayoutEnds: []forecast.Date{}, Unread: []Unread{},
		Processes: []worker.Report{}, Silent: []Silent{},
		Tags: []TagState{}, Templates: templates.List{}, WorkerIDs: []WorkerID{}, Others: []Other{}, Enrichments: []EnrichmentState{}, Checks: []Diagnosis{},
	}}
	var err error
	if col.conn, col.js, err = c.Dial(); err != nil {
		col.agreed.err = err
		col.miss(everything, err)
	} else {
		col.denials = natsconn.WatchDenials(col.conn)
		col.read(ctx)
		col.conn.Close()
	}
	col.merge(time.Now())
	return col.Installation
}

// whole reports whether the role sees the installation, and not only its own
// streams or requests.
func (c *Collector) whole() bool { return c.Role != rights.Caller && !hasOwnStreams(c.Role) }

func (c *collection) read(ctx context.Context) {
	c.payload, c.embedded = c.conn.MaxPayload(), c.conn.ConnectedServerName() == embedded.ServerName
	server := c.checkServer(ctx)
	if server.err != nil { // no reply would arrive
		c.Checks, c.agreed.err = append(c.Checks, server), server.err
		c.miss(everything, server.err)
		return
	}
	c.readRights(ctx)
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { c.Checks = append(append(c.Checks, server), c.examine(ctx)...) })
	if c.by.Role == rights.Caller {
		return
	}
	parts.Go(func() { _ = c.part(ctx, enrichmentsPart, enrich.ListRights(c.by.Prefix), c.readEnrichments) })
	if !c.by.whole() {
		return
	}
	parts.Go(func() {
		defer close(c.agreed.read)
		c.agreed.err = c.part(ctx, configPart, rights.ReadBucket(agreement.BucketName(c.by.Prefix)), c.readAgreed)
	})
	_ = c.part(ctx, workerIDsPart, c.listRights(), c.readWorkerIDs)
	_ = c.part(ctx, reportsPart, worker.AskReportsRights(), c.readReports)
}

// readRights reads the user's rights. Without them, each part is tried. Those in
// another JetStream domain are unknown.
func (c *collection) readRights(ctx context.Context) {
	if c.inDomain() || c.by.Role == rights.Caller {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rightsWithin)
	defer cancel()
	var allowed natsconn.Permissions
	c.allowedErr = c.query(ctx, rights.Publish(rights.AskPermissions), func(ctx context.Context) (err error) {
		allowed, err = natsconn.RequestPermissions(ctx, c.conn)
		return err
	})
	c.allowed = allowed
}

// inDomain reports whether JetStream is not the account's own.
func (c *collection) inDomain() bool { return c.js.Options().Domain+c.js.Options().APIPrefix != "" }

// query sends a request, unless the user lacks the right: the server does not
// answer a denied request. All that waits is ended by its denial, at once.
func (c *collection) query(ctx context.Context, need rights.Rights, request func(context.Context) error) error {
	if err := c.allowed.Check(need); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	ctx, explain := c.denials.When(ctx, natsconn.OwnOf(need, c.js.Options().Domain))
	err := request(ctx)
	if explained := explain(err); err != nil {
		return explained
	}
	return nil
}

// part reads a part, and records that it is unknown if that fails. The error is
// for checks that need the part.
func (c *collection) part(ctx context.Context, part string, need rights.Rights, request func(context.Context) error) error {
	err := c.query(ctx, need, request)
	shown := err
	switch {
	// Nothing has needed the bucket yet.
	case err == nil, errors.Is(err, jetstream.ErrBucketNotFound):
		return nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		shown = fmt.Errorf("no answer within %v", partTimeout)
	case errors.Is(err, nats.ErrNoResponders):
		shown = errors.New("no JetStream for this account")
	}
	c.miss(part, shown)
	return err
}

// miss records that a part is unknown. A missing right is only a note, except for
// reports: without them a status shows nothing, but a doctor's role may not need
// them.
func (c *collection) miss(part string, err error) {
	u := Unread{What: part, Why: err.Error(), Denied: natsconn.IsDenied(err)}
	switch missing := new(natsconn.RightsError); {
	case u.Denied && part == reportsPart && (c.by.Viewer || c.by.Self != nil):
		u.Denied, u.Why = false, "this NATS user may not list processes; with nats.conf, monitor may: "+u.Why
	case errors.As(err, &missing):
		u.Why = "this NATS user lacks a right: " + u.Why
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Unread = append(c.Unread, u)
}

// readAgreed reads the configuration bucket, from any replica.
func (c *collection) readAgreed(ctx context.Context) (err error) {
	read := func(key string) (value string) {
		if err == nil {
			value, _, err = agreement.Lookup(ctx, c.js, c.by.Prefix, key)
		}
		return value
	}
	c.ID, _, _ = strings.Cut(read(agreement.InstallationKey), " ")
	c.agreed.store, c.agreed.layout = read(agreement.StoreKey), read(lease.LayoutKey)
	list, outage := read(templates.Key), read(lease.OutageKey)
	if err != nil {
		return err
	}
	c.readOutage(outage)
	c.layout, _ = snowflake.ParseLayout(c.agreed.layout) // the list of worker IDs names an unreadable one
	if list != "" {
		var all templates.List
		all, c.agreed.templatesErr = templates.Decode([]byte(list))
		c.Templates = append(c.Templates, all...)
	}
	return c.agreed.templatesErr
}

// listRights are the rights to list worker IDs: with consumers, or by requests
// if the user may make these only.
func (c *collection) listRights() rights.Rights {
	byRequests := lease.ListByRequestsRights(c.by.Prefix)
	if with := lease.ListRights(c.by.Prefix); c.allowed.Check(with) == nil || c.allowed.Check(byRequests) != nil {
		return with
	}
	return byRequests
}

func (c *collection) readWorkerIDs(ctx context.Context) error {
	way := kv.ByConsumer
	if c.allowed.Check(lease.ListRights(c.by.Prefix)) != nil {
		way = kv.ByRequests
	}
	holdings, layout, err := lease.List(ctx, c.js, c.by.Prefix, way)
	for _, h := range holdings {
		c.WorkerIDs = append(c.WorkerIDs, WorkerID{
			Datacenter: h.Datacenter, Worker: h.Worker, Instance: h.Instance, Host: h.Host, Since: h.Since,
			AheadMS: h.ClockDiff.Milliseconds(), Reserved: h.Reserved, heard: h.Heartbeat,
		})
	}
	if holdings == nil && err != nil || layout.IsZero() {
		return err
	}
	lost, lostErr := lease.Waits(ctx, c.js, c.by.Prefix, way)
	c.addWaits(lost, time.Now())
	if errors.As(lostErr, &c.lostClock) {
		return err
	}
	return errors.Join(err, lostErr)
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

// readEnrichments reads the records of enrichments, their backlogs, and their
// targets, if the user may look at them.
func (c *collection) readEnrichments(ctx context.Context) error {
	all, err := enrich.List(ctx, c.js, c.by.Prefix)
	for n, s := range all {
		e := EnrichmentState{
			Source: s.Source, Target: s.Target, To: s.To, IDs: s.ID, Enricher: s.Owner, Done: s.Done,
			Written: s.Written, Stalled: time.Since(s.Written) > enrich.Stalled, Failing: s.Failing,
		}
		if n < maxMeasured {
			_ = c.part(ctx, "backlog of "+s.Source, enrich.MeasureRights(s.Source), func(ctx context.Context) error {
				err := s.Measure(ctx, c.js)
				if err == nil {
					e.Lag, e.Oldest = &s.Lag, s.Oldest
				}
				return err
			})
			e.target = c.query(ctx, rights.Publish(rights.StreamInfo(s.Target)), func(ctx context.Context) error {
				target, err := c.js.Stream(ctx, s.Target)
				if err == nil {
					err = s.CheckTarget(target.CachedInfo().Config)
				}
				return err
			})
			e.checked = !natsconn.IsDenied(e.target)
		}
		c.Enrichments = append(c.Enrichments, e)
	}
	return err
}

// merge combines all replies.
func (c *collection) merge(now time.Time) {
	c.Taken = now
	c.addSelf()
	c.addProcesses()
	c.addTags()
	if c.by.Viewer {
		c.dropDenied()
	}
	if !c.layout.IsZero() {
		c.Layout = c.layout.String()
		c.LayoutEnds = append(c.LayoutEnds, forecast.OfLayout(c.layout, now)...)
	}
	slices.SortFunc(c.Unread, func(a, b Unread) int { return cmp.Compare(a.What, b.What) })
	c.judge(c.reports, c.agreed.hasStore())
}

// dropDenied removes the checks for which the user lacks a right. An operator has
// to see whether servers sync.
func (c *collection) dropDenied() {
	all := len(c.Checks)
	c.Checks = slices.DeleteFunc(c.Checks, func(d Diagnosis) bool {
		return d.What != inbox && natsconn.IsDenied(d.err) && (d.What != Sync || !c.Known(reportsPart))
	})
	if n := all - len(c.Checks); n > 0 {
		c.Unread = append(c.Unread, Unread{checksPart, fmt.Sprintf("this NATS user lacks a right for %d of %d checks", n, all), true})
	}
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
// that did not report, if reports could be read. It drops other installations on
// the same subjects, if the ID of this installation is available.
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
	workers, loaders, snowflakes := countRoles(c.reports)
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
		if !reported[id.Instance] && c.Known(reportsPart) {
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
	all, limit := make(map[string]*TagState), lowestLimit(c.reports)
	for _, r := range c.reports {
		for _, s := range r.Stats.Tags {
			t := all[s.Tag]
			if t == nil {
				t = &TagState{Name: s.Tag, Runway: s.Runway}
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
func byRate(a, b TagState) int {
	return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Name, b.Name))
}

// byRunway sorts the tags whose buffers run out soonest first.
func byRunway(a, b TagState) int {
	return cmp.Or(cmp.Compare(a.Runway, b.Runway), byRate(a, b))
}

func byName(a, b TagState) int { return cmp.Compare(a.Name, b.Name) }
