package benching

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/cmd/internal/report"
	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// answers subscribes somebody who answers requests for one ID of the tag a with the numbers of a function.
func answers(t *testing.T, next func() int64) *messages.Client {
	t.Helper()
	conn, err := nats.Connect(natstest.Start(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	_, err = conn.Subscribe(messages.DefaultPrefix.Segment("a"), func(m *nats.Msg) {
		id := next()
		_ = m.Respond(messages.AppendRange(nil, messages.Range{First: id, Last: id}))
	})
	if err != nil {
		t.Fatal(err)
	}
	return messages.NewClient(conn, messages.DefaultPrefix)
}

func bench(client *messages.Client) *Bench {
	return &Bench{
		Flags:   Flags{Callers: 4, Batch: 1, Duration: time.Hour, Timeout: 5 * time.Second},
		Clients: []*messages.Client{client}, Targets: []Target{{Tag: "a"}},
	}
}

// TestAnIDThatComesTwiceIsFound, across callers, and is in the history.
func TestAnIDThatComesTwiceIsFound(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var n atomic.Int64
	b := bench(answers(t, func() int64 {
		switch id := n.Add(1); {
		case id > 1000:
			cancel()
			return id
		case id == 600:
			return 300
		default:
			return id
		}
	}))
	b.History = filepath.Join(t.TempDir(), "history")
	var out strings.Builder
	if err := b.Run(ctx, report.Printer{Writer: &out}); !errors.Is(err, ErrBroken) || !strings.Contains(out.String(), "FAIL  DUPLICATE: single a ") {
		t.Errorf("%v; %s", err, &out)
	}
	text, err := os.ReadFile(b.History)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), " 1 300\n"); got != 2 {
		t.Errorf("the ID 300 is in the history %d times, want 2", got)
	}
	if err := b.Run(ctx, report.Printer{Writer: io.Discard}); !errors.Is(err, os.ErrExist) {
		t.Errorf("with a history that exists: %v", err)
	}
}

// TestAnEndBeforeItsTime is no failure of the requests that were under way.
func TestAnEndBeforeItsTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var n atomic.Int64
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	b := bench(answers(t, func() int64 {
		id := n.Add(1)
		if id == 100 {
			cancel()
			<-forever
		}
		return id
	}))
	var out strings.Builder
	if err := b.Run(ctx, report.Printer{Writer: &out}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	if !strings.Contains(out.String(), "failed             0\n") || !strings.Contains(out.String(), "ok    9") {
		t.Errorf("it says\n%s", &out)
	}
}

// TestNobodyAnswers: a run without any ID fails as its requests do.
func TestNobodyAnswers(t *testing.T) {
	b := bench(answers(t, func() int64 { return 1 }))
	b.Targets, b.Duration, b.Timeout = []Target{{Tag: "b"}}, time.Millisecond, 200*time.Millisecond
	var out strings.Builder
	if err := b.Run(t.Context(), report.Printer{Writer: &out}); !errors.Is(err, nats.ErrNoResponders) || !strings.Contains(out.String(), " nobody to ask: ") {
		t.Errorf("%v; %s", err, &out)
	}
}

// TestServerElsewhere: load goes to another machine only if that is meant.
func TestServerElsewhere(t *testing.T) {
	url := natstest.Start(t).URL()
	for remote, here := range map[string]bool{"127.0.0.1:4222": true, "[::1]:4222": true, "192.0.2.1:4222": false, "[2001:db8::1]:4222": false} {
		conn, err := nats.Connect(url, nats.SetCustomDialer(dialer{remote}))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := new(Flags).CheckServer(conn); here != (err == nil) {
			t.Errorf("%s: %v", remote, err)
		}
		if err := (Flags{Remote: true}).CheckServer(conn); err != nil {
			t.Errorf("%s, meant: %v", remote, err)
		}
	}
}

// dialer says that who was dialled is somebody else.
type dialer struct{ remote string }

func (d dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return elsewhere{conn, d.remote}, err
}

type elsewhere struct {
	net.Conn
	remote string
}

func (e elsewhere) RemoteAddr() net.Addr { return address(e.remote) }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

func TestFlagsOutOfBounds(t *testing.T) {
	good := Flags{Callers: 16, Duration: time.Second, Batch: 1, Timeout: time.Second}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Flags){
		"--callers 0, allowed is 1 to 10000":     func(f *Flags) { f.Callers = 0 },
		"--duration 25h0m0s, allowed is":         func(f *Flags) { f.Duration = 25 * time.Hour },
		"--rate -1, allowed is":                  func(f *Flags) { f.Rate = -1 },
		"--batch 1000000001, allowed is 1":       func(f *Flags) { f.Batch = history.MaxCount + 1 },
		"--timeout 0s, allowed is 10ms to 1m0s":  func(f *Flags) { f.Timeout = 0 },
		"--callers 10001, allowed is 1 to 10000": func(f *Flags) { f.Callers = 10_001 },
	} {
		f := good
		change(&f)
		if err := f.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
