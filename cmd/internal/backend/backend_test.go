package backend_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

const (
	table  = "leaf_alloc"
	canary = "Canary-7f3e"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]struct {
		kind        backend.StoreKind
		name, table string
	}{
		"jetstream": {backend.JetStream, "jetstream", table},
		"mysql://u:" + canary + "@tcp(127.0.0.1:1)/shop":                             {backend.MySQL, "mysql shop.leaf_alloc", table},
		"mysql://u:" + canary + "@tcp(127.0.0.1:1)/shop?tls=true":                    {backend.MySQL, "mysql ids.leaf", "ids.leaf"},
		"mysql://u:" + canary + "@/#?%@tcp([::1]:1)/shop":                            {backend.MySQL, "mysql shop.leaf_alloc", table},
		"postgres://u:" + canary + "@127.0.0.1:1/shop":                               {backend.Postgres, "postgres shop.leaf_alloc", table},
		"postgresql://u:" + canary + "%40%2f%23@[::1]:1/shop?sslmode=disable":        {backend.Postgres, "postgres shop.ids.leaf", "ids.leaf"},
		"postgres://u:" + canary + "@127.0.0.1:1,127.0.0.1:2/shop?connect_timeout=1": {backend.Postgres, "postgres shop.leaf_alloc", table},
	} {
		b, err := backend.Parse(dsn, want.table)
		if err != nil || b.Kind() != want.kind || b.Name() != want.name {
			t.Errorf("%s: %s %q, %v; want %s %q", dsn, b.Kind(), b.Name(), err, want.kind, want.name)
		}
		for _, shown := range []string{fmt.Sprint(b), fmt.Sprintf("%+v", b), fmt.Sprintf("%#v", b)} {
			if strings.Contains(shown, canary) {
				t.Errorf("%s: shown as %s", dsn, shown)
			}
		}
	}
}

// TestParseErrors: a malformed DSN is rejected, and no error shows any of it.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"", " ", "://", "jetstream ", "JetStream", "jetstream://", "jetstream://" + canary, canary,
		"MYSQL://u:" + canary + "@tcp(127.0.0.1:1)/shop",
		"oracle://u:" + canary + "@127.0.0.1:1/shop",
		"u:" + canary + "@tcp(127.0.0.1:1)/shop",
	} {
		if _, err := backend.Parse(dsn, table); !errors.Is(err, backend.ErrScheme) || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: %v, want ErrScheme", dsn, err)
		}
	}
	for _, dsn := range []string{
		"mysql", "mysql://", "mysql://" + canary, "mysql://u:" + canary + "@:::/shop",
		"mysql://u:" + canary + "@tcp(127.0.0.1:1)/",
		"mysql://u:" + canary + "@tcp(127.0.0.1:1)/shop?strict=true",
		"mysql://u:" + canary + "@tcp(127.0.0.1:1)/shop?a=b%zz",
		"postgres", "postgres://u:" + canary + "@:::/shop", "postgres://u:" + canary + "@tcp(127.0.0.1:1)/shop",
		"postgres://u:a@" + canary + "@127.0.0.1:1/shop",
		"postgres://u:a/" + canary + "@127.0.0.1:1/shop",
		"postgres://u:a@" + canary + ":port/shop",
		"mysql://u:a@" + canary + ":port/shop",
		"postgres://u:a%zz" + canary + "@127.0.0.1:1/shop",
	} {
		_, err := backend.Parse(dsn, table)
		if err == nil || errors.Is(err, backend.ErrScheme) || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: %v, want an error about the DSN", dsn, err)
		}
	}
	for _, table := range []string{"", "a b", "a.b.c", "a;drop", strings.Repeat("a", 65)} {
		for _, dsn := range []string{"mysql://u:p@tcp(127.0.0.1:1)/shop", "postgres://u:p@127.0.0.1:1/shop"} {
			if _, err := backend.Parse(dsn, table); err == nil {
				t.Errorf("%s: table %q is accepted", dsn, table)
			}
		}
	}
}

// options returns the options of a register on its own server.
func options(t *testing.T) register.Config {
	t.Helper()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	if err := register.Create(t.Context(), js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	return register.Config{JetStream: js, Prefix: messages.DefaultPrefix}
}

// TestJetStream: the register alone is a store.
func TestJetStream(t *testing.T) {
	t.Parallel()
	b, err := backend.Parse("jetstream", table)
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Open(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Prepare(t.Context(), false, zap.NewNop()), s.CheckFirst(t.Context()),
		s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 1, Next: 1}), s.Close()); err != nil {
		t.Error(err)
	}
}

// TestDatabaseAway: an unreachable database can be opened and prepared.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"mysql://u:p@tcp(127.0.0.1:1)/shop", "postgres://u:p@127.0.0.1:1/shop"} {
		b, err := backend.Parse(dsn, table)
		if err != nil {
			t.Fatal(err)
		}
		o := options(t)
		for range 2 { // each handle is closed on its own
			s, err := b.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Database.Check(t.Context()); err == nil {
				t.Errorf("%s answers", dsn)
			}
			if err := errors.Join(s.Prepare(t.Context(), true, zap.NewNop()), s.Close()); err != nil {
				t.Errorf("%s: %v", dsn, err)
			}
		}
	}
}
