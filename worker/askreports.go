package worker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// reportQuiet is how long reports are waited for after the latest, once all that are expected are there.
const reportQuiet = 250 * time.Millisecond

// AskReportsRights are what [AskReports] takes. Workers, loaders and administrators have them.
func AskReportsRights(p messages.Prefix) rights.Rights { return reportRights(p, rights.Admin) }

// AskReports asks all processes of the account for reports, in which each tells of its busiest tags, up
// to a number from 0 to 10,000, and returns the answers by instance. Processes of versions before 0.1.0
// do not answer. Those of other installations may; a report names its own.
//
// How many processes there are nobody knows. It returns when none has answered for a quarter of a second
// and those are there that are expected, or when ctx ends. An answer whose parts are not all there counts
// for none. The error is [ErrNoReports] if nobody answers although somebody may be there; if the server says that nobody
// is, there is no error.
func AskReports(ctx context.Context, conn *nats.Conn, p messages.Prefix, tags int, expected []string) ([]Report, error) {
	asker := nuid.Next()
	answers := make(chan *nats.Msg, 1<<13)
	sub, err := conn.ChanSubscribe(reportAnswerSubject(p, asker), answers)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails on a closed connection only
	question, err := json.Marshal(reportQuestion{asker, tags})
	if err != nil {
		return nil, err
	}
	// The reply subject is for the server: it says there if nobody listens.
	if err := conn.PublishRequest(reportSubject(p), reportAnswerSubject(p, asker), question); err != nil {
		return nil, err
	}
	var g gathering
	for ctx.Err() == nil && g.next(ctx, answers, expected) {
	}
	all := g.complete()
	if len(all) == 0 && !g.nobody {
		return nil, ErrNoReports
	}
	return all, nil
}

// ErrNoReports says that no process has reported, and that this proves nothing.
var ErrNoReports = errors.New("no process has reported: none runs that can, it was too slow, or this user may not ask")

// gathering is the parts of reports that are there so far.
type gathering struct {
	parts  map[string][]reportPart
	bytes  int  // that have come
	nobody bool // is there, the server says
}

// next waits for one more part, and reports whether there may be others.
func (g *gathering) next(ctx context.Context, answers <-chan *nats.Msg, expected []string) bool {
	quiet := time.NewTimer(reportQuiet)
	defer quiet.Stop()
	ends := quiet.C
	if len(g.parts) == 0 || slices.ContainsFunc(expected, func(instance string) bool { return !g.isComplete(instance) }) || !g.allComplete() {
		ends = nil
	}
	select {
	case msg := <-answers:
		g.nobody = len(msg.Data) == 0 && msg.Header.Get("Status") == noResponders
		g.add(msg.Data)
		return !g.nobody
	case <-ends:
	case <-ctx.Done():
	}
	return false
}

// noResponders is the status with which a server says that nobody listens.
const noResponders = "503"

func (g *gathering) add(data []byte) {
	var part reportPart
	if g.bytes += len(data); g.bytes > maxReportBytes || len(data) > maxReportPart || json.Unmarshal(data, &part) != nil || !part.isSound() {
		return
	}
	have := g.parts[part.Instance]
	if len(have) == 0 && len(g.parts) >= maxReporters || slices.ContainsFunc(have, part.excludes) {
		return
	}
	if g.parts == nil {
		g.parts = make(map[string][]reportPart)
	}
	g.parts[part.Instance] = append(have, part)
}

// The bounds on what is believed. Whoever may answer may answer anything.
const (
	maxReportPart  = 512 << 10 // bytes
	maxReportBytes = 64 << 20  // of all
	maxReporters   = 1000
	maxParts       = (maxReportTags + tagsPerPart - 1) / tagsPerPart
)

// isSound reports whether a part can be one of a report.
func (p *reportPart) isSound() bool {
	return p.Parts <= maxParts && p.Part >= 0 && p.Part < p.Parts && (p.Part == 0) == (p.Report != nil) && len(p.Tags) <= tagsPerPart
}

// excludes reports whether two parts cannot be of the same report.
func (p *reportPart) excludes(other reportPart) bool {
	return p.Part == other.Part || p.Parts != other.Parts
}

func (g *gathering) isComplete(instance string) bool {
	parts := g.parts[instance]
	return len(parts) > 0 && len(parts) >= parts[0].Parts
}

func (g *gathering) allComplete() bool {
	for instance := range g.parts {
		if !g.isComplete(instance) {
			return false
		}
	}
	return true
}

// complete are the reports of which all parts are there, by instance.
func (g *gathering) complete() (all []Report) {
	for instance, parts := range g.parts {
		if !g.isComplete(instance) {
			continue
		}
		slices.SortFunc(parts, func(a, b reportPart) int { return a.Part - b.Part })
		r := *parts[0].Report
		r.Instance, r.Stats.Tags = instance, nil
		for _, part := range parts {
			r.Stats.Tags = append(r.Stats.Tags, part.Tags...)
		}
		r.shorten()
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Report) int { return strings.Compare(a.Instance, b.Instance) })
	return all
}

// maxReportText bounds a text of a report, in bytes. Whoever looks gets all of them.
const maxReportText = 1000

// shorten cuts what no process tells at such length, and drops what can be no tag.
func (r *Report) shorten() {
	texts := []*string{
		&r.Instance, &r.Host, (*string)(&r.Role), &r.Version, &r.NotReady, &r.Degraded,
		&r.Stats.Store, &r.Stats.Installation, &r.Stats.LeftFor, &r.Stats.NoLoader, &r.Stats.NoWorker,
	}
	if r.Outages != nil {
		texts = append(texts, &r.Outages.Error)
	}
	for _, text := range texts {
		*text = strings.ToValidUTF8((*text)[:min(len(*text), maxReportText)], "")
	}
	if len(r.Requests) > len(outcomes) {
		r.Requests = nil
	}
	r.Stats.Tags = slices.DeleteFunc(r.Stats.Tags, func(t TagStats) bool { return messages.CheckTag(t.Tag) != nil })
}
