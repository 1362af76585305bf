package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/internal/inbox"
	"github.com/idworker/idworker/internal/oneline"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/worker/loadmsg"
)

// The names under which processes appear in the NATS services API.
const (
	// Each process, of any role.
	ProcessServiceName   = "idworker-process"
	ServiceName          = "idworker"           // requests for segments
	snowflakeServiceName = "idworker-snowflake" // while there is a worker ID
)

// service describes a micro service of the process. The data in STATS is the
// process's [Report] or, of the services that get requests, the [Stats] in it.
func (p *Process) service(name string) micro.Config {
	cfg := micro.Config{
		Name:        name,
		Version:     p.cfg.Version,
		Description: "unique 64-bit IDs",
		QueueGroup:  p.cfg.Prefix.QueueGroup(),
		Metadata: map[string]string{
			"instance":     p.self.Instance,
			"installation": p.self.Installation,
			"created":      p.self.Created.UTC().Format(time.RFC3339Nano),
			"host":         p.self.Host,
			"role":         string(p.self.Role),
			"store":        p.cfg.StoreName,
			"prefix":       string(p.cfg.Prefix),
		},
		StatsHandler: func(*micro.Endpoint) any {
			report := p.reports.latest(p)
			report.Claims = p.claims() // as of now
			if name == ProcessServiceName {
				return report
			}
			return report.Stats
		},
	}
	if p.cfg.Role.Answers() {
		cfg.Metadata["layout"] = p.self.Layout.String()
		cfg.Metadata["datacenter"] = strconv.FormatInt(p.self.Datacenter, 10)
	}
	return cfg
}

// processSubject is the subject of the service's endpoint. If no loader is
// connected, a server returns "no responders" for that of loaders, which proves
// their absence; see [LoaderListens].
func processSubject(p messages.Prefix, role Role) string {
	if role.Loads() {
		return loadmsg.LoadersSubject(p)
	}
	return string(p) + ".process.worker"
}

// register registers the service of the process on its control connection. It
// answers PING, INFO and STATS even while the process is in no queue group.
func (p *Process) register() (micro.Service, error) {
	cfg := p.service(ProcessServiceName)
	cfg.QueueGroup, cfg.QueueGroupDisabled = "", true
	answer := micro.HandlerFunc(func(req micro.Request) {
		if data := req.Data(); p.loader != nil && len(data) > 0 {
			p.asker.receiveUnasked(data)
		} else {
			_ = req.Respond([]byte(p.self.Instance))
		}
	})
	info := endpointInfo{
		"process", processSubject(p.cfg.Prefix, p.cfg.Role),
		"empty", "the name of the process, new at each start", protocolPage + "#discovery",
	}
	service, err := registerService(p.cfg.Control, cfg, info, answer)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", ProcessServiceName, err)
	}
	return service, nil
}

// reportCache keeps a report for four times as long as making it took. So a
// process spends at most a fifth of a processor on reports, at any request
// rate.
type reportCache struct {
	mu     sync.Mutex
	report Report
	until  time.Time
}

const reportShare = 4

func (c *reportCache) latest(p *Process) Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	if began := time.Now(); began.After(c.until) {
		c.report = p.Report(MaxReportTags)
		c.report.fit()
		c.until = time.Now().Add(reportShare * time.Since(began))
	}
	return c.report
}

// The bounds of a request to all processes.
const (
	answersWithin = 3 * time.Second
	answersQuiet  = 250 * time.Millisecond // after the latest answer

	maxAnswer      = 512 << 10 // bytes
	maxAnswerBytes = 64 << 20  // of all answers
	maxProcesses   = 1000
	maxNameLen     = agreement.MaxIDLen // of an instance or an installation
	maxText        = 1000               // bytes of any other text
)

// ErrNoReports means that no process answered. It proves nothing.
var ErrNoReports = errors.New("no process answered: none running, all too slow, or no right to list them")

// ErrCut means that a list lacks processes, because too many answered, or at too
// great length.
var ErrCut = errors.New("more processes answered than fit into a list")

// ProcessIdentity describes a process of any installation.
type ProcessIdentity struct {
	Instance     string
	Installation string
	Created      time.Time // of the installation
	Host         string
	Role         Role

	// Layout and Datacenter are those of the process's snowflake IDs. Layout is
	// zero if its role issues none, or if it did not report both.
	Layout     snowflake.Layout
	Datacenter int64
}

// ListProcessesRights are the rights that [ListProcesses] needs.
func ListProcessesRights() rights.Rights { return rights.Publish(askSubject(micro.PingVerb)) }

// ListProcesses returns the processes with a prefix, sorted by instance. They
// include processes of other installations whose subjects reach this account.
//
// It returns after a quarter of a second without another answer, so a slow
// process may be missing. An empty list without an error means that the server
// returned "no responders": no process of any prefix is connected. Otherwise,
// if no process of this prefix answered, the error is [ErrNoReports]. With [ErrCut]
// it returns the list of those that fit.
func ListProcesses(ctx context.Context, conn *nats.Conn, p messages.Prefix) ([]ProcessIdentity, error) {
	return listProcesses(ctx, conn, p, answersQuiet)
}

// listProcesses is [ListProcesses] with a time without another answer. It
// bounds the round trip to processes that are found.
func listProcesses(ctx context.Context, conn *nats.Conn, p messages.Prefix, quiet time.Duration) ([]ProcessIdentity, error) {
	answers, err := askProcesses(ctx, conn, p, micro.PingVerb, nil, quiet)
	var all []ProcessIdentity
	for _, a := range answers {
		all = append(all, a.process)
	}
	return all, err
}

// MaxReportTags bounds the tags of one [Report]; the busiest are listed. A tag
// takes 360 bytes at most, so reports fit well into NATS messages of 1 MB. A
// NATS server with a max_payload below LeastPayload may get fewer tags.
const (
	MaxReportTags = 500
	LeastPayload  = MaxReportTags*360 + answerRoom
)

// AskReportsRights are the rights that [AskReports] needs.
func AskReportsRights() rights.Rights { return rights.Publish(askSubject(micro.StatsVerb)) }

// AskReports returns the reports of all processes with a prefix, sorted by
// instance. They may include processes of other installations; a report names
// its installation.
//
// It returns when the expected instances have answered and no process has
// answered for a quarter of a second, when ctx ends, or after three seconds. An
// empty list, [ErrNoReports] and [ErrCut] mean the same as for [ListProcesses].
func AskReports(ctx context.Context, conn *nats.Conn, p messages.Prefix, expected []string) ([]Report, error) {
	answers, err := askProcesses(ctx, conn, p, micro.StatsVerb, expected, answersQuiet)
	var all []Report
	for _, a := range answers {
		var r Report
		if json.Unmarshal(a.data, &r) == nil {
			r.Instance, r.Role = a.process.Instance, a.process.Role
			r.setDatacenter(a.process)
			r.shorten()
			all = append(all, r)
		}
	}
	return all, err
}

// LoaderListensRights are the rights that [LoaderListens] needs.
func LoaderListensRights(p messages.Prefix) rights.Rights {
	return rights.Publish(loadmsg.LoadersSubject(p))
}

// LoaderListens reports whether a loader may be connected. It returns false
// only if the server returned "no responders". A paused loader counts as
// connected, and so does a dead loader until the server notices.
func LoaderListens(ctx context.Context, conn *nats.Conn, p messages.Prefix) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	_, err := conn.RequestWithContext(ctx, loadmsg.LoadersSubject(p), nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return false, nil
	// The loader is paused, or the request was denied.
	case errors.Is(err, context.DeadlineExceeded):
		if v, ok := rights.ViolationOf(conn.LastError()); ok && v == (rights.Violation{Subject: loadmsg.LoadersSubject(p)}) {
			return true, conn.LastError()
		}
		return true, nil
	}
	return true, err
}

// askSubject is the subject of a request to all processes.
func askSubject(verb micro.Verb) string { return "$SRV." + verb.String() + "." + ProcessServiceName }

// processAnswer is the answer of a process to PING or STATS.
type processAnswer struct {
	process ProcessIdentity
	data    json.RawMessage // of its endpoint, in STATS
}

// askProcesses returns the first answer of each process with a prefix, sorted
// by instance. It waits for the expected instances, and then until no process
// has answered for the time quiet.
func askProcesses(ctx context.Context, conn *nats.Conn, p messages.Prefix, verb micro.Verb, expected []string, quiet time.Duration) ([]processAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	// A new inbox: the subjects of the connection's other replies are secret.
	subject := conn.NewInbox()
	// Processes of any prefix answer.
	answers, err := inbox.Subscribe(conn, subject, 8*maxProcesses)
	if err != nil {
		return nil, err
	}
	defer answers.Unsubscribe()
	if err := conn.PublishRequest(askSubject(verb), subject, nil); err != nil {
		return nil, err
	}
	found := make(map[string]processAnswer)
	missing := func(instance string) bool { _, ok := found[instance]; return !ok }
	full := false
	for size := 0; ; {
		wait := answersWithin
		if len(found) > 0 && !slices.ContainsFunc(expected, missing) {
			wait = quiet
		}
		waiting, cancel := context.WithTimeout(ctx, wait)
		msg, err := answers.Next(waiting)
		cancel()
		if errors.Is(err, nats.ErrNoResponders) {
			return nil, nil
		}
		if err != nil {
			break
		}
		if size += len(msg.Data); size > maxAnswerBytes {
			full = true
			break
		}
		a, ok := decodeAnswer(msg.Data, p)
		switch {
		case !ok || !missing(a.process.Instance):
		case len(found) < maxProcesses:
			found[a.process.Instance] = a
		default:
			full = true
		}
	}
	switch {
	case full || answers.Overflowed():
		err = ErrCut
	case len(found) == 0:
		err = ErrNoReports
	}
	return slices.SortedFunc(maps.Values(found), func(a, b processAnswer) int {
		return cmp.Compare(a.process.Instance, b.process.Instance)
	}), err
}

// decodeAnswer reports whether an answer is valid, and from a process with the
// prefix. Every user with the right to answer can send anything.
func decodeAnswer(data []byte, p messages.Prefix) (a processAnswer, ok bool) {
	var wire struct {
		micro.ServiceIdentity
		Endpoints []struct {
			Data json.RawMessage `json:"data"`
		} `json:"endpoints"`
	}
	if len(data) > maxAnswer || json.Unmarshal(data, &wire) != nil || wire.Name != ProcessServiceName || wire.Metadata["prefix"] != string(p) {
		return a, false
	}
	m := wire.Metadata
	a.process = ProcessIdentity{Instance: m["instance"], Installation: m["installation"], Host: cut(m["host"]), Role: Role(m["role"])}
	var err error
	if a.process.Created, err = time.Parse(time.RFC3339Nano, m["created"]); err != nil || a.process.Created.IsZero() {
		return a, false
	}
	if a.process.Role.Answers() {
		a.process.Layout, a.process.Datacenter = decodeDatacenter(m["layout"], m["datacenter"])
	}
	if len(wire.Endpoints) > 0 {
		a.data = wire.Endpoints[0].Data
	}
	return a, isName(a.process.Instance) && isName(a.process.Installation) && a.process.Role.isValid()
}

// decodeDatacenter parses a layout and one of its datacenters, as written by
// [Process.service]. The layout is zero if either is malformed.
func decodeDatacenter(layout, datacenter string) (snowflake.Layout, int64) {
	l, err := snowflake.ParseLayout(layout)
	if err != nil || l.String() != layout {
		return snowflake.Layout{}, 0
	}
	d, err := strconv.ParseInt(datacenter, 10, 64)
	if err != nil || d < 0 || d > l.MaxDatacenter() || strconv.FormatInt(d, 10) != datacenter {
		return snowflake.Layout{}, 0
	}
	return l, d
}

// isName reports whether a text is a valid name of an instance or installation.
func isName(text string) bool {
	return len(text) <= maxNameLen && !strings.Contains(text, ".") && messages.CheckTag(text) == nil
}

// cut shortens a text received from a process.
func cut(text string) string { return oneline.Cut(text, maxText) }
