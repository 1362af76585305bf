package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// patient is patient where the product is not, for busy machines: requests
// queued for a second get 429, hanging store calls fail, starts time out,
// requests pass without a look, and delivered ones are given up.
var patient = timing{
	start: natstest.Patience, store: natstest.Patience, look: usualTiming.look, quiet: answersQuiet, queued: natstest.Patience,
	lost: natstest.Patience, learn: usualTiming.learn, pass: natstest.Patience,
}

// NewPatient is [New] for tests on busy machines.
func NewPatient(ctx context.Context, cfg Config) (*Process, error) {
	return newProcess(ctx, cfg, patient)
}

// NewWatchful returns a patient process that constantly looks for other
// installations.
func NewWatchful(ctx context.Context, cfg Config) (*Process, error) {
	watchful := patient
	watchful.look = 100 * time.Millisecond
	return newProcess(ctx, cfg, watchful)
}

// NewFarsighted is [NewWatchful], and waits for answers as long as usual.
func NewFarsighted(ctx context.Context, cfg Config) (*Process, error) {
	farsighted := patient
	farsighted.look, farsighted.quiet = 100*time.Millisecond, usualTiming.quiet
	return newProcess(ctx, cfg, farsighted)
}

// NewLearner is [NewPatient], and no look for decisions fails because it takes
// long. Without an answer of JetStream, requests may wait in vain.
func NewLearner(ctx context.Context, cfg Config) (*Process, error) {
	learner := patient
	learner.learn = natstest.Patience
	return newProcess(ctx, cfg, learner)
}

// Account is an account of a server that the tests share. It has its own
// subjects, streams and services, invisible to other tests.
type Account struct{ *server.Account }

// NewAccount makes an account for a test.
func NewAccount(t testing.TB) Account {
	t.Helper()
	account, err := shared.add()
	if err != nil {
		t.Fatal(err)
	}
	return Account{account}
}

// Connect returns a connection that is closed when the test ends.
func (a Account) Connect(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	return connectTo(t, shared.running.ClientURL(), append(opts, a.login())...)
}

func (a Account) login() nats.Option { return nats.UserInfo(a.Name, "") }

// connectTo connects for as long as the test runs.
func connectTo(t testing.TB, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	opts = append(opts, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0), nats.Timeout(natstest.Patience))
	conn, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// shared is the server, which starts when the first test needs it.
var shared sharedServer

type sharedServer struct {
	mu       sync.Mutex
	running  *server.Server
	folder   string
	accounts map[string]*server.Account
}

var errNotReady = errors.New("the NATS server of the tests is not ready")

// add makes an account.
func (s *sharedServer) add() (*server.Account, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		if err := s.start(); err != nil {
			return nil, err
		}
	}
	account, err := s.running.RegisterAccount(fmt.Sprint("test", len(s.accounts)))
	if err != nil {
		return nil, err
	}
	s.accounts[account.Name] = account
	return account, account.EnableJetStream(nil, nil)
}

func (s *sharedServer) start() (err error) {
	if s.folder, err = os.MkdirTemp("", "worker-test"); err != nil {
		return err
	}
	running, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, JetStreamMaxMemory: 256 << 20, JetStreamMaxStore: 4 << 30, StoreDir: s.folder,
		CustomClientAuthentication: s,
	})
	if err != nil {
		return err
	}
	running.Start()
	s.running, s.accounts = running, make(map[string]*server.Account)
	if !running.ReadyForConnections(natstest.Patience) {
		return errNotReady
	}
	return nil
}

// Check is part of server.Authentication: a user has the name of its account.
func (s *sharedServer) Check(c server.ClientAuthentication) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	account := s.accounts[c.GetOpts().Username]
	if account != nil {
		c.RegisterUser(&server.User{Username: account.Name, Account: account})
	}
	return account != nil
}

// StopSharedServer is called after all tests.
func StopSharedServer() {
	if shared.running != nil {
		shared.running.Shutdown()
		shared.running.WaitForShutdown()
	}
	_ = os.RemoveAll(shared.folder)
}

// QueueMembers returns the server's number of members of a subject's queue
// group.
func QueueMembers(t *testing.T, net Account, subject string) (n int) {
	t.Helper()
	subsz, err := shared.running.Subsz(&server.SubszOptions{Subscriptions: true, Limit: 100_000, Account: net.Name, Test: subject})
	if err != nil {
		t.Error(err)
		return 0
	}
	for _, s := range subsz.Subs {
		if s.Queue != "" {
			n++
		}
	}
	return n
}

// IsPassing reports whether a caller retries after an error: the machine is
// slow, or no process answers for the moment.
func IsPassing(err error) bool {
	for _, passing := range []error{messages.ErrBusy, messages.ErrUnavailable, nats.ErrNoResponders, nats.ErrTimeout, context.DeadlineExceeded, errUnflushed} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// Random chooses moments. Its seed is IDWORKER_SEED, if set.
type Random struct {
	mu   sync.Mutex
	from *rand.Rand
}

// NewRandom prints the seed.
func NewRandom(t testing.TB) *Random {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("IDWORKER_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("IDWORKER_SEED=%d", seed)
	return &Random{from: rand.New(rand.NewPCG(seed, 0))}
}

// N returns a number below n.
func (r *Random) N(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.from.IntN(n)
}

// Below returns a time below d.
func (r *Random) Below(d time.Duration) time.Duration { return time.Duration(r.N(int(d))) }
