package messages_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// logged is what a client logs, without times.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// lines returns what was logged since the last call.
func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.TrimSpace(l.text.String())
	l.text.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// want fails the test unless the lines since the last call match.
func (l *logged) want(t *testing.T, when string, patterns ...string) {
	t.Helper()
	lines := l.lines()
	if len(lines) != len(patterns) {
		t.Fatalf("%s: logged %q, want %q", when, lines, patterns)
	}
	for i, pattern := range patterns {
		if !regexp.MustCompile("^" + pattern + "$").MatchString(lines[i]) {
			t.Errorf("%s: logged %q, want %q", when, lines[i], pattern)
		}
	}
}

// TestOutageIsLogged: the first call that fails because no worker serves it is
// logged, and the first success after it, with what was between them. It is the
// same for single IDs, batches and prefetchers.
func TestOutageIsLogged(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client, log := messages.NewClient(nc, messages.DefaultPrefix), &logged{}
		client.Log = log.logger()
		prefetcher, err := client.Prefetch("order", messages.PrefetchConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer prefetcher.Close()
		for i, ask := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := client.Next(ctx, "order"); return err },
			func(ctx context.Context) error { _, err := client.NextN(ctx, "order", 2); return err },
			func(ctx context.Context) error { _, err := prefetcher.Next(ctx); return err },
		} {
			what := fmt.Sprint("way ", i)
			for range 3 {
				if err := ask(within(t, time.Second)); err == nil {
					t.Fatalf("%s: no error", what)
				}
			}
			log.want(t, what, `level=WARN msg="ID requests fail" subject=ids.segment.order error=".*no worker answered.*"`)
			requests, err := nc.Subscribe("ids.segment.order", func(req *nats.Msg) {
				n, _ := messages.DecodeCount(req.Data, 1000)
				if err := req.Respond(messages.AppendRange(nil, messages.Range{First: 1, Last: n})); err != nil {
					t.Error(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if err := ask(within(t, long)); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if i == 0 { // a success right after a failure ends nothing
					log.want(t, what)
					time.Sleep(time.Second)
				}
			}
			log.want(t, what, `level=INFO msg="ID requests succeed again" subject=ids.segment.order failed=3 after=\S+`)
			if err := requests.Unsubscribe(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestMistakesAreNoOutage: what a caller does wrong or cancels, and an answer that
// a retry does not mend, are not logged.
func TestMistakesAreNoOutage(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client, log := messages.NewClient(nc, messages.DefaultPrefix), &logged{}
		client.Log = log.logger()
		answer(t, nc, "nosuch", message("", "404", "no such tag"))
		answer(t, nc, "busy", message("", "429", "too many"))
		for _, tag := range []string{"nosuch", "busy", "not a tag"} {
			if _, err := client.Next(within(t, time.Second), tag); err == nil {
				t.Errorf("%s: no error", tag)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := client.Next(ctx, "nobody"); err == nil {
			t.Error("cancelled: no error")
		}
		log.want(t, "after mistakes")
	})
}

// TestOutagesAreBounded: of many subjects, the first ones are logged, and others
// once these have not failed for a minute.
func TestOutagesAreBounded(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		client, log := messages.NewClient(srv.Connect(t), messages.DefaultPrefix), &logged{}
		client.Log = log.logger()
		ask := func(from, to int) {
			for i := from; i < to; i++ {
				if _, err := client.Next(within(t, time.Second), fmt.Sprint("order-", i)); err == nil {
					t.Fatal("no error")
				}
			}
		}
		ask(0, 20)
		if n := len(log.lines()); n != 16 {
			t.Errorf("%d lines, want 16", n)
		}
		time.Sleep(2 * time.Hour)
		ask(16, 18)
		if n := len(log.lines()); n != 2 {
			t.Errorf("%d lines after two hours, want 2", n)
		}
	})
}

// TestPartialOutageIsOneOutage: while some calls fail and others do not, nothing
// more is logged.
func TestPartialOutageIsOneOutage(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		client, log := messages.NewClient(nc, messages.DefaultPrefix), &logged{}
		client.Log = log.logger()
		calls := 0
		if _, err := nc.Subscribe("ids.segment.order", func(req *nats.Msg) {
			if calls++; calls%2 == 0 {
				_ = req.Respond([]byte("1"))
			}
		}); err != nil {
			t.Fatal(err)
		}
		failed := 0
		for range 100 {
			// Shorter than the pause before the second try.
			if _, err := client.Next(within(t, 10*time.Millisecond), "order"); err != nil {
				failed++
			}
		}
		if failed == 0 || failed == 100 {
			t.Fatalf("%d of 100 calls failed", failed)
		}
		log.want(t, "a partial outage", `level=WARN msg="ID requests fail" .*`)
	})
}

// TestConnectionIsGivenUp: a connection that stops reconnecting is logged, and so
// are the calls that fail from then on.
func TestConnectionIsGivenUp(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	nc := srv.Connect(t, nats.MaxReconnects(1), nats.ReconnectWait(10*time.Millisecond))
	client, log := messages.NewClient(nc, messages.DefaultPrefix), &logged{}
	client.Log = log.logger()
	_, _ = client.Next(within(t, 10*time.Millisecond), "nobody")
	srv.Stop()
	var all string
	natstest.Eventually(t, "both are logged", func() bool {
		_, _ = client.Next(within(t, 10*time.Millisecond), "order")
		all += strings.Join(log.lines(), "\n")
		return strings.Contains(all, "subject=ids.segment.order") && strings.Contains(all, "NATS connection given up")
	})
	if strings.Contains(all, "<nil>") {
		t.Error(all)
	}
}

// TestLostConnectionIsLogged once, by whichever of its clients was used first.
func TestLostConnectionIsLogged(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Connect(t)
	log := &logged{}
	for range 2 {
		client := messages.NewClient(nc, messages.DefaultPrefix)
		client.Log = log.logger()
		if _, err := client.Next(within(t, 10*time.Millisecond), "order"); err == nil {
			t.Fatal("no error")
		}
	}
	log.lines()
	var all []string
	natstest.Eventually(t, "two lines", func() bool {
		if len(all) == 0 { // the client may not have begun to listen before the first
			if err := nc.ForceReconnect(); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, log.lines()...)
		return len(all) > 0 && len(all)%2 == 0
	})
	for i, line := range all {
		// A connection that is being made again by now has no server.
		want := []string{`level=WARN msg="NATS connection lost"`, `level=INFO msg="NATS connection restored" server=`}[i%2]
		if !strings.HasPrefix(line, want) {
			t.Errorf("line %d: %q, want %q", i, line, want)
		}
	}
}
