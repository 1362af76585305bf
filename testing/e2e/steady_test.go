package e2e

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
)

// steady asks for single IDs of one tag at a fixed rate, whatever becomes of the
// requests: the next does not wait for the answer to the one before.
type steady struct {
	t      testing.TB
	client requester
	tag    string
	ledger ledger

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

func startSteady(t testing.TB, url, tag string, perSecond int) *steady {
	t.Helper()
	s := &steady{t: t, client: dial(t, url), tag: tag, ledger: ledger{tag: tag}, stop: make(chan struct{})}
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
	return s
}

func (s *steady) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	a := answer{sent: time.Now()}
	a.id, a.err = s.client.Next(ctx, s.tag)
	s.mu.Lock()
	defer s.mu.Unlock()
	a.received = time.Now()
	if a.err == nil {
		s.ledger.add([]messages.Range{{First: a.id, Last: a.id}})
	}
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
