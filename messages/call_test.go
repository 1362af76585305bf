package messages_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// long is a deadline that no test should reach.
var long = natstest.Patience

// respond makes nc answer requests for a tag, with their numbers from 1 on.
func respond(t testing.TB, nc *nats.Conn, tag string, handle func(number int64, req *nats.Msg)) (requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	_, err := nc.Subscribe(messages.DefaultPrefix.Segment(tag), func(req *nats.Msg) { handle(requests.Add(1), req) })
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushWithContext(within(t, long)); err != nil {
		t.Fatal(err)
	}
	return requests
}

func send(t testing.TB, req, reply *nats.Msg) {
	if err := req.RespondMsg(reply); err != nil && !errors.Is(err, nats.ErrConnectionClosed) { // the test is over
		t.Errorf("respond: %v", err)
	}
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestClientAsksAgain: after each transient reply, and after none, the next
// request that is answered ends the call.
func TestClientAsksAgain(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		for name, trouble := range map[string]*nats.Msg{
			"busy":        message("", "429", "too many"),
			"unavailable": message("", "503", "no IDs"),
			"silence":     nil,
		} {
			for _, times := range []int64{1, 2, 4} {
				tag := name + strconv.FormatInt(times, 10)
				requests := respond(t, nc, tag, func(number int64, req *nats.Msg) {
					switch {
					case number > times:
						send(t, req, message(strconv.FormatInt(number, 10), "", ""))
					case trouble != nil:
						send(t, req, trouble)
					}
				})
				id, err := client.Next(within(t, long), tag)
				if n := requests.Load(); err != nil || id != times+1 || n != id {
					t.Errorf("%s: ID %d after %d requests, %v; want %d", tag, id, n, err, times+1)
				}
			}
		}
	})
}

// TestClientWaitsForWorker: at first there is no worker.
func TestClientWaitsForWorker(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		client := messages.NewClient(srv.Connect(t), messages.DefaultPrefix)
		got := make(chan error, 1)
		go func() {
			_, err := client.Next(within(t, long), "order")
			got <- err
		}()
		time.Sleep(10 * time.Second)
		answer(t, srv.Connect(t), "order", message("7", "", ""))
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// TestClientTakesEarlyAnswers: a late reply still counts after further
// requests.
func TestClientTakesEarlyAnswers(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		for _, early := range []int64{1, 2} {
			tag := fmt.Sprint("parked-", early)
			var parked *nats.Msg
			respond(t, nc, tag, func(number int64, req *nats.Msg) {
				switch number {
				case early:
					parked = req
				case 3:
					send(t, req, message("", "503", "no IDs"))
				case 4:
					send(t, parked, message("22", "", ""))
				}
			})
			if id, err := client.Next(within(t, long), tag); id != 22 || err != nil {
				t.Errorf("ID %d, %v; want 22, the reply to request %d", id, err, early)
			}
		}
	})
}

// TestClientGivesUp: when ctx ends, the error has that and the reason why there
// was no ID.
func TestClientGivesUp(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		answer(t, nc, "busy", message("", "429", "too many"))
		answer(t, nc, "unavailable", message("", "503", "no IDs"))
		respond(t, nc, "silent", func(int64, *nats.Msg) {})
		for _, tag := range []string{"hushed", "hushed.cancel"} { // answered once, and never again
			respond(t, nc, tag, func(number int64, req *nats.Msg) {
				if number == 1 {
					send(t, req, message("", "503", "no IDs"))
				}
			})
		}
		for tag, want := range map[string]error{
			"busy":        messages.ErrBusy,
			"unavailable": messages.ErrUnavailable,
			"silent":      nats.ErrTimeout,
			"hushed":      messages.ErrUnavailable,
			"nobody":      nats.ErrNoResponders,
		} {
			const patience = 3 * time.Second
			began := time.Now()
			id, err := client.Next(within(t, patience), tag)
			if id != 0 || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, want) {
				t.Errorf("%s: %d, %v; want a deadline and %v", tag, id, err, want)
				continue
			}
			if took := time.Since(began); took != patience {
				t.Errorf("%s: gave up after %v, want %v", tag, took, patience)
			}
			cause := map[string]string{"busy": "too many (429)", "unavailable": "no IDs (503)", "hushed": "no IDs (503)"}[tag]
			if cause == "" {
				cause = want.Error()
			}
			if text := err.Error(); !strings.HasPrefix(text, "request ids.segment."+tag+": "+cause+" (context deadline exceeded after ") || !strings.HasSuffix(text, " tries)") {
				t.Errorf("%s: text %q", tag, text)
			}

			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if tag == "hushed" {
				tag = "hushed.cancel"
			}
			if _, err := client.Next(ctx, tag); !errors.Is(err, context.Canceled) || !errors.Is(err, want) {
				t.Errorf("%s, cancelled: %v; want %v", tag, err, want)
			}
		}
	})
}

// TestClientPauses: the pauses between requests grow from 50 ms to 1 s, less up
// to a half at random, even if each is refused quickly. While there is no reply,
// they grow to 250 ms, and an unanswered first request is repeated after 50 ms.
func TestClientPauses(t *testing.T) {
	const ms = time.Millisecond
	refused := message("", "503", "no IDs")
	virtually(t, func(t *testing.T, srv virtual) {
		for tag, c := range map[string]struct {
			reply func(number int64) *nats.Msg
			grow  []time.Duration
		}{
			"unavailable": {func(int64) *nats.Msg { return refused },
				[]time.Duration{50 * ms, 50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second, time.Second}},
			"silent": {func(int64) *nats.Msg { return nil },
				[]time.Duration{50 * ms, 50 * ms, 100 * ms, 200 * ms, 250 * ms, 250 * ms, 250 * ms, 250 * ms, 250 * ms}},
			"between": {func(number int64) *nats.Msg {
				if number == 8 {
					return refused
				}
				return nil
			}, []time.Duration{50 * ms, 50 * ms, 100 * ms, 200 * ms, 250 * ms, 250 * ms, 250 * ms, 250 * ms, time.Second, 250 * ms}},
		} {
			came := make(chan time.Time, 100)
			respond(t, srv.Connect(t), tag, func(number int64, req *nats.Msg) {
				came <- time.Now()
				if reply := c.reply(number); reply != nil {
					send(t, req, reply)
				}
			})
			_, err := messages.NewClient(srv.Connect(t), messages.DefaultPrefix).Next(within(t, 10*time.Second), tag)
			if len(came) <= len(c.grow) {
				t.Fatalf("%s: %d requests in 10 s, %v", tag, len(came), err)
			}
			before := <-came
			for i, longest := range c.grow {
				shortest := longest / 2
				if tag != "unavailable" && i == 0 {
					shortest = longest
				}
				next := <-came
				if pause := next.Sub(before); pause < shortest || pause > longest {
					t.Errorf("%s: pause %d was %v, want %v to %v", tag, i+1, pause, shortest, longest)
				}
				before = next
			}
		}
		nc := srv.Connect(t)
		_, err := messages.NewClient(nc, messages.DefaultPrefix).Next(within(t, 10*time.Second), "nobody")
		if sent := nc.Stats().OutMsgs; sent < 10 || sent > 25 {
			t.Errorf("with nobody to ask %d requests in 10 s, want 10 to 25; %v", sent, err)
		}
	})
}

// TestClientTriesOften: a frozen worker receives its share of the tries, so
// their number decides how many calls fail. docs/protocol.md has the odds.
func TestClientTriesOften(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(srv.Connect(t), messages.DefaultPrefix)
		for patience, least := range map[time.Duration]int64{time.Second: 7, 5 * time.Second: 23} {
			for round := range 20 {
				tag := fmt.Sprint(patience.Milliseconds(), "-", round)
				requests := respond(t, nc, tag, func(int64, *nats.Msg) {})
				_, err := client.Next(within(t, patience), tag)
				if n := requests.Load(); n < least {
					t.Errorf("%d tries in %v, want %d at least: %v", n, patience, least, err)
				}
			}
		}
	})
}

// TestClientSubscribesOnce: servers limit the subscriptions of a connection, so
// all calls that retry share one, and each gets the reply to its own requests.
func TestClientSubscribesOnce(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		const calls, silent = 200, 3
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		var most atomic.Int64
		var callers sync.WaitGroup
		for n := range int64(calls) {
			tag := fmt.Sprint("order", n)
			respond(t, srv.Connect(t), tag, func(number int64, req *nats.Msg) {
				most.Store(max(most.Load(), int64(nc.NumSubscriptions())))
				if number > silent {
					send(t, req, message(strconv.FormatInt(n+1, 10), "", ""))
				}
			})
			callers.Go(func() {
				if id, err := client.Next(within(t, long), tag); id != n+1 || err != nil {
					t.Errorf("%s: ID %d, %v; want %d", tag, id, err, n+1)
				}
			})
		}
		callers.Wait()
		if n := most.Load(); n > 2 {
			t.Errorf("%d subscriptions, want 2 at most", n)
		}
	})
}

// TestClientContextOver: with an ended context nothing is sent.
func TestClientContextOver(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Connect(t)
	requests := respond(t, nc, "order", func(_ int64, req *nats.Msg) { send(t, req, message("1", "", "")) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if id, err := messages.NewClient(nc, messages.DefaultPrefix).Next(ctx, "order"); id != 0 || !errors.Is(err, context.Canceled) || errors.Is(err, nats.ErrTimeout) {
		t.Errorf("%d, %v", id, err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := nc.Drain(); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "all is handled", nc.IsClosed)
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestClientReturnsAtOnce: if a retry would not help, the client sends a single
// request.
func TestClientReturnsAtOnce(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		for i, c := range []struct {
			reply *nats.Msg
			want  error
		}{
			{message("", "400", "no"), messages.ErrMalformed},
			{message("", "404", "no"), messages.ErrNoTag},
			{message("", "507", "no"), messages.ErrExhausted},
			{message("", "500", "no"), &messages.Error{Code: 500}},
			{message("", "4x4", "no"), messages.ErrReply},
			{message("soon", "", ""), messages.ErrReply},
			{message("", "", ""), messages.ErrReply},
			{message("1-2", "", ""), messages.ErrReply},
			{message("1-4", "", ""), messages.ErrReply},
			{message("1-2\n2", "", ""), messages.ErrReply},
			{message("3-4\n1", "", ""), messages.ErrReply},
			{message("0-2", "", ""), messages.ErrReply},
			{message("9223372036854775806-9223372036854775808", "", ""), messages.ErrReply},
		} {
			// At the first try, and at a later try.
			for _, bad := range []int64{1, 3} {
				tag := fmt.Sprintf("at-once-%d-%d", i, bad)
				requests := respond(t, nc, tag, func(number int64, req *nats.Msg) {
					if number >= bad {
						send(t, req, c.reply)
					}
				})
				ranges, err := client.NextN(within(t, long), tag, 3)
				if ranges != nil || !errors.Is(err, c.want) {
					t.Errorf("reply %q %v: %v, %v; want %v", c.reply.Data, c.reply.Header, ranges, err, c.want)
				}
				if n := requests.Load(); n != bad {
					t.Errorf("reply %q %v: %d requests, want %d", c.reply.Data, c.reply.Header, n, bad)
				}
			}
		}
	})
}

// TestClientConnectionEnds: closing or draining the connection ends the call,
// whatever its context.
func TestClientConnectionEnds(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	for name, c := range map[string]struct {
		end  func(*nats.Conn)
		want []error
	}{
		"closed":  {func(nc *nats.Conn) { nc.Close() }, []error{nats.ErrConnectionClosed}},
		"drained": {func(nc *nats.Conn) { _ = nc.Drain() }, []error{nats.ErrConnectionDraining, nats.ErrConnectionClosed}},
	} {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		tag := "silent-" + name
		requests := respond(t, srv.Connect(t), tag, func(int64, *nats.Msg) {})
		got := make(chan error, 1)
		go func() {
			_, err := client.Next(context.Background(), tag)
			got <- err
		}()
		natstest.Eventually(t, "the call has asked again", func() bool { return requests.Load() > 1 })
		c.end(nc)
		check := func(when string, err error) {
			t.Helper()
			for _, want := range c.want {
				if errors.Is(err, want) {
					return
				}
			}
			t.Errorf("%s, %s: %v", name, when, err)
		}
		check("during a call", <-got)
		natstest.Eventually(t, "the connection is closed", nc.IsClosed)
		_, err := client.Next(context.Background(), tag)
		check("before a call", err)
	}
}

// TestClientOutlivesServer: while the server is down nothing is sent, and the
// call continues when it is back.
func TestClientOutlivesServer(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	worker, nc := srv.Connect(t), srv.Connect(t)
	answer(t, worker, "order", message("5", "", ""))
	client := messages.NewClient(nc, messages.DefaultPrefix)
	srv.Stop()
	natstest.Eventually(t, "the connection is lost", func() bool { return !nc.IsConnected() })
	natstest.Eventually(t, "the error says so", func() bool {
		_, err := client.Next(within(t, 100*time.Millisecond), "order")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("without a server: %v", err)
		}
		return errors.Is(err, nats.ErrDisconnected)
	})
	if n, _ := nc.Buffered(); n > 0 {
		// A subscription may be buffered there, a request may not.
		t.Logf("%d bytes wait for the connection", n)
	}
	if sent := nc.Stats().OutMsgs; sent != 0 {
		t.Errorf("%d requests sent without a connection", sent)
	}
	got := make(chan error, 1)
	go func() {
		_, err := client.Next(within(t, long), "order")
		got <- err
	}()
	srv.Restart()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestClientNotPermitted: the server refuses requests for some tags, or the
// call's inbox, and reports that on the connection only.
func TestClientNotPermitted(t *testing.T) {
	t.Parallel()
	allow := func(subjects ...string) *server.SubjectPermission {
		return &server.SubjectPermission{Allow: subjects}
	}
	srv := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "all"},
			{Username: "order", Permissions: &server.Permissions{Publish: allow("ids.segment.order", "ids.segment.slow"), Subscribe: allow("_INBOX.>")}},
			{Username: "deaf", Permissions: &server.Permissions{Publish: allow("ids.>"), Subscribe: allow("_MINE.>")}},
		}
	})
	answer(t, srv.Connect(t, nats.UserInfo("all", "")), "order", message("5", "", ""))
	as := func(user string, opts ...nats.Option) *messages.Client {
		quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
		return messages.NewClient(srv.Connect(t, append(opts, nats.UserInfo(user, ""), quiet)...), messages.DefaultPrefix)
	}
	order := as("order")
	// An old refusal is no refusal of another request.
	for range 2 {
		if id, err := order.Next(within(t, long), "invoice"); id != 0 || !errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a tag that is not allowed: %d, %v", id, err)
		}
		if _, err := order.Next(within(t, long), "order"); err != nil {
			t.Errorf("the tag that is allowed: %v", err)
		}
	}
	// Nor is an error about another action on the same subject.
	mute, err := nats.Connect(srv.URL(), nats.UserInfo("order", ""), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	if _, err := mute.SubscribeSync("ids.segment.slow"); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the subscription is refused", func() bool { return errors.Is(mute.LastError(), nats.ErrPermissionViolation) })
	respond(t, srv.Connect(t, nats.UserInfo("all", "")), "slow", func(number int64, req *nats.Msg) {
		if number > 2 {
			send(t, req, message("3", "", ""))
		}
	})
	if _, err := messages.NewClient(mute, messages.DefaultPrefix).Next(within(t, long), "slow"); err != nil {
		t.Errorf("a tag that is allowed, after a refusal of something else: %v", err)
	}
	deaf := as("deaf")
	for range 2 {
		var all calls
		all.start(within(t, long), 10, nextOf(deaf, "order"))
		all.wg.Wait()
		for _, err := range all.bad {
			if !errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an inbox that is not allowed: %v", err)
			}
		}
		if len(all.bad) != 10 {
			t.Errorf("an inbox that is not allowed: IDs %v", all.ids)
		}
	}
	if _, err := as("deaf", nats.CustomInboxPrefix("_MINE")).Next(within(t, long), "order"); err != nil {
		t.Errorf("an inbox of its own: %v", err)
	}
}

// TestClientSubscribesAgain: the right to the inbox is revoked, another refusal
// hides that, and the right comes back. Then calls are answered again.
func TestClientSubscribesAgain(t *testing.T) {
	t.Parallel()
	var options *server.Options
	mayReceive := func(o *server.Options, inbox string) {
		o.Users = []*server.User{{Username: "all"}, {Username: "order", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"ids.>"}},
			Subscribe: &server.SubjectPermission{Allow: []string{inbox}},
		}}}
	}
	srv := natstest.Start(t, func(o *server.Options) {
		mayReceive(o, "_INBOX.>")
		options = o
	})
	answer(t, srv.Connect(t, nats.UserInfo("all", "")), "order", message("5", "", ""))
	nc := srv.Connect(t, nats.UserInfo("order", ""), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	client := messages.NewClient(nc, messages.DefaultPrefix)
	if _, err := client.Next(within(t, long), "order"); err != nil {
		t.Fatal(err)
	}
	reload := func(inbox string) {
		t.Helper()
		o := options.Clone()
		mayReceive(o, inbox)
		if err := srv.Running().ReloadOptions(o); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string) {
		t.Helper()
		natstest.Eventually(t, "refusal of "+what, func() bool {
			err := nc.LastError()
			return err != nil && strings.Contains(err.Error(), what)
		})
	}
	reload("_NONE.>")
	refused("_INBOX.")
	if err := nc.Publish("forbidden", nil); err != nil {
		t.Fatal(err)
	}
	refused("forbidden")
	reload("_INBOX.>")
	if _, err := client.Next(within(t, long), "order"); err != nil {
		t.Errorf("the right came back: %v", err)
	}
}

// TestClientLeavesNothingBehind: after a call, no subscription is left but the
// inbox that all requests share.
func TestClientLeavesNothingBehind(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client := messages.NewClient(nc, messages.DefaultPrefix)
		_, _ = client.Next(within(t, time.Second), "nobody")
		before := nc.NumSubscriptions()
		for range 5 {
			_, _ = client.Next(within(t, time.Second), "nobody")
		}
		if n := nc.NumSubscriptions(); n != before || n > 1 {
			t.Errorf("%d subscriptions, were %d", n, before)
		}
	})
}
