package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
)

// slowStore takes its time to check a claim.
type slowStore struct {
	store.Reserver
	busy chan struct{}
}

func (s slowStore) Stopped() error                    { return nil }
func (s slowStore) Hear(context.Context, store.Claim) { <-s.busy }

// TestAskProvesNothing: a question that may not have reached all processes, or whose
// answers were not all heard, is an error, so it is asked again.
func TestAskProvesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(a *asker, question *nats.Msg)
		want   error
	}{
		"own answer": {func(a *asker, question *nats.Msg) { respond(t, question, a.self) }, nil},
		"no answer":  {func(*asker, *nats.Msg) {}, errNotAsked},
		"another's answer": {func(a *asker, question *nats.Msg) {
			other := a.self
			other.Instance = "other"
			respond(t, question, other)
		}, errNotAsked},
		"too many answers": {func(a *asker, question *nats.Msg) {
			other := a.self
			other.Instance = "other"
			for range 4 {
				respond(t, question, other)
			}
			respond(t, question, a.self)
		}, ErrCut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			net := natstest.Start(t)
			a := newAsker(t, net.Connect(t))
			if err := a.answers.SetPendingLimits(2, -1); err != nil {
				t.Fatal(err)
			}
			answers(t, net.Connect(t), func(question *nats.Msg) { c.answer(a, question) })
			time.AfterFunc(a.timing.quiet/2, func() { close(a.store.(slowStore).busy) })
			if err := a.ask(t.Context()); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// TestAskAcrossAReconnect: if the connection was lost after a question, others may
// not have got it, or their answers may be lost.
func TestAskAcrossAReconnect(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	way := proxy.Start(t, net.URL())
	a := newAsker(t, connectTo(t, way.URL(), nats.ReconnectBufSize(-1)))
	a.timing.quiet = askEvery // a single question, and time to reconnect
	answers(t, net.Connect(t), func(question *nats.Msg) { respond(t, question, a.self) })
	asked := make(chan error)
	go func() { asked <- a.ask(t.Context()) }()
	natstest.Eventually(t, "the process's own answer", func() bool { return a.answered.Load() > 0 })
	way.Cut()
	if err := <-asked; !errors.Is(err, errNotAsked) {
		t.Errorf("%v, want %v", err, errNotAsked)
	}
	natstest.Eventually(t, "asked again", func() bool { return a.ask(t.Context()) == nil })
}

// newAsker returns an asker with an open inbox.
func newAsker(t *testing.T, conn *nats.Conn) *asker {
	t.Helper()
	a := &asker{
		conn: conn, prefix: "ids", self: ProcessIdentity{Instance: "own", Installation: "I", Created: time.Unix(1, 0), Role: RoleLoader},
		timing: timing{quiet: answersQuiet}, log: zap.NewNop(), claims: func() []store.Claim { return nil },
		store: slowStore{busy: make(chan struct{})}, background: goroutines.New(),
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// answers answers the questions for reports.
func answers(t *testing.T, conn *nats.Conn, answer func(question *nats.Msg)) {
	t.Helper()
	_, err := conn.Subscribe("$SRV.STATS.idworker-process", answer)
	if err == nil {
		err = conn.FlushTimeout(natstest.Patience)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// respond answers for a process, with a claim.
func respond(t *testing.T, question *nats.Msg, p ProcessIdentity) {
	t.Helper()
	metadata, _ := json.Marshal(map[string]string{
		"instance": p.Instance, "prefix": "ids", "installation": p.Installation, "role": string(p.Role), "created": p.Created.Format(time.RFC3339Nano),
	})
	text := fmt.Sprintf(`{"name":"idworker-process","id":"x","version":"0.3.0","metadata":%s,"endpoints":[{"data":{"claims":[{"floor":1}]}}]}`, metadata)
	if err := question.Respond([]byte(text)); err != nil {
		t.Error(err)
	}
}
