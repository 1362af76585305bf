package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// HoldsSubject is the subject on which a process that has claimed a worker ID
// queries all running processes about it. Replies go to a subject below it.
func HoldsSubject(p messages.Prefix) string { return string(p) + ".holds" }

// holdUse is a process's use of a worker ID, as it remembers and reports it.
type holdUse struct {
	Hold string `json:"hold"` // the latest
	// No timestamp from here on was used; inUse while the worker ID is held.
	End int64 `json:"end"`
}

const inUse = math.MaxInt64

// useLog remembers a process's use of worker IDs. It outlives the holds, and
// does not depend on the buckets.
type useLog struct {
	mu  sync.Mutex
	all map[string]holdUse // by key; as many as there are worker IDs at most
}

// begin notes that a hold begins, and returns the first timestamp that this
// process has not used.
func (u *useLog) begin(key, hold string) (end int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	end = u.all[key].End
	u.all[key] = holdUse{hold, inUse}
	return end
}

// end notes that a hold has ended.
func (u *useLog) end(key string, end int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all[key] = holdUse{u.all[key].Hold, end}
}

func (u *useLog) of(key string) (holdUse, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	found, ok := u.all[key]
	return found, ok
}

// others are the running processes of the installation, including this process.
type others interface {
	// serve answers queries from own, until stop is called.
	serve(own *useLog) (stop func(), err error)

	// query returns the highest end of another hold's use of a worker ID.
	query(ctx context.Context, key, hold string) (end int64, err error)

	// reconnected receives when the connection was lost and is back.
	reconnected() <-chan nats.Status
}

// A claimer repeats its query within queryTime, so that it also reaches a
// process that is just reconnecting.
const (
	queries   = 2
	queryTime = time.Second
)

// connected are the processes that a NATS connection reaches.
type connected struct {
	conn   *nats.Conn
	prefix messages.Prefix
	back   chan nats.Status // while serving
}

func (c *connected) reconnected() <-chan nats.Status { return c.back }

func (c *connected) serve(own *useLog) (stop func(), err error) {
	subject := HoldsSubject(c.prefix)
	sub, err := c.conn.Subscribe(subject, func(m *nats.Msg) {
		if found, ok := own.of(string(m.Data)); ok {
			// Fails with the connection, and then the claimer is not served
			// either.
			_ = m.Respond(encode(found))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	c.back = c.conn.StatusChanged(nats.CONNECTED)
	return func() {
		_ = sub.Unsubscribe()
		c.conn.RemoveStatusListener(c.back)
	}, nil
}

func (c *connected) query(ctx context.Context, key, hold string) (end int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	subject := HoldsSubject(c.prefix)
	inbox := subject + "." + hold
	answers, err := c.conn.SubscribeSync(inbox)
	if err != nil {
		return 0, fmt.Errorf("subscribe to %s: %w", inbox, err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	for range queries {
		if err := c.conn.PublishRequest(subject, inbox, []byte(key)); err != nil {
			return 0, fmt.Errorf("publish to %s: %w", subject, err)
		}
		found, err := collect(ctx, answers, hold)
		if err != nil {
			return 0, fmt.Errorf("query %s about worker ID %s: %w", subject, key, err)
		}
		end = max(end, found)
	}
	return end, nil
}

// collect returns the highest end in the answers. It waits for this process's
// own answer, which proves that the query reached the server, and then for
// others.
func collect(ctx context.Context, answers *nats.Subscription, hold string) (end int64, err error) {
	for own := false; !own; {
		found, err := nextUse(ctx, answers)
		if err != nil {
			return 0, fmt.Errorf("this process received no reply from itself; check its permissions: %w", err)
		}
		if own = found.Hold == hold; !own {
			end = max(end, found.End)
		}
	}
	rest, cancel := context.WithTimeout(ctx, queryTime/queries)
	defer cancel()
	for {
		found, err := nextUse(rest, answers)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return end, nil
		}
		if err != nil {
			return 0, err
		}
		if found.Hold != hold {
			end = max(end, found.End)
		}
	}
}

func nextUse(ctx context.Context, answers *nats.Subscription) (found holdUse, err error) {
	m, err := answers.NextMsgWithContext(ctx)
	if err != nil {
		return holdUse{}, err
	}
	if err := json.Unmarshal(m.Data, &found); err != nil || found.Hold == "" {
		return holdUse{}, fmt.Errorf("%w: answer %.100q", ErrCorrupt, m.Data)
	}
	return found, nil
}
