package health

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// inState is an installation in a state, of which a process reports itself.
type inState struct {
	name   string
	self   func(*worker.Report)                       // changes the report of a process that works
	found  func(*testing.T, *Collector) *Installation // what is collected, if it is more than that report
	exit   int                                        // of doctor
	status string                                     // the worst line, with its severity
	readyz string                                     // begins so
}

// copyMissing is a bucket of which a server has no copy.
type copyMissing struct{ kv.Resource }

func (copyMissing) Look(context.Context, jetstream.JetStream) (kv.Found, error) {
	return kv.Found{Copies: "2 of 3 copies are current, not that of server n3"}, nil
}

// user makes a user with rights.
func user(allow ...string) func(*server.Options) {
	return func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: allow}}}}
	}
}

var states = []inState{
	{"all well", nil, nil, 0, "all is well", "ready"},
	{"no loader", func(r *worker.Report) {
		r.Role, r.Degraded, r.Stats.NoLoader = worker.RoleWorker, "no loader answers", "no loader answers"
	}, nil, 1, "error loaders: none reports, so workers live on their buffers", "ready, but no loader answers"},
	{"dead replica", nil, func(t *testing.T, c *Collector) *Installation {
		c.Resources = []kv.Resource{copyMissing{bucketOf("ids_register", 3)}}
		return c.Collect(t.Context())
	}, 0, "warning doctor: copies: too few copies: 2 of 3 copies are current, not that of server n3: bucket ids_register", "ready"},
	{"template nearly full", nil, func(*testing.T, *Collector) *Installation {
		return merged(now, []worker.Report{working()}, func(c *collection) {
			tags := []string{"bill.20261120", "bill.20261113", "bill.20261106"}
			template := templates.Template{Pattern: "bill.*", MaxTags: 4, Dates: templates.Dates{Dated: "yyyyMMdd", Ahead: 1}}
			c.Checks = append(c.Checks, judgeTemplate(template, tags, now))
		})
	}, 0, "warning doctor: template bill.*: full on 2026-11-28: 3 of 4 tags, 3 of the last 16 days; raise its limit: ", "ready"},
	{"dead worker", nil, func(*testing.T, *Collector) *Installation {
		return merged(now, []worker.Report{working()}, func(c *collection) { c.WorkerIDs = []WorkerID{{Instance: "b", Host: "g"}} })
	}, 0, "warning worker g (b): holds a worker ID but does not report", "ready"},
	{"disk full", func(r *worker.Report) { r.Degraded = "the NATS server cannot write to its data folder" }, nil, 1,
		"error process h (a): the NATS server cannot write to its data folder", "ready, but the NATS server cannot write to its data folder"},
	{"denied right", nil, func(t *testing.T, c *Collector) *Installation {
		ns := natstest.Start(t, user(rights.AskPermissions, worker.AskReportsRights().Publish[0], "$JS.API.DIRECT.>"))
		c.Dial, c.Role, c.Resources = dialAs(t, ns.URL(), "u", "p"), rights.Loader, []kv.Resource{bucketOf("ids_register", 1)}
		return c.Collect(t.Context())
	}, 1, "error doctor: rights: the user may not ", "ready"},
	{"store away", func(r *worker.Report) {
		r.Stats.Store, r.Outages = "mysql leaf", &worker.OutageStats{Now: true, Since: time.Now().Add(-time.Minute), Error: "refused"}
	}, nil, 1, "error process h (a): store mysql leaf has failed for ", "ready, but store mysql leaf has failed for "},
	{"exhausted tag", func(r *worker.Report) {
		r.Endings = &worker.EndingStats{Exhausted: 1, ExhaustedTags: []string{"order"}}
	}, nil, 1, "error tag order: exhausted, so requests get 507", "ready, but tag order: exhausted, so requests get 507"},
	{"wrong clock", func(r *worker.Report) { r.Clock = &worker.ClockStats{AheadMS: 7000, ReservedIn: 20} }, nil, 1,
		"error process h (a): clock is 7s ahead of the NATS server's", "ready, but clock is 7s ahead of the NATS server's"},
	{"clock a little off", func(r *worker.Report) { r.Clock = &worker.ClockStats{AheadMS: -1700, ReservedIn: 20} }, nil, 0,
		"warning process h (a): clock is -1.7s ahead of the NATS server's", "ready, but clock is -1.7s ahead of the NATS server's"},
	{"unconfirmed", func(r *worker.Report) { *r = holding(48*time.Minute, 12*time.Minute) }, nil, 0,
		"warning process h (a): worker ID 7, not confirmed for 12 min, IDs until ", "ready, but worker ID 7, not confirmed for 12 min, IDs until 12:48 UTC"},
	{"unconfirmed, and its time ends", func(r *worker.Report) { *r = holding(9*time.Minute, 51*time.Minute) }, nil, 1,
		"error process h (a): worker ID 7, not confirmed for 51 min, IDs until ", "ready, but worker ID 7, not confirmed for 51 min, IDs until 12:09 UTC"},
	{"two installations", nil, func(*testing.T, *Collector) *Installation {
		own, other := working(), working()
		other.Instance, other.Stats.Installation = "b", "J"
		return merged(now, []worker.Report{own, other}, func(c *collection) { c.ID = "I" })
	}, 0, "warning other installations: not counted here: their processes on the same subjects, 1", "ready"},
	{"two installations; this one left", func(r *worker.Report) { r.NotReady = "another installation answers" }, nil, 1,
		"error process h (a): not ready: another installation answers", "not ready: another installation answers"},
	{"restored register", func(r *worker.Report) {
		r.Stopped, r.Degraded = "the register regressed: 7 instead of 9", "the register regressed: 7 instead of 9"
	}, nil, 1, "error process h (a): grants nothing: the register regressed: 7 instead of 9; run idworker restore DIR --raise-anyway, or without a backup idworker tag raise --all",
		"ready, but grants nothing: the register regressed: 7 instead of 9; run idworker restore DIR --raise-anyway, or without a backup idworker tag raise --all"},
}

// working is the report of a process without a problem.
func working() worker.Report {
	r := reportOf("a", worker.RoleAll)
	r.Host, r.Serving, r.MaxPayload = "h", true, 1<<20
	return r
}

// TestOneJudgement: doctor, status, its JSON, the page and /readyz show the same
// judgement of a state.
func TestOneJudgement(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t).URL()
	var table strings.Builder
	fmt.Fprintf(&table, "%-38s %-6s %-8s %-8s %-24s %s\n", "state", "doctor", "status", "page", "/readyz", "the worst line of status")
	for _, s := range states {
		self := working()
		if s.self != nil {
			s.self(&self)
		}
		c := &Collector{
			Prefix: messages.DefaultPrefix, Role: RoleAll, AllowUnsynced: true, MaxClockSkew: 5 * time.Second,
			Dial: dialAs(t, url, "", ""), Self: func() (worker.Report, bool) { return self, true },
		}
		if s.found == nil {
			s.found = func(t *testing.T, c *Collector) *Installation { return c.Collect(t.Context()) }
		}
		i := s.found(t, c)
		shown := showing(t, i)
		readyz, class := readyzOf(self, c.MaxClockSkew)
		worst := "all is well"
		if len(i.Troubles) > 0 {
			worst = fmt.Sprintf("%s %s", i.Troubles[0].Severity, i.Troubles[0])
		}
		exit := 0
		if i.Failed() {
			exit = 1
		}
		fmt.Fprintf(&table, "%-38s %-6d %-8s %-8s %-24.24s %.100s\n", s.name, exit, strings.Fields(worst)[0], shown.page, readyz, worst)
		if exit != s.exit || !strings.HasPrefix(worst, s.status) || !strings.HasPrefix(readyz, s.readyz) {
			t.Errorf("%s: exit code %d, want %d; %q, want %q; %q, want %q", s.name, exit, s.exit, worst, s.status, readyz, s.readyz)
		}
		// No form shows another problem, or another severity.
		if !slices.Equal(shown.doctor, shown.json) || !slices.Equal(shown.doctor, shown.text) || !slices.Equal(shown.doctor, shown.html) {
			t.Errorf("%s:\ndoctor %q\nJSON   %q\ntext   %q\npage   %q", s.name, shown.doctor, shown.json, shown.text, shown.html)
		}
		if want := map[int]string{0: "good", 1: "error"}[exit]; shown.page != want && (exit == 1 || shown.page != "warning") {
			t.Errorf("%s: the page is %s, doctor ends with %d", s.name, shown.page, exit)
		}
		if class != "" && !slices.ContainsFunc(i.Troubles, func(d Diagnosis) bool { return d.Severity == class }) {
			t.Errorf("%s: /readyz shows an %s that status lacks", s.name, class)
		}
	}
	t.Log("\n" + table.String())
}

// readyzOf is the answer of /readyz, and the severity of its problem.
func readyzOf(r worker.Report, maxSkew time.Duration) (string, Severity) {
	notReady, but := Readiness(now, r, maxSkew)
	switch {
	case notReady != nil:
		return "not ready: " + notReady.Error(), Error
	case but != nil:
		return "ready, but " + but.Error(), Own(now, r, maxSkew)[0].Severity
	}
	return "ready", ""
}

// shown are the problems in each form, sorted, and the class of the page.
type shown struct {
	doctor, json, text, html []string
	page                     string
}

var (
	textLine = regexp.MustCompile(`(?m)^(error|warning)\s+(.*)$`)
	pageLine = regexp.MustCompile(`<li class="(error|warning)"><strong>(?:Error|Warning)</strong> <b><bdi>(.*?)</bdi></b>: <bdi>(.*?)</bdi>`)
	pageSum  = regexp.MustCompile(`id="summary" class="summary (\w+)"`)
)

func showing(t *testing.T, i *Installation) (s shown) {
	t.Helper()
	for _, d := range i.Diagnoses() {
		if d.Severity != "" {
			s.doctor = append(s.doctor, fmt.Sprintf("%s %s", d.Severity, d))
		}
	}
	var back struct{ Troubles []Diagnosis }
	data, err := json.Marshal(i)
	var text, form bytes.Buffer
	if err := errors.Join(err, json.Unmarshal(data, &back), i.View("", ByRate, 9).Print(&text), page.Execute(&form, i.View("", ByRate, 9))); err != nil {
		t.Fatal(err)
	}
	plain := func(severity, line string) string { return severity + " " + strings.TrimPrefix(line, "doctor: ") }
	for _, d := range back.Troubles {
		s.json = append(s.json, plain(string(d.Severity), d.String()))
	}
	for _, m := range textLine.FindAllStringSubmatch(text.String(), -1) {
		s.text = append(s.text, plain(m[1], m[2]))
	}
	for _, m := range pageLine.FindAllStringSubmatch(form.String(), -1) {
		s.html = append(s.html, plain(m[1], html.UnescapeString(m[2]+": "+m[3])))
	}
	s.page = pageSum.FindStringSubmatch(form.String())[1]
	for _, all := range [][]string{s.doctor, s.json, s.text, s.html} {
		slices.Sort(all)
	}
	return s
}
