package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/history"
)

// raiseSite is a server with a loader and workers, and judged callers.
type raiseSite struct {
	*judged
	settings // name the store
	net      *natstest.Node
	data     string // the server's folder, which may be lost or put back
	loader   *process
}

// judged are callers whose answers are judged: once a raise or a restore has
// succeeded, no request that is sent gets an ID from before its decision. Until
// then IDs may come twice, because the command is the remedy for that.
type judged struct {
	t      *testing.T // with which the site's processes end
	url    string
	js     jetstream.JetStream
	began  time.Time
	stop   context.CancelFunc // ends the callers' requests, too
	asking context.Context
	wg     sync.WaitGroup

	mu        sync.Mutex
	calls     []history.Call // that were answered
	succeeded time.Duration  // the latest command
	floor     int64          // of its decision
}

// startRaiseSite starts the server, and a loader without a witness.
func startRaiseSite(t *testing.T, store settings) *raiseSite {
	t.Helper()
	s := newRaiseSite(t, store)
	s.startLoader()
	return s
}

// newRaiseSite starts the server alone.
func newRaiseSite(t *testing.T, store settings) *raiseSite {
	t.Helper()
	s := &raiseSite{settings: store, data: t.TempDir()}
	s.net = natstest.Start(t, func(o *server.Options) { o.StoreDir = s.data })
	s.judged = newJudged(t, s.net.URL(), s.net.Connect(t))
	return s
}

// newJudged returns callers that connect to a URL. The connection is the test's
// own, and outlives the server's absence.
func newJudged(t *testing.T, url string, conn *nats.Conn) *judged {
	t.Helper()
	s := &judged{t: t, url: url, js: natstest.JetStream(t, conn), began: time.Now()}
	s.asking, s.stop = context.WithCancel(context.Background())
	t.Cleanup(s.finish)
	return s
}

// copyData copies the server's data while it does not run.
func (s *raiseSite) copyData(t *testing.T, to, from string) {
	t.Helper()
	s.net.Stop()
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
		t.Fatal(err)
	}
	s.net.Restart()
}

func (s *raiseSite) startLoader() {
	s.t.Helper()
	s.loader = s.startWorker(s.t, s.net.URL(), "--role", "loader")
}

func (s *raiseSite) startWorkers(n int) (all []*process) {
	s.t.Helper()
	for range n {
		all = append(all, settings{}.startWorkerVia(s.t, s.net.URL()))
	}
	return all
}

// startWorkerVia starts a worker on a server's address, or on that of a proxy.
func (s settings) startWorkerVia(t *testing.T, url string) *process {
	t.Helper()
	return s.startWorker(t, url, "--role", "worker", "--wait", "500ms")
}

// pace is a caller's pause between two requests. Callers without one would take the
// processors from what they test.
const pace = 5 * time.Millisecond

// ask starts callers of these tags, which ask until finish.
func (s *judged) ask(t *testing.T, callers int, tags ...string) {
	t.Helper()
	for i := range callers {
		client, random := s.dial(t), rand.New(rand.NewPCG(uint64(i), 5))
		s.wg.Go(func() {
			for ; s.asking.Err() == nil; time.Sleep(pace) {
				_, _ = s.request(client, tags[random.IntN(len(tags))], count(random, 20), time.Second) // it may be lost
			}
		})
	}
}

// dial returns a caller, whose connection outlives the server's absence.
func (s *judged) dial(t *testing.T) requester {
	t.Helper()
	return dial(t, s.url, nats.MaxReconnects(-1))
}

// request asks once for so many IDs, and records the answer. It fails while the
// server, the loader or a worker is away.
func (s *judged) request(client requester, tag string, n int64, within time.Duration) (ranges []messages.Range, err error) {
	ctx, cancel := context.WithTimeout(s.asking, within)
	defer cancel()
	call := history.Call{Kind: history.Batch, Tag: tag, Count: n, Sent: time.Since(s.began)}
	if call.Ranges, err = client.NextN(ctx, tag, n); err != nil {
		return nil, err
	}
	call.Received = time.Since(s.began)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	return call.Ranges, nil
}

// reports returns the reports of these workers, by instance. Those that do not
// answer at once are missing.
func (s *judged) reports(t *testing.T, workers []*process) map[string]worker.Report {
	t.Helper()
	var expected []string
	for _, w := range workers {
		expected = append(expected, w.instance())
	}
	all, err := worker.AskReports(t.Context(), s.js.Conn(), messages.DefaultPrefix, expected)
	if err != nil && !errors.Is(err, worker.ErrNoReports) {
		t.Fatal(err)
	}
	found := make(map[string]worker.Report)
	for _, r := range all {
		if slices.Contains(expected, r.Instance) {
			found[r.Instance] = r
		}
	}
	return found
}

// heldByAll waits until these workers have IDs of tags in memory.
func (s *judged) heldByAll(t *testing.T, workers []*process, tags ...string) {
	t.Helper()
	client := s.dial(t)
	for _, tag := range tags {
		natstest.Eventually(t, "all workers have IDs of tag "+tag, func() bool {
			for range 4 * len(workers) {
				_, _ = s.request(client, tag, 1, askAgain)
			}
			all := s.reports(t, workers)
			return !slices.ContainsFunc(workers, func(w *process) bool { return !gives(all[w.instance()].Stats, tag) })
		})
	}
}

// answer waits until these workers answer the question for their reports.
func (s *judged) answer(t *testing.T, workers ...*process) {
	t.Helper()
	natstest.Eventually(t, "workers answer", func() bool { return len(s.reports(t, workers)) == len(workers) })
}

// served waits until tags are served: so often in a row that each worker has
// most probably answered.
func (s *judged) served(t *testing.T, tags ...string) {
	t.Helper()
	const inARow = 50
	client := s.dial(t)
	for _, tag := range tags {
		n := 0
		natstest.Eventually(t, fmt.Sprintf("tag %s is served %d times in a row", tag, inARow), func() bool {
			if _, err := s.request(client, tag, 1, askAgain); err != nil {
				n = -1
			}
			n++
			return n >= inARow
		})
	}
}

// more waits until some more requests are answered, some of them by each worker,
// if callers ask.
func (s *judged) more(t *testing.T, answers int) {
	t.Helper()
	have := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.calls)
	}
	target := have() + answers
	natstest.Eventually(t, "requests are answered", func() bool { return have() >= target })
}

// succeed notes that a raise or a restore has succeeded.
func (s *judged) succeed(t *testing.T) {
	t.Helper()
	floor, err := agreement.Floor(t.Context(), s.js, messages.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.succeeded, s.floor = time.Since(s.began), floor
}

// repeated is how many IDs were in answers again.
func (s *judged) repeated() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string][]messages.Range)
	for _, c := range s.calls {
		all[c.Tag] = append(all[c.Tag], c.Ranges...)
	}
	for _, ranges := range all {
		slices.SortFunc(ranges, func(a, b messages.Range) int { return cmp.Compare(a.First, b.First) })
		last := int64(0)
		for _, r := range ranges {
			n += max(min(r.Last, last)-r.First+1, 0)
			last = max(last, r.Last)
		}
	}
	return n
}

// late is how many requests for IDs of a tag were on their way when the latest
// command succeeded, and got one from before its decision. A caller has at most
// one.
func (s *judged) late(tag string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Tag == tag && c.Sent < s.succeeded && c.Received > s.succeeded && c.Ranges[0].First < s.floor {
			n++
		}
	}
	return n
}

// finish stops the callers, and waits for their last answers.
func (s *judged) finish() {
	s.stop()
	s.wg.Wait()
}

// check fails the test for requests that were sent after the latest command had
// succeeded, and got an ID from before its decision, an ID that was handed out
// before, or one of a strict tag out of order.
func (s *judged) check(t *testing.T, strict ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var issued order.Ledger
	var after, ordered []history.Call
	for _, c := range s.calls {
		if c.Sent < s.succeeded {
			issued.Add(c.Tag, c.Count, c.Ranges...)
		} else {
			after = append(after, c)
		}
	}
	issued.Forgive()
	old := make(map[string]int)
	for _, c := range after {
		issued.Add(c.Tag, c.Count, c.Ranges...)
		if c.Ranges[0].First < s.floor {
			old[c.Tag]++
		}
		if slices.Contains(strict, c.Tag) {
			ordered = append(ordered, c)
		}
	}
	issued.Check(t)
	for tag, n := range old {
		t.Errorf("%d requests that were sent after the command had succeeded got IDs of tag %s from before", n, tag)
	}
	if err := order.Check(ordered); err != nil {
		t.Error(err)
	}
	t.Logf("%d answers, %d of them after the command had succeeded", len(s.calls), len(after))
}
