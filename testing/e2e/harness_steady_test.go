package e2e

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
)

// steady asks for single IDs at a fixed rate, whatever becomes of the requests: none waits
// for the answer to the one before.
type steady struct {
	next    func(context.Context) (int64, error)
	timeout time.Duration // of a call
	ledger  ledger        // if it is for a tag

	mu       sync.Mutex
	answers  []answer // in the order in which they came
	stop     chan struct{}
	stopOnce sync.Once
	wg       sync.WaitGroup
}

// answer is an ID, or an error.
type answer struct {
	sent, received time.Time
	id             int64
	err            error
}

// callTimeout is far beyond what a worker lets a request wait.
const callTimeout = 20 * time.Second

// startSteady asks for IDs of a tag.
func startSteady(t testing.TB, url, tag string, perSecond int) *steady {
	t.Helper()
	client := dial(t, url)
	s := &steady{timeout: callTimeout, ledger: ledger{tag: tag}, stop: make(chan struct{})}
	s.next = func(ctx context.Context) (int64, error) {
		id, err := client.Next(ctx, tag)
		if err == nil {
			s.ledger.add([]messages.Range{{First: id, Last: id}})
		}
		return id, err
	}
	s.start(t, perSecond)
	return s
}

// start asks until the test ends, or finish is called.
func (s *steady) start(t testing.TB, perSecond int) {
	s.wg.Go(func() {
		ticker := time.NewTicker(time.Second / time.Duration(perSecond))
		defer ticker.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-ticker.C:
				s.wg.Go(s.ask)
			}
		}
	})
	t.Cleanup(s.finish)
}

func (s *steady) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	a := answer{sent: time.Now()}
	a.id, a.err = s.next(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	a.received = time.Now()
	s.answers = append(s.answers, a)
}

// finish stops asking, and returns when all answers are in.
func (s *steady) finish() {
	s.stopOnce.Do(func() { close(s.stop) })
	s.wg.Wait()
}

// since returns the answers that came after the first n.
func (s *steady) since(n int) []answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.answers[n:])
}

// count is how many answers came.
func (s *steady) count() int { return len(s.since(0)) }

// split counts IDs and errors among answers.
func split(answers []answer) (ids, errs int) {
	for _, a := range answers {
		if a.err == nil {
			ids++
		} else {
			errs++
		}
	}
	return ids, errs
}

// firstError is the index of the first error, or -1.
func firstError(answers []answer) int {
	return slices.IndexFunc(answers, func(a answer) bool { return a.err != nil })
}
