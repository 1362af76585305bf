package register

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/storetest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

const prefix = messages.DefaultPrefix

// connect returns a configuration on its own connection.
func connect(t testing.TB, srv *natstest.Node) Config {
	t.Helper()
	return Config{JetStream: natstest.JetStream(t, srv.Connect(t, nats.ReconnectBufSize(-1))), Prefix: prefix}
}

// handle opens a register, and creates it if it is missing.
func handle(t testing.TB, cfg Config) *Register {
	t.Helper()
	if err := Create(t.Context(), cfg.JetStream, cfg.Prefix, 1); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stale is a store whose cache is out of date whenever it reserves.
type stale struct{ *Register }

func (s stale) Reserve(ctx context.Context, tag string, wants []store.Want) (store.Reservation, error) {
	if r, err := s.remote.read(ctx, tag); err == nil && r.exists() {
		// Another process may be faster.
		_, _ = s.remote.update(ctx, tag, r.encode(), r.revision)
	}
	return s.Register.Reserve(ctx, tag, wants)
}

// TestContract: the register alone is a store.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*Register) storetest.Store{
		"fresh": func(s *Register) storetest.Store { return s },
		"stale": func(s *Register) storetest.Store { return stale{s} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := func(t *testing.T) func() storetest.Store {
				srv := natstest.Start(t)
				return func() storetest.Store { return wrap(handle(t, connect(t, srv))) }
			}
			storetest.Run(t, backend)
			storetest.RunRemembers(t, backend)
		})
	}
}

// tabled is a register in front of a table. Racing processes discard ranges.
type tabled struct{ storetest.Store }

func (tabled) MayBurn() {}

// TestContractOfTables: the register in front of Leaf's table is a store.
func TestContractOfTables(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]leaftest.Dialect{"MySQL": leaftest.MySQL, "PostgreSQL": leaftest.Postgres} {
		for cache, wrap := range map[string]func(*Register) storetest.Store{
			"fresh": func(s *Register) storetest.Store { return s },
			"stale": func(s *Register) storetest.Store { return stale{s} },
		} {
			t.Run(name+"/"+cache, func(t *testing.T) {
				t.Parallel()
				backend := func(t *testing.T) func() storetest.Store {
					srv, open := natstest.Start(t), b.Handles(t, b.Database(t))
					return func() storetest.Store {
						cfg := connect(t, srv)
						cfg.Table, cfg.TableName = open(), name
						return tabled{wrap(handle(t, cfg))}
					}
				}
				storetest.Run(t, backend)
				storetest.RunRemembers(t, backend)
			})
		}
	}
}
