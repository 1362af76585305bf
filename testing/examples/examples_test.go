// Package examples runs the programs in docs/example as their comments
// describe, each at an idworker serve of its own.
package examples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// bin is the folder with the programs.
var bin string

// TestMain leaves these tests to make example and make test-all.
func TestMain(m *testing.M) {
	if !tier.IsAll() {
		fmt.Println("left to make example")
		return
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "idworker-examples-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		_, err = process.Build(dir, "idworker", process.Command)
	}
	for _, name := range []string{"lease", "http", "enrich"} {
		if err == nil {
			_, err = process.Build(dir, name, "github.com/idworker/idworker/docs/example/"+name)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	bin = dir
	return m.Run()
}

// TestLease: processes that lease worker IDs never make the same ID, whether
// they lose their leases, end, or run beside an idworker serve.
func TestLease(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.serve()
	js := natstest.JetStream(t, s.connect())

	one, other := s.start("lease"), s.start("lease")
	awaitLines(t, one, 20)
	awaitLines(t, other, 20)

	fences, err := js.KeyValue(t.Context(), lease.ClockBucketName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	held, _, err := lease.List(t.Context(), js, messages.DefaultPrefix, kv.ByConsumer)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range held { // another holder's entry; a lease that is deleted is made again
		key := fmt.Sprint(h.Worker)
		fence, err := fences.Get(t.Context(), key)
		if err == nil {
			_, err = fences.Put(t.Context(), key, regexp.MustCompile(`"hold":"[^"]*"`).ReplaceAll(fence.Value(), []byte(`"hold":"another"`)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []*process.Running{one, other} {
		natstest.Eventually(t, "a process has lost its lease and has another", func() bool {
			_, after, lost := strings.Cut(p.Stderr.String(), lease.ErrLost.Error())
			return lost && strings.Contains(after, "error <nil>")
		})
		awaitLines(t, p, len(lines(p))+20)
	}
	one.Stop(t)
	next := s.start("lease")
	awaitLines(t, next, 20)
	next.Stop(t)
	other.Stop(t)

	ids := make(unique)
	for _, p := range []*process.Running{one, other, next} {
		for _, id := range lines(p) {
			ids.add(t, id)
		}
	}
	ranges, err := s.client().SnowflakeN(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	for id := range messages.IDs(ranges) {
		ids.add(t, fmt.Sprint(id))
	}
	t.Logf("%d IDs, no ID twice; each process lost a lease, or followed another", len(ids))
}

// TestHTTP: the service never gives two orders an ID. Without IDs it returns
// 503 with Retry-After.
func TestHTTP(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	address := freeport.Address(t)
	service := s.start("http", "LISTEN="+address)
	url := "http://" + address + "/orders"
	s.awaitUnavailable(url) // there is no server yet

	server := s.serve()
	ids := make(unique)
	var mu sync.Mutex
	var callers sync.WaitGroup
	const orders, parallel = 200, 8
	for range parallel {
		callers.Go(func() {
			for range orders / parallel {
				id, err := createOrder(t, url)
				for errors.Is(err, errUnavailable) && t.Context().Err() == nil {
					id, err = createOrder(t, url)
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ids.add(t, id)
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	server.Kill()
	s.awaitUnavailable(url)
	service.Stop(t)
	if len(ids) != orders {
		t.Errorf("%d orders with an ID, want %d", len(ids), orders)
	}
	t.Logf("%d orders, no ID twice; 503 with Retry-After before idworker started, and after it ended", len(ids))
}

// TestEnrich: the consumer stores each event once, though all are redelivered.
func TestEnrich(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.serve()
	js := natstest.JetStream(t, s.connect())

	const orders = 10 // of each run
	first := s.start("enrich")
	natstest.Eventually(t, "the streams exist", func() bool {
		_, err := js.Stream(t.Context(), "ORDERS_READY")
		return err == nil
	})
	s.idworker("enrich", "--server", s.url, "--from", "ORDERS", "--filter", "orders.raw.>", "--to", "orders.ready.>", "--id", "segment:order")
	awaitLines(t, first, orders)
	first.Kill()
	second := s.start("enrich")
	awaitLines(t, second, orders)
	second.Stop(t)
	// The next consumer gets all events again.
	if err := js.DeleteConsumer(t.Context(), "ORDERS_READY", "table"); err != nil {
		t.Fatal(err)
	}
	third := s.start("enrich")
	awaitLines(t, third, 3*orders)
	third.Stop(t)

	stored, known := make(unique), 0
	for _, p := range []*process.Running{first, second, third} {
		for _, line := range lines(p) {
			if id, ok := strings.CutPrefix(line, "stored "); ok {
				stored.add(t, id)
			} else {
				known++
			}
		}
	}
	table, err := js.KeyValue(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := table.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	copies := make(map[string]int)
	for _, key := range keys {
		e, err := table.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		copies[string(e.Value())]++
	}
	for n := range orders {
		event := fmt.Sprintf(`{"customer":"ada","cents":%d}`, 100+n)
		if copies[event] != 3 {
			t.Errorf("%d orders %s in the table, want one of each run: 3", copies[event], event)
		}
	}
	if len(keys) != 3*orders || len(stored) != 3*orders || known < orders {
		t.Errorf("%d orders in the table, %d stored, %d known; want %d, %d, and %d or more", len(keys), len(stored), known, 3*orders, 3*orders, orders)
	}
	t.Logf("%d events stored once; %d deliveries again", len(stored), known)
}

// errUnavailable is a 503 with Retry-After.
var errUnavailable = errors.New("503 with Retry-After")

// createOrder returns the ID of a new order.
func createOrder(t *testing.T, url string) (id string, err error) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewBufferString(`{"customer":"ada","cents":1999}`))
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	var order struct{ ID, Customer string }
	switch {
	case response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "":
		return "", errUnavailable
	case response.StatusCode != http.StatusCreated:
		return "", errors.New(response.Status)
	case json.NewDecoder(response.Body).Decode(&order) != nil || order.ID == "" || order.Customer != "ada":
		return "", fmt.Errorf("order %+v", order)
	}
	return order.ID, nil
}

// unique are the IDs so far.
type unique map[string]bool

func (u unique) add(t *testing.T, id string) {
	if u[id] {
		t.Errorf("ID %s twice", id)
	}
	u[id] = true
}

// site is an idworker serve, and the programs that use it.
type site struct {
	*testing.T
	url, address, data string
}

func newSite(t *testing.T) *site {
	address := freeport.Address(t)
	return &site{t, "nats://" + address, address, filepath.Join(t.TempDir(), "data")}
}

// serve starts idworker, and returns when it has IDs of the tag order.
func (s *site) serve() *process.Running {
	s.Helper()
	// Leases of 3 s shorten the test: a heartbeat detects the loss.
	server := s.idworker("serve", "--listen", s.address, "--data", s.data, "--lease-ttl", "3s")
	natstest.Eventually(s, "a tag is created", func() bool {
		create := s.idworker("tag", "create", "--server", s.url, "order")
		<-create.Ended
		return create.Cmd.ProcessState.Success() || strings.Contains(create.Stderr.String(), "exists")
	})
	natstest.Eventually(s, "there are IDs", func() bool {
		_, err := s.client().Next(s.Context(), "order")
		return err == nil
	})
	return server
}

func (s *site) connect() *nats.Conn {
	s.Helper()
	conn, err := nats.Connect(s.url, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(conn.Close)
	return conn
}

func (s *site) client() *messages.Client {
	s.Helper()
	return messages.NewClient(s.connect(), messages.DefaultPrefix)
}

func (s *site) idworker(args ...string) *process.Running {
	s.Helper()
	return s.launch("idworker", nil, args...)
}

// start starts an example.
func (s *site) start(name string, env ...string) *process.Running {
	s.Helper()
	return s.launch(name, append(env, "NATS_URL="+s.url))
}

// launch starts a program, which ends with the test; a failed test shows its
// log.
func (s *site) launch(name string, env []string, args ...string) *process.Running {
	s.Helper()
	return process.Program{Binary: filepath.Join(bin, name), Dir: s.TempDir(), Env: env}.Start(s, args...)
}

// awaitUnavailable waits until the service is without IDs.
func (s *site) awaitUnavailable(url string) {
	s.Helper()
	natstest.Eventually(s, "503 with Retry-After", func() bool {
		_, err := createOrder(s.T, url)
		return errors.Is(err, errUnavailable)
	})
}

// lines are the lines of output so far.
func lines(p *process.Running) []string {
	all := strings.Split(p.Stdout.String(), "\n")
	return all[:len(all)-1]
}

func awaitLines(t *testing.T, p *process.Running, n int) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprintf("%d lines of output", n), func() bool { return len(lines(p)) >= n })
}
