package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/worker/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSource counts upward. Some tags cause failures.
type fakeSource struct {
	next atomic.Int64

	mu     sync.Mutex
	asked  []string // tags, and api.Times
	traces []string // of requests, in order
	parked atomic.Int64
	// parked requests whose clients left
	gone  atomic.Int64
	grant chan struct{} // closed: parked requests are answered
}

func newSource() *fakeSource { return &fakeSource{grant: make(chan struct{})} }

var refusals = map[string]*messages.Error{
	"nosuch": {Code: messages.CodeNoTag, Text: "no such tag"},
	"busy":   {Code: messages.CodeBusy, Text: "too many parked requests"},
	"away":   {Code: messages.CodeUnavailable, Text: "no ID before the deadline"},
	"odd":    {Code: 200, Text: "no error"},
	"full":   {Code: messages.CodeExhausted, Text: "the numbers are used up"},
}

func (s *fakeSource) Segment(ctx context.Context, tag string, count []byte, kept bool, traceparent string) ([]byte, error) {
	s.mu.Lock()
	s.asked = append(s.asked, tag)
	s.traces = append(s.traces, traceparent)
	s.mu.Unlock()
	if no := refusals[tag]; no != nil {
		return nil, no
	}
	if tag == "strict" && kept {
		return nil, &messages.Error{Code: messages.CodeStrict, Text: "strict"}
	}
	if tag == "cold" {
		s.parked.Add(1)
		defer s.parked.Add(-1)
		select {
		case <-s.grant:
		case <-ctx.Done():
			s.gone.Add(1)
			return nil, ctx.Err()
		}
	}
	return s.take(count)
}

func (s *fakeSource) Snowflake(_ context.Context, count []byte, traceparent string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, api.Times)
	s.traces = append(s.traces, traceparent)
	return s.take(count)
}

func (s *fakeSource) take(count []byte) ([]byte, error) {
	n, err := messages.DecodeCount(count, 20_000)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeMalformed, Text: err.Error()}
	}
	last := s.next.Add(n)
	if n < 3 {
		return messages.AppendRange(nil, messages.Range{First: last - n + 1, Last: last}), nil
	}
	// Two ranges.
	reply := messages.AppendRange(nil, messages.Range{First: last - n + 1, Last: last - 1})
	return messages.AppendRange(reply, messages.Range{First: last, Last: last}), nil
}

// requests returns the requests to the source since the last call.
func (s *fakeSource) requests() (asked []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, s.asked = s.asked, nil
	return asked
}

// patience bounds the waits of tests, on any machine.
const patience = 4 * time.Minute

// start runs a server on a free port, with a source, until the test ends. It
// waits for clients as long as tests do.
func start(t testing.TB, cfg api.Config) (*api.Server, *fakeSource) {
	t.Helper()
	return startTimed(t, cfg, patience)
}

func startTimed(t testing.TB, cfg api.Config, senders time.Duration) (*api.Server, *fakeSource) {
	t.Helper()
	cfg = api.Timed(cfg, senders)
	if cfg.Address == "" {
		cfg.Address = "127.0.0.1:0"
	}
	s, err := api.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	source := newSource()
	s.Answer(source)
	return s, source
}

// answer is the answer of a server.
type answer struct {
	status int
	header http.Header
	body   string
	closed bool // the connection is closed after the answer
}

// exchange sends bytes on a new connection, and reads one answer.
func exchange(t testing.TB, s *api.Server, request string) answer {
	t.Helper()
	c := connect(t, s)
	defer func() { _ = c.Close() }()
	return c.exchange(t, request)
}

// client is a connection.
type client struct {
	net.Conn
	from *bufio.Reader
}

func connect(t testing.TB, s *api.Server) client {
	t.Helper()
	c, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	return client{c, bufio.NewReader(c)}
}

func (c client) send(t testing.TB, request string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
}

func (c client) exchange(t testing.TB, request string) answer {
	t.Helper()
	c.send(t, request)
	return c.receive(t)
}

func (c client) receive(t testing.TB) answer {
	t.Helper()
	a, err := c.read()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (c client) read() (a answer, err error) {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	r, err := http.ReadResponse(c.from, nil)
	if err != nil {
		return a, err
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	return answer{r.StatusCode, r.Header, string(body), r.Close}, err
}

// get is a request without additional headers.
func get(path string, headers ...string) string { return ask("GET", path, headers...) }

func ask(method, path string, headers ...string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n"
}

// file writes a file that the test can change.
func file(t testing.TB, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	rewrite(t, path, text)
	return path
}

// rewrite changes a file, and keeps its time: the files of an image, or behind
// a symlink, may all have the same.
func rewrite(t testing.TB, path, text string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0))); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain: ", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// idsOf reads a JSON reply of /v1.
func idsOf(t testing.TB, body string) (ids []int64) {
	t.Helper()
	if !strings.HasPrefix(body, `{"ids":["`) || !strings.HasSuffix(body, "\"]}\n") {
		t.Fatalf("%.100q is no reply", body)
	}
	for text := range strings.SplitSeq(body[len(`{"ids":["`):len(body)-len("\"]}\n")], `","`) {
		var id int64
		if _, err := fmt.Sscan(text, &id); err != nil || id < 1 || id == math.MaxInt64 {
			t.Fatalf("%q is no ID", text)
		}
		ids = append(ids, id)
	}
	return ids
}
