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

// HoldsSubject is where a process that has claimed a worker ID asks all running processes whether
// they use it, too. Answers go to a subject below it.
func HoldsSubject(p messages.Prefix) string { return string(p) + ".holds" }

// use is how far a worker ID was used by one process, as that process remembers it and as it answers.
type use struct {
	Hold string `json:"hold"` // the latest
	End  int64  `json:"end"`  // no timestamp from here on was used; inUse while the worker ID is held
}

const inUse = math.MaxInt64

// uses is the memory of a process for the worker IDs that it holds and has held. It outlives the
// holds, and does not depend on what the buckets say.
type uses struct {
	mu  sync.Mutex
	all map[string]use // by key; as many as there are worker IDs at most
}

// begin notes that a hold begins, and returns the first timestamp that this process has not used.
func (u *uses) begin(key, hold string) (end int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	end = u.all[key].End
	u.all[key] = use{hold, inUse}
	return end
}

// end notes that a hold has ended.
func (u *uses) end(key string, end int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all[key] = use{u.all[key].Hold, end}
}

func (u *uses) of(key string) (use, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	found, ok := u.all[key]
	return found, ok
}

// others are the running processes of the installation, this one included.
type others interface {
	// answer answers them from the memory of this process until stop is called.
	answer(own *uses) (stop func(), err error)

	// ask returns how far any of them has used a worker ID in another hold than the given one.
	ask(ctx context.Context, key, hold string) (end int64, err error)

	// reconnected receives when the connection was lost and is back.
	reconnected() <-chan nats.Status
}

// A claimer asks asks times, and waits for answers for askFor in all. So it hears those, too, whose
// connection was just lost and is back within half of that.
const (
	asks   = 2
	askFor = time.Second
)

// connected are the processes that a NATS connection reaches.
type connected struct {
	conn   *nats.Conn
	prefix messages.Prefix
	back   chan nats.Status // while answer is
}

func (c *connected) reconnected() <-chan nats.Status { return c.back }

func (c *connected) answer(own *uses) (stop func(), err error) {
	subject := HoldsSubject(c.prefix)
	sub, err := c.conn.Subscribe(subject, func(m *nats.Msg) {
		if found, ok := own.of(string(m.Data)); ok {
			_ = m.Respond(encode(found)) // fails with the connection, and then the claimer is not served either
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

func (c *connected) ask(ctx context.Context, key, hold string) (end int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	subject := HoldsSubject(c.prefix)
	inbox := subject + "." + hold
	answers, err := c.conn.SubscribeSync(inbox)
	if err != nil {
		return 0, fmt.Errorf("subscribe to %s: %w", inbox, err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	for range asks {
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

// collect returns the highest end that is answered. It waits for the answer of this very process, which
// shows that the question got to the server, and then for others.
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
	rest, cancel := context.WithTimeout(ctx, askFor/asks)
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

func nextUse(ctx context.Context, answers *nats.Subscription) (found use, err error) {
	m, err := answers.NextMsgWithContext(ctx)
	if err != nil {
		return use{}, err
	}
	if err := json.Unmarshal(m.Data, &found); err != nil || found.Hold == "" {
		return use{}, fmt.Errorf("%w: answer %.100q", ErrCorrupt, m.Data)
	}
	return found, nil
}
