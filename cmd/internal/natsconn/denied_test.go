package natsconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

func TestDenied(t *testing.T) {
	bucket := kv.LastingBucket(kv.Lasting{Bucket: "b"})
	missing := fmt.Errorf("start: %w", &kv.MissingError{Resource: bucket, Err: context.DeadlineExceeded})
	const refuses = "the NATS server denies this user a right: "
	for _, test := range []struct {
		violation string
		failed    error
		text      string
		inbox     bool
	}{
		{`Permissions Violation for Publish to "a.b"`, nil, refuses + `Permissions Violation for Publish to "a.b"`, false},
		{`Permissions Violation for Publish to "a.b"`, context.DeadlineExceeded, refuses + `Permissions Violation for Publish to "a.b"`, false},
		{`Permissions Violation for Subscription to "_INBOX.x.*"`, nil, refuses + `Permissions Violation for Subscription to "_INBOX.x.*"`, true},
		{`Permissions Violation for Publish to "_INBOX.x"`, nil, refuses + `Permissions Violation for Publish to "_INBOX.x"`, false},
		{`Permissions Violation for Publish to "$JS.API.STREAM.CREATE.KV_b"`, missing,
			`bucket b is missing, and this NATS user may not create it: Permissions Violation for Publish to "$JS.API.STREAM.CREATE.KV_b"`, false},
	} {
		got := Denied(fmt.Errorf("%w: %s", nats.ErrPermissionViolation, test.violation), test.failed)
		if kind, _ := got.Problem(); got.Error() != test.text || (kind == problem.DeniedInbox) != test.inbox {
			t.Errorf("%q (%v), want %q (inbox %v)", got, kind, test.text, test.inbox)
		}
		if errors.Is(got, context.DeadlineExceeded) {
			t.Errorf("%q looks like a timeout", got)
		}
	}
}

// TestOwn: subjects are a process's own if it needs them. Callers choose others,
// even if they look like JetStream's.
func TestOwn(t *testing.T) {
	need := rights.Publish("$JS.API.STREAM.INFO.KV_b")
	for _, test := range []struct {
		domain, violation string
		want              bool
	}{
		{"", `Subscription to "ids.segment.>" using queue "ids"`, true},
		{"", `Publish to "$JS.API.STREAM.INFO.KV_b"`, true},
		{"", `Publish to "$JS.API.STREAM.INFO.KV_c"`, false},
		{"", `Publish to "$JS.hub.API.STREAM.INFO.KV_b"`, false},
		{"hub", `Publish to "$JS.hub.API.STREAM.INFO.KV_b"`, true},
		{"hub", `Publish to "$JS.other.API.STREAM.INFO.KV_b"`, false},
		{"*", `Publish to "$JS.any.API.STREAM.INFO.KV_b"`, true},
		{"*", `Publish to "$JS.API"`, false},
		{"*", `Publish to "_INBOX.caller.1"`, false},
	} {
		v, ok := rights.ViolationOf(fmt.Errorf("%w: Permissions Violation for %s", nats.ErrPermissionViolation, test.violation))
		if got := OwnOf(need, test.domain)(v); !ok || got != test.want {
			t.Errorf("%s in domain %q: own %v, want %v", test.violation, test.domain, got, test.want)
		}
	}
}

// TestClaimsMayBeDenied: a user with the rights of version 0.2.0 may not publish
// claims to loaders. That is no fault of the process, which works without.
func TestClaimsMayBeDenied(t *testing.T) {
	for violation, want := range map[string]bool{
		`Publish to "ids.process.loader"`:      false,
		`Publish to "b.process.loader"`:        false,
		`Publish to "ids.reserve"`:             true,
		`Publish to "a.b.process.loader"`:      true,
		`Subscription to "ids.process.loader"`: true,
	} {
		v, ok := rights.ViolationOf(fmt.Errorf("%w: Permissions Violation for %s", nats.ErrPermissionViolation, violation))
		if got := OwnAny(v); !ok || got != want {
			t.Errorf("%s: own %v, want %v", violation, got, want)
		}
	}
	ns := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: canary, Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{">"}}}}}
	})
	core, logs := observer.New(zapcore.InfoLevel)
	conn, err := nats.Connect(ns.URL(), append(Stay("test", OwnAny, zap.New(core)), nats.UserInfo("u", canary))...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Publish("ids.process.loader", nil); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "a line", func() bool { return logs.Len() > 0 })
	if line := logs.All()[0]; line.Level != zapcore.InfoLevel || line.ContextMap()["subject"] != "ids.process.loader" {
		t.Errorf("%v %s %v", line.Level, line.Message, line.ContextMap())
	}
}

// TestWhenDenied: a denied right ends the wait for a reply, and explains it.
// Other errors do not change, and go to the previous handler.
func TestWhenDenied(t *testing.T) {
	ns := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"allowed"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}}}
	})
	core, logs := observer.New(zapcore.InfoLevel)
	own := OwnOf(rights.Publish("forbidden", "$JS.API.STREAM.INFO.KV_b"), "hub")
	conn := ns.Connect(t, append(Stay("test", own, zap.New(core)), nats.UserInfo("u", "p"))...)
	within := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(t.Context(), natstest.Patience)
	}
	var denied *DeniedError

	ctx, cancel := within()
	defer cancel()
	_, explain := WhenDenied(ctx, own, conn)
	if err := explain(nil); err != nil {
		t.Errorf("nothing was denied: %v", err)
	}
	ctx, cancel2 := within()
	defer cancel2()
	ctx, explain = WhenDenied(ctx, own, conn)
	_, err := conn.RequestWithContext(ctx, "forbidden", nil)
	if err = explain(err); !errors.As(err, &denied) {
		t.Errorf("a request: %v, want DeniedError", err)
	}

	// A denied subscription is not an error for the subscriber.
	ctx, cancel3 := within()
	defer cancel3()
	ctx, explain = WhenDenied(ctx, own, conn)
	if _, err := conn.SubscribeSync("forbidden.too"); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := explain(nil); !errors.As(err, &denied) {
		t.Errorf("a subscription: %v, want DeniedError", err)
	}
	if logs.Len() != 0 {
		t.Errorf("logged although it was explained: %v", logs.All())
	}

	// Nor are subjects that others have chosen the process's own.
	ctx, cancel4 := within()
	defer cancel4()
	ctx, explain = WhenDenied(ctx, own, conn)
	for _, inbox := range []string{"_INBOX.caller", "$JS.API.STREAM.INFO.any", "$JS.other.API.STREAM.INFO.any", "$JS.API"} {
		if err := conn.Publish(inbox, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.FlushWithContext(ctx); err != nil {
		t.Errorf("replies to callers' inboxes: %v", err)
	}
	if err := explain(nil); err != nil {
		t.Errorf("replies to callers' inboxes: %v", err)
	}

	// Later errors go to the connection's own handler.
	if err := conn.Publish("forbidden", nil); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "a later one is logged", func() bool {
		return logs.FilterMessage("NATS error").Len() == 1
	})
	if n := logs.FilterMessage("reply to a caller denied").Len(); n != 1 {
		t.Errorf("%d log lines about callers' inboxes, want 1 a minute", n)
	}
}

// TestDenialEndsItsOwnWork: of concurrent requests on a connection, a denial ends
// those that need the right, and no other.
func TestDenialEndsItsOwnWork(t *testing.T) {
	ns := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"allowed", "_INBOX.>"}},
		}}}
	})
	conn := ns.Connect(t, nats.UserInfo("u", "p"))
	answer, err := conn.Subscribe("allowed", func(m *nats.Msg) { _ = m.Respond(nil) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Unsubscribe() }()
	denials := WatchDenials(conn)
	var all sync.WaitGroup
	for _, subject := range []string{"forbidden", "allowed", "forbidden", "forbidden.too"} {
		ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
		defer cancel()
		ctx, explain := denials.When(ctx, OwnOf(rights.Publish(subject), ""))
		all.Go(func() {
			_, err := conn.RequestWithContext(ctx, subject, nil)
			if err != nil {
				err = explain(err)
			}
			if IsDenied(err) != (subject != "allowed") || err != nil && !strings.Contains(err.Error(), `"`+subject+`"`) {
				t.Errorf("%s: %v", subject, err)
			}
		})
	}
	all.Wait()
}

// TestStay: the log has the loss of a connection and its return, without the
// login in the URL.
func TestStay(t *testing.T) {
	ns := natstest.Start(t, func(o *server.Options) { o.Username, o.Password = "u", canary })
	core, logs := observer.New(zapcore.InfoLevel)
	var login nats.Options
	if err := Servers("nats://u:" + canary + "@" + ns.URL()[len("nats://"):])(&login); err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect(login.Servers[0], Stay("test", OwnAny, zap.New(core))...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ns.Stop()
	natstest.Eventually(t, "the loss is logged", func() bool {
		return logs.FilterMessage("NATS connection lost, reconnecting").Len() == 1
	})
	ns.Restart()
	natstest.Eventually(t, "the return is logged", func() bool {
		return logs.FilterMessage("NATS connection restored").Len() == 1
	})
	if shown := logs.FilterMessage("NATS connection restored").All()[0].ContextMap()["url"]; shown != "nats://xxxxx@"+ns.URL()[len("nats://"):] {
		t.Errorf("shown as %v", shown)
	}
}

// TestStayIsBackSoon: after a restart of its server, with TLS too, a process is
// back before another that started has checked its worker ID for the second
// time (package lease).
func TestStayIsBackSoon(t *testing.T) {
	options := nats.GetDefaultOptions()
	for _, option := range Stay("test", OwnAny, zap.NewNop()) {
		if err := option(&options); err != nil {
			t.Fatal(err)
		}
	}
	if longest := options.ReconnectWait + max(options.ReconnectJitter, options.ReconnectJitterTLS); longest > 500*time.Millisecond {
		t.Errorf("it may wait for %v", longest)
	}
}
