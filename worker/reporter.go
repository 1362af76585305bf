package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// reportSubject is where processes are asked for reports.
func reportSubject(p messages.Prefix) string { return string(p) + ".report" }

// reportAnswerSubject is where whoever asks gets them. It is no inbox: a process publishes an answer
// to a subject of this form and to no other, whatever the question says.
func reportAnswerSubject(p messages.Prefix, asker string) string {
	return reportSubject(p) + "." + asker
}

// reportRights are those of answering, and of asking. Processes do both: each of them can show
// all others.
func reportRights(p messages.Prefix, role rights.Role) rights.Rights {
	ask := rights.Join(rights.Publish(reportSubject(p)), rights.Subscribe(reportAnswerSubject(p, "*")))
	switch role {
	case rights.Worker, rights.Loader:
		return rights.Join(ask, rights.Subscribe(reportSubject(p)), rights.Publish(reportAnswerSubject(p, "*")))
	case rights.Admin:
		return ask
	}
	return rights.Rights{}
}

// reportQuestion is the question on the wire.
type reportQuestion struct {
	Asker string `json:"asker"`
	Tags  int    `json:"tags"` // how many of the busiest tags to tell of
}

// reportPart is an answer on the wire, or a part of one that has many tags.
type reportPart struct {
	Instance string     `json:"instance"`
	Part     int        `json:"part"`
	Parts    int        `json:"parts"`
	Report   *Report    `json:"report,omitempty"` // in part 0, without the tags
	Tags     []TagStats `json:"tags,omitempty"`
}

const (
	maxReportTags  = 10_000 // of one report
	tagsPerPart    = 500    // a tag takes 300 bytes at most, so a part is well below what servers take
	maxAskerLen    = 32
	maxReportsWait = 64 // questions that wait; further ones are dropped
	reportShare    = 4  // after a report there is a pause of so many times what it took
)

func decodeReportQuestion(data []byte) (q reportQuestion, err error) {
	if err := json.Unmarshal(data, &q); err != nil {
		return q, err
	}
	if len(q.Asker) > maxAskerLen || strings.Contains(q.Asker, ".") || messages.CheckTag(q.Asker) != nil {
		return q, fmt.Errorf("asker %.40q is not one token of at most %d bytes", q.Asker, maxAskerLen)
	}
	q.Tags = min(max(q.Tags, 0), maxReportTags)
	return q, nil
}

// split makes parts of a report.
func (r Report) split() (parts []reportPart) {
	tags := r.Stats.Tags
	r.Stats.Tags = nil
	n := max(1, (len(tags)+tagsPerPart-1)/tagsPerPart)
	for i := range n {
		from, to := i*tagsPerPart, min((i+1)*tagsPerPart, len(tags))
		parts = append(parts, reportPart{Instance: r.Instance, Part: i, Parts: n, Tags: tags[from:to]})
	}
	parts[0].Report = &r
	return parts
}

// reporter is the part of a process that answers whoever asks how it is. However many ask, it takes no
// more than a fifth of a processor.
type reporter struct {
	processInfo
	report     func(tags int) Report
	sub        *nats.Subscription
	background *goroutines
}

func newReporter(p processInfo, report func(tags int) Report) *reporter {
	return &reporter{processInfo: p, report: report, background: newGoroutines()}
}

// start returns when questions reach the process.
func (r *reporter) start(ctx context.Context) (err error) {
	r.sub, err = r.cfg.Control.Subscribe(reportSubject(r.cfg.Prefix), func(msg *nats.Msg) {
		r.answer(r.background.ctx, msg.Data)
	})
	if err == nil {
		err = r.sub.SetPendingLimits(maxReportsWait, -1)
	}
	if err == nil {
		err = withTimeout(ctx, r.cfg.Control.FlushWithContext)
	}
	if err != nil {
		r.background.stop()
		return fmt.Errorf("subscribe to questions for reports: %w", err)
	}
	return nil
}

// answer sends a report. One that cannot be sent is missed by whoever asked for it.
func (r *reporter) answer(ctx context.Context, question []byte) {
	q, err := decodeReportQuestion(question)
	if err != nil {
		r.cfg.Log.Warn("malformed question for a report", zap.Error(err))
		return
	}
	began := time.Now()
	for _, part := range r.report(q.Tags).split() {
		data, err := json.Marshal(part)
		if err == nil {
			err = r.cfg.Control.Publish(reportAnswerSubject(r.cfg.Prefix, q.Asker), data)
		}
		if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			r.cfg.Log.Warn("report is not sent", zap.Error(err))
			return
		}
	}
	pause.For(ctx, reportShare*time.Since(began))
}

func (r *reporter) stop() error {
	r.background.stop()
	return unsubscribe(r.sub)
}

func (r *reporter) ready() error       { return nil }
func (r *reporter) collect(sink)       {}
func (r *reporter) fillStats(*Stats)   {}
func (r *reporter) fillReport(*Report) {}
