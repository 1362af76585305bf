package messages_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// counter answers requests with the next IDs, as a worker does.
type counter struct {
	last atomic.Int64
	mu   sync.Mutex
	sent []int64 // IDs requested, per request
}

// requested counts a request, and returns the number of IDs that it asks for.
func (c *counter) requested(t *testing.T, req *nats.Msg) int64 {
	n, err := messages.DecodeCount(req.Data, 10_000)
	if err != nil {
		t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, n)
	return n
}

// grant returns a reply with n IDs in two ranges, with a gap.
func (c *counter) grant(n int64) *nats.Msg {
	last := c.last.Add(n + 1)
	if n == 1 {
		return message(strconv.FormatInt(last, 10), "", "")
	}
	lower := messages.Range{First: last - n, Last: last - n/2 - 1}
	upper := messages.Range{First: last - n/2 + 1, Last: last}
	return message(lower.String()+"\n"+upper.String(), "", "")
}

// calls is concurrent calls of Next.
type calls struct {
	wg  sync.WaitGroup
	mu  sync.Mutex
	ids []int64
	bad []error
}

func (c *calls) start(ctx context.Context, n int, next func(context.Context) (int64, error)) {
	for range n {
		c.wg.Go(func() {
			id, err := next(ctx)
			c.mu.Lock()
			defer c.mu.Unlock()
			if err != nil {
				c.bad = append(c.bad, err)
				return
			}
			c.ids = append(c.ids, id)
		})
	}
}

// distinct waits for the calls, and checks that each of n has an ID of its own.
func (c *calls) distinct(t *testing.T, name string, n int) {
	t.Helper()
	c.wg.Wait()
	slices.Sort(c.ids)
	if ids := slices.Compact(c.ids); len(ids) != n || len(c.bad) > 0 {
		t.Errorf("%s: %d different IDs of %d calls, errors %v", name, len(ids), n, c.bad)
	}
}

func nextOf(client *messages.Client, tag string) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) { return client.Next(ctx, tag) }
}

// TestCallsTravelTogether: a call is sent at once and alone. Those that come
// before its reply share the next requests, of at most 256 IDs, which wait a
// millisecond at most.
func TestCallsTravelTogether(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		var worker counter
		var held []*nats.Msg
		requests := respond(t, nc, "order", func(_ int64, req *nats.Msg) {
			worker.requested(t, req)
			held = append(held, req)
		})
		var all calls
		all.start(within(t, long), 1, nextOf(client, "order"))
		synctest.Wait()
		if n := requests.Load(); n != 1 {
			t.Fatalf("%d requests at once, want 1", n)
		}
		all.start(within(t, long), 300, nextOf(client, "order"))
		synctest.Wait()
		if n := requests.Load(); n != 2 {
			t.Fatalf("%d requests with a full batch, want 2", n)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if want := []int64{1, 256, 44}; !slices.Equal(worker.sent, want) {
			t.Fatalf("requests for %v IDs, want %v", worker.sent, want)
		}
		for i, req := range held {
			send(t, req, worker.grant(worker.sent[i]))
		}
		all.distinct(t, "order", 301)
	})
}

// TestCallsJoinNothingSent: a strict tag's ID must be above all IDs returned
// before its call. So a call that begins after a request was sent is never
// answered by it.
func TestCallsJoinNothingSent(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		var worker counter
		// Grants at once, and replies late.
		respond(t, nc, "order", func(_ int64, req *nats.Msg) {
			reply := worker.grant(worker.requested(t, req))
			time.AfterFunc(20*time.Millisecond, func() { send(t, req, reply) })
		})
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				for range 20 {
					granted := worker.last.Load()
					if id, err := client.Next(within(t, long), "order"); err != nil || id <= granted {
						t.Errorf("ID %d, %v; %d was granted before the call", id, err, granted)
					}
					time.Sleep(time.Microsecond)
				}
			})
		}
		callers.Wait()
		if requests := len(worker.sent); requests > 1000 {
			t.Errorf("%d requests for 2000 IDs", requests)
		}
	})
}

// TestCallsLeave: a call whose context ends leaves its batch, and the others get
// their IDs. When all have left, nothing is sent any more.
func TestCallsLeave(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		var worker counter
		requests := respond(t, nc, "order", func(number int64, req *nats.Msg) {
			reply := worker.grant(worker.requested(t, req))
			if number == 1 {
				return // the token is out for 50 ms
			}
			time.AfterFunc(40*time.Millisecond, func() { send(t, req, reply) })
		})
		var stay, leave calls
		stay.start(within(t, long), 1, nextOf(client, "order"))
		synctest.Wait()
		stay.start(within(t, long), 20, nextOf(client, "order"))
		leave.start(within(t, 20*time.Millisecond), 10, nextOf(client, "order"))
		leave.wg.Wait()
		if len(leave.ids) > 0 || len(leave.bad) != 10 {
			t.Errorf("calls that end have IDs %v, errors %v", leave.ids, leave.bad)
		}
		for _, err := range leave.bad {
			if want := "request ids.segment.order: nats: timeout (context deadline exceeded after 1 tries)"; err.Error() != want || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, nats.ErrTimeout) {
				t.Errorf("error %v, want %s", err, want)
			}
		}
		stay.distinct(t, "calls that stay", 21)

		respond(t, nc, "silent", func(int64, *nats.Msg) { requests.Add(1) })
		ctx, cancel := context.WithCancel(t.Context())
		var gone calls
		gone.start(ctx, 30, nextOf(client, "silent"))
		synctest.Wait()
		cancel() // 29 gather still
		gone.wg.Wait()
		synctest.Wait()
		requests.Store(0)
		time.Sleep(time.Minute)
		if n := requests.Load(); n != 0 || len(gone.ids) > 0 {
			t.Errorf("%d requests after all calls have left", n)
		}
		// The lane is free again.
		stay = calls{}
		stay.start(within(t, long), 30, nextOf(client, "order"))
		stay.distinct(t, "later calls", 30)
	})
}

// TestCallsPart: if the IDs are used up, there may be some left, though too few
// for a batch. So each of its calls requests its own ID, once.
func TestCallsPart(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		const callers, left = 300, 100
		nc := srv.Connect(t)
		var worker counter
		respond(t, nc, "order", func(_ int64, req *nats.Msg) {
			if n := worker.requested(t, req); n > 1 || worker.last.Load() >= 2*left {
				send(t, req, message("", "507", "not so many"))
				return
			}
			send(t, req, worker.grant(1))
		})
		var all calls
		all.start(within(t, long), callers, nextOf(messages.NewClient(nc, messages.DefaultPrefix), "order"))
		all.wg.Wait()
		if len(all.ids) != left || len(all.bad) != callers-left || !errors.Is(all.bad[0], messages.ErrExhausted) {
			t.Errorf("%d IDs and %d errors, want %d and %d; %v", len(all.ids), len(all.bad), left, callers-left, all.bad[:1])
		}
		if single := slices.DeleteFunc(worker.sent, func(n int64) bool { return n > 1 }); len(single) > callers {
			t.Errorf("%d single requests of %d calls", len(single), callers)
		}
	})
}

// TestCallsHeedTheBatchLimit: batches shrink to the limit of the workers, and a
// minute later the client tries again whether they allow more.
func TestCallsHeedTheBatchLimit(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		for _, limit := range []int64{1, 100} {
			client := messages.NewClient(nc, messages.DefaultPrefix)
			tag := fmt.Sprint("limit-", limit)
			var worker counter
			var refused int
			respond(t, nc, tag, func(_ int64, req *nats.Msg) {
				if n := worker.requested(t, req); n > limit {
					refused++
					send(t, req, message("", "400", "too large"))
				} else {
					send(t, req, worker.grant(n))
				}
			})
			burst := func() (refusals int) {
				before := refused
				var all calls
				all.start(within(t, long), 500, nextOf(client, tag))
				all.distinct(t, tag, 500)
				return refused - before
			}
			if n := burst(); n == 0 {
				t.Errorf("%s: no batch was refused", tag)
			}
			for range 7 {
				burst()
			}
			if n := burst(); n != 0 {
				t.Errorf("%s: %d batches were refused, although the limit is known", tag, n)
			}
			time.Sleep(time.Minute + time.Second)
			if n := burst(); n == 0 {
				t.Errorf("%s: no larger batch after a minute", tag)
			}
		}
	})
}

// TestCallsOutlastSilence: a lost batch is sent again; after half a second of
// silence each call requests its own ID.
func TestCallsOutlastSilence(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		for lost, most := range map[int64]int{2: 5, 4: 6, 1000: 150} {
			tag := fmt.Sprint("lost-", lost)
			var worker counter
			respond(t, nc, tag, func(number int64, req *nats.Msg) {
				if n := worker.requested(t, req); number > lost || lost == 1000 && n == 1 && number > 1 {
					send(t, req, worker.grant(n))
				}
			})
			var all calls
			all.start(within(t, long), 100, nextOf(client, tag))
			all.distinct(t, tag, 100)
			if n := len(worker.sent); n > most {
				t.Errorf("%s: %d requests, want %d at most: %v", tag, n, most, worker.sent)
			}
		}
	})
}

// TestCallsFailTogether: an error that no retry cures ends all calls.
func TestCallsFailTogether(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		for tag, c := range map[string]struct {
			reply *nats.Msg
			want  error
		}{
			"gone":    {message("", "404", "no"), messages.ErrNoTag},
			"other":   {message("", "500", "no"), &messages.Error{Code: 500}},
			"garbage": {message("1-", "", ""), messages.ErrReply},
		} {
			// Replies once all calls have begun.
			requests := respond(t, nc, tag, func(_ int64, req *nats.Msg) {
				reply := &nats.Msg{Header: c.reply.Header, Data: c.reply.Data}
				time.AfterFunc(20*time.Millisecond, func() { send(t, req, reply) })
			})
			var all calls
			all.start(within(t, long), 50, nextOf(client, tag))
			all.wg.Wait()
			if len(all.ids) > 0 || len(all.bad) != 50 || !errors.Is(all.bad[0], c.want) || !errors.Is(all.bad[49], c.want) {
				t.Errorf("%s: IDs %v, errors %v", tag, all.ids, all.bad)
			}
			if n := requests.Load(); n > 3 {
				t.Errorf("%s: %d requests", tag, n)
			}
		}
	})
}

// stuckConn is a connection whose writes wait once it is stuck, until it is
// freed.
type stuckConn struct {
	net.Conn
	stuck       atomic.Bool
	waits, free chan struct{}
}

func (c *stuckConn) Write(b []byte) (int, error) {
	if c.stuck.Swap(false) {
		close(c.waits)
		<-c.free
	}
	return c.Conn.Write(b)
}

// Dial makes it the connection of [nats.SetCustomDialer].
func (c *stuckConn) Dial(network, address string) (_ net.Conn, err error) {
	c.Conn, err = net.Dial(network, address)
	return c, err
}

// TestCallsLeaveAStuckConnection: nats.go holds its lock while it writes. Calls
// of a batch end with their contexts nevertheless.
func TestCallsLeaveAStuckConnection(t *testing.T) {
	t.Parallel()
	conn := &stuckConn{waits: make(chan struct{}), free: make(chan struct{})}
	nc := natstest.Start(t).Connect(t, nats.SetCustomDialer(conn))
	free := sync.OnceFunc(func() { close(conn.free) })
	t.Cleanup(free)
	conn.stuck.Store(true)
	if err := nc.Publish("any", nil); err != nil {
		t.Fatal(err)
	}
	<-conn.waits
	client := messages.NewClient(nc, messages.DefaultPrefix)
	var all calls
	all.start(within(t, 20*time.Millisecond), 6, nextOf(client, "order"))
	natstest.Eventually(t, "all calls but the one that has the token have ended", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return len(all.bad) >= 5
	})
	free()
	all.wg.Wait()
}

// endedLate is a context that ends before its Done channel is closed.
type endedLate struct {
	context.Context
	ended *atomic.Bool
}

func (c endedLate) Err() error {
	if c.ended.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// TestCallsKnowTheLatestReason: a batch was met by silence and was then
// refused. A call whose context ends at that moment reports the refusal.
func TestCallsKnowTheLatestReason(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		var ended atomic.Bool
		respond(t, nc, "order", func(number int64, req *nats.Msg) {
			if len(req.Data) > 0 && number > 2 {
				ended.Store(true)
				send(t, req, message("", "429", "too many"))
			}
		})
		var alone, all calls
		alone.start(within(t, time.Second), 1, nextOf(client, "order"))
		synctest.Wait()
		all.start(endedLate{t.Context(), &ended}, 2, nextOf(client, "order"))
		all.wg.Wait()
		for _, err := range all.bad {
			if !errors.Is(err, messages.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want %v", err, messages.ErrBusy)
			}
		}
		alone.wg.Wait()
	})
}
