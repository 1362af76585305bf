package recovery

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/worker"
)

// TestFollow: a raise has succeeded once each process of this version that
// answers follows the decision. It waits for those that are behind, and for those
// that answered before the raise and are silent now. Then it names them.
func TestFollow(t *testing.T) {
	t.Parallel()
	const target = 1000
	theirs := process("w", worker.RoleWorker, 5)
	theirs.Stats.Installation = "theirs"
	stopped, short := process("l", worker.RoleLoader, 0), process("l", worker.RoleLoader, 0)
	stopped.Floor, stopped.Stopped = 1, "register regressed"
	short.RaiseBy, short.Stopped = 7, "raised by too little"
	loader := func(floor int64) worker.Report {
		r := process("l", worker.RoleLoader, 0)
		r.Floor = floor
		return r
	}
	asked := map[string]worker.Report{"w": process("w", worker.RoleWorker, 5)}
	for name, test := range map[string]struct {
		before  map[string]worker.Report
		absent  []string          // before, too
		answers [][]worker.Report // round by round; the last one again and again
		give    bool              // up at once
		silent  []string
		older   []string
		theirs  []string // silent ones of another installation
		others  []string // of another installation
		failed  error
		text    string
	}{
		"a worker follows later": {answers: [][]worker.Report{{process("w", worker.RoleWorker, 5)}, {process("w", worker.RoleWorker, 5)}, {process("w", worker.RoleWorker, target)}}},
		"a worker is ahead":      {answers: [][]worker.Report{{process("w", worker.RoleWorker, target+1)}}},
		"a worker stays behind":  {answers: [][]worker.Report{{process("w", worker.RoleWorker, 5)}}, give: true, failed: ErrBehind, text: "w on w1"},
		"an older worker":        {answers: [][]worker.Report{{process("w", worker.RoleWorker, 0)}}, older: []string{"w on w1"}},
		"a worker that comes back": {before: asked, answers: [][]worker.Report{
			{loader(target)}, {loader(target)}, {loader(target), process("w", worker.RoleWorker, target)},
		}},
		"a worker that is away":          {before: asked, answers: [][]worker.Report{{loader(target)}}, give: true, silent: []string{"w on w1"}},
		"another one's that is away":     {before: map[string]worker.Report{"w": theirs}, answers: [][]worker.Report{nil}, give: true, theirs: []string{"w on w1"}},
		"workers that were away before":  {absent: []string{"v", "w"}, answers: [][]worker.Report{{process("w", worker.RoleWorker, target)}}, silent: []string{"v"}},
		"nobody":                         {answers: [][]worker.Report{nil}},
		"another installation":           {answers: [][]worker.Report{{theirs}}, others: []string{"w on w1"}},
		"another one, which is joined":   {before: asked, answers: [][]worker.Report{{theirs}}, give: true, failed: ErrBehind, text: "w on w1"},
		"a loader follows later":         {answers: [][]worker.Report{{stopped}, {loader(5)}, {loader(target)}}},
		"a loader stays behind":          {answers: [][]worker.Report{{loader(5)}}, give: true, failed: ErrBehind, text: "l on l1"},
		"a loader that was granted more": {answers: [][]worker.Report{{short}}, failed: ErrNotRaised, text: "7 more IDs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := emptyInstallation(t, options{})
			must(t, agreement.Begin(t.Context(), i.js, prefix, 1, "ours"))
			rounds := answerInRounds(t, i.js.Conn(), test.answers)
			f := followers{workers: time.Hour, loaders: time.Hour, pause: time.Millisecond}
			if test.give {
				f.workers, f.loaders = 0, 0
			}
			done, err := f.follow(t.Context(), i.Site, target, &Evidence{answered: test.before, absent: test.absent})
			if !errors.Is(err, test.failed) || err != nil && !strings.Contains(err.Error(), test.text) {
				t.Errorf("ended with %v, want %v and %q", err, test.failed, test.text)
			}
			if n := int(rounds.Load()); n < len(test.answers) {
				t.Errorf("ended after %d rounds, want %d", n, len(test.answers))
			}
			if err == nil && (!slices.Equal(done.Silent, test.silent) || !slices.Equal(done.Older, test.older) || !slices.Equal(done.Strangers, test.theirs) || !slices.Equal(done.Others, test.others)) {
				t.Errorf("%+v; want silent %v, older %v, strangers %v, others %v", done, test.silent, test.older, test.theirs, test.others)
			}
		})
	}
}

// process is the report of a process of the installation "ours".
func process(instance string, role worker.Role, floor int64) worker.Report {
	r := worker.Report{Instance: instance, Host: instance + "1", Role: role, BufferFloor: floor}
	r.Stats.Installation = "ours"
	return r
}

// answerInRounds answers requests for reports, and counts them.
func answerInRounds(t *testing.T, conn *nats.Conn, answers [][]worker.Report) *atomic.Int64 {
	t.Helper()
	rounds := new(atomic.Int64)
	if answers[0] == nil {
		rounds.Store(1) // nobody listens
		return rounds
	}
	report(t, conn, func() []worker.Report { return answers[min(int(rounds.Add(1)), len(answers))-1] })
	return rounds
}

// report answers requests for reports, as processes do.
func report(t *testing.T, conn *nats.Conn, reports func() []worker.Report) (stop func()) {
	t.Helper()
	sub, err := conn.Subscribe(micro.APIPrefix+".STATS."+worker.ProcessServiceName, func(msg *nats.Msg) {
		for _, r := range reports() {
			data, err := json.Marshal(r)
			if err != nil {
				t.Error(err)
			}
			answer, err := json.Marshal(micro.Stats{
				ServiceIdentity: micro.ServiceIdentity{Name: worker.ProcessServiceName, ID: r.Instance, Version: "0.2.0", Metadata: map[string]string{
					"prefix": string(prefix), "instance": r.Instance, "installation": r.Stats.Installation, "role": string(r.Role),
					"created": time.Now().Format(time.RFC3339Nano),
				}},
				Endpoints: []*micro.EndpointStats{{Name: "x", Data: data}},
			})
			if err != nil {
				t.Error(err)
			}
			if err := msg.Respond(answer); err != nil {
				t.Error(err)
			}
		}
	})
	must(t, err)
	must(t, conn.Flush())
	return func() { must(t, sub.Unsubscribe()) }
}
