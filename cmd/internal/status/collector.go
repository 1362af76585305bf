package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/worker"
)

// Config says what a collector asks, and how.
type Config struct {
	Prefix messages.Prefix

	// Dial connects. The connection is the collector's own: reports must not
	// delay grants, and a right that is missing is no error of another part.
	Dial func() (*nats.Conn, jetstream.JetStream, error)

	// Domain says that JetStream is that of another domain. What the user may do there is not known.
	Domain bool

	// Self, if it is set, returns the report of the process that shows the
	// status, or false until that process serves.
	Self func() (worker.Report, bool)

	// Examine has doctor look.
	Examine func(ctx context.Context) []Check
}

// The bounds of one collection.
const (
	dialTimeout   = 2 * time.Second
	partTimeout   = 3 * time.Second
	maxEnrichment = 100 // those whose source is asked what waits
)

// What a gap is called that says that processes may be there which did not report.
const (
	everything  = "all but this process"
	reportsPart = "reports of workers and loaders"
)

// Collector collects what an installation's state is. One collection at a time may be under way.
type Collector struct {
	cfg Config

	conn    *nats.Conn
	js      jetstream.JetStream
	allowed doctor.Permissions

	check examination
	heard memory
	short map[string]time.Time // since when a tag has had little in memory
}

// NewCollector makes a collector, which is to be closed.
func NewCollector(cfg Config) *Collector { return &Collector{cfg: cfg} }

// Close closes the connection. The next collection makes another one.
func (c *Collector) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// Stop is Close for good. It waits until doctor does not look any more.
func (c *Collector) Stop() {
	c.check.stop()
	c.Close()
}

// collection is one collection under way. Its parts fill in different fields.
type collection struct {
	*Collector
	mu     sync.Mutex // guards unread
	unread []Unread

	reports     []worker.Report
	workerIDs   workerIDs
	templates   templates.List
	enrichments []Enrichment
	checks      []Check
}

// Collect asks all questions, and returns what is known. It takes some 300 ms, and some seconds if somebody does not
// answer.
func (c *Collector) Collect(ctx context.Context) *Installation {
	col := &collection{Collector: c}
	if err := c.connect(ctx); err != nil {
		col.miss(everything, err.Error())
	} else {
		col.askAll(ctx)
	}
	col.addSelf()
	return col.installation(time.Now())
}

// connect makes sure that there is a connection, and finds out what its user may do.
func (c *Collector) connect(ctx context.Context) (err error) {
	if c.conn != nil && c.conn.IsConnected() {
		return nil
	}
	c.Close()
	if c.conn, c.js, err = c.cfg.Dial(); err != nil {
		c.conn = nil
		return err
	}
	c.allowed = doctor.Permissions{}
	if c.cfg.Domain {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if allowed, err := doctor.AskPermissions(ctx, c.conn); err == nil {
		c.allowed = allowed
	}
	return nil
}

// Options are those with which Dial is to connect. A connection that is lost is not waited for: the next
// collection says so, and makes another. The register, which doctor opens, refuses a reconnect buffer.
func Options() []nats.Option {
	return []nats.Option{
		nats.Name("idworker status"), nats.NoReconnect(), nats.ReconnectBufSize(-1), nats.Timeout(dialTimeout),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // a question without an answer says it
	}
}

// askAll asks all questions but doctor's at once. Who should report is known before reports are asked for.
func (c *collection) askAll(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { c.askTemplates(ctx) })
	parts.Go(func() { c.askEnrichments(ctx) })
	parts.Go(func() { c.checks = c.check.get(c.cfg.Examine) })
	c.askWorkerIDs(ctx)
	c.askReports(ctx)
	parts.Wait()
}

// part asks one question, unless the user lacks the right to.
func (c *collection) part(ctx context.Context, what string, need rights.Rights, ask func(context.Context) error) {
	if err := c.allowed.Check(need); err != nil {
		c.miss(what, "this NATS user lacks a right for it: "+err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	err := ask(ctx)
	why := ""
	if last := c.conn.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
		why = "; the server has refused this NATS user a right: " + last.Error()
	}
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		c.miss(what, fmt.Sprintf("no answer within %v", partTimeout)+why)
	case errors.Is(err, nats.ErrNoResponders):
		c.miss(what, "JetStream is not there, or has no leader")
	default:
		c.miss(what, err.Error()+why)
	}
}

// miss records that something is not known.
func (c *collection) miss(what, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unread = append(c.unread, Unread{what, why})
}

// askReports asks all processes. A worker that does not answer is waited for until the time is up.
func (c *collection) askReports(ctx context.Context) {
	expected := c.expected()
	c.part(ctx, reportsPart, worker.AskReportsRights(), func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, partTimeout/2)
		defer cancel()
		c.reports, err = worker.AskReports(ctx, c.conn, c.cfg.Prefix, expected)
		return err
	})
}

// expected are the workers that hold a worker ID, and so should report.
func (c *collection) expected() (instances []string) {
	for _, id := range c.workerIDs.all {
		if id.Instance != "" {
			instances = append(instances, id.Instance)
		}
	}
	slices.Sort(instances)
	return slices.Compact(instances)
}

// addSelf puts the process that looks among those that reported: as it is now, and even without NATS.
func (c *collection) addSelf() {
	if c.cfg.Self == nil {
		return
	}
	self, ok := c.cfg.Self()
	if !ok {
		return
	}
	c.reports = slices.DeleteFunc(c.reports, func(r worker.Report) bool { return r.Instance == self.Instance })
	c.reports = append(c.reports, self)
	slices.SortFunc(c.reports, func(a, b worker.Report) int { return strings.Compare(a.Instance, b.Instance) })
}
