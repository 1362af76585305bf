package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/store/ledger"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

var prefixes atomic.Int64

// installation is a config bucket and a ledger bucket on a server.
type installation struct {
	t      *testing.T
	srv    *natstest.Server
	prefix messages.Prefix
}

func install(t *testing.T, srv *natstest.Server) installation {
	t.Helper()
	i := installation{t, srv, messages.Prefix(fmt.Sprintf("ids%d", prefixes.Add(1)))}
	js := i.js()
	if err := agreement.Bucket(i.prefix, 1).Ensure(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Create(t.Context(), js, i.prefix, 1); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i installation) js() jetstream.JetStream {
	i.t.Helper()
	return natstest.JetStream(i.t, i.srv.Connect(i.t))
}

// loader is a ledger around a store, as another process would have it.
func (i installation) loader(inner store.Store, mode ledger.Mode) *ledger.Store {
	return i.logging(inner, mode, nil)
}

func (i installation) logging(inner store.Store, mode ledger.Mode, log *zap.Logger) *ledger.Store {
	return ledger.New(inner, ledger.Config{JetStream: i.js(), Prefix: i.prefix, Mode: mode, StoreName: "test", Log: log})
}

func (i installation) bucket() jetstream.KeyValue {
	i.t.Helper()
	kv, err := i.js().KeyValue(i.t.Context(), ledger.BucketName(i.prefix))
	if err != nil {
		i.t.Fatal(err)
	}
	return kv
}

// high is what the ledger says of a tag, or 0.
func (i installation) high(tag string) string {
	i.t.Helper()
	entry, err := i.bucket().Get(i.t.Context(), tag)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return ""
	}
	if err != nil {
		i.t.Fatal(err)
	}
	return string(entry.Value())
}

// fill completes the ledger.
func fill(t *testing.T, s *ledger.Store) {
	t.Helper()
	if _, err := s.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// table is a store that can be put back: a JetStream store whose bucket is not the ledger's.
func table(t *testing.T, srv *natstest.Server, name string) *jetstreamstore.Store {
	t.Helper()
	js := natstest.JetStream(t, srv.Connect(t))
	prefix := messages.Prefix(fmt.Sprintf("%s%d", name, prefixes.Add(1)))
	if err := jetstreamstore.Create(t.Context(), js, prefix, 1); err != nil {
		t.Fatal(err)
	}
	s, err := jetstreamstore.Open(t.Context(), js, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t *testing.T, s store.Store, tag string, next int64) {
	t.Helper()
	if err := s.CreateTag(t.Context(), store.Tag{Name: tag, Step: 10, Next: next}); err != nil {
		t.Fatal(err)
	}
}

// expect reserves ten IDs and compares.
func expect(t *testing.T, s store.Store, tag string, first int64) {
	t.Helper()
	seg, err := s.Reserve(t.Context(), tag, 10)
	if err != nil || seg != (store.Segment{First: first, End: first + 10}) {
		t.Fatalf("Reserve: %v, %v, want ten from %d on", seg, err, first)
	}
}

// next is what the store within has.
func next(t *testing.T, s store.Store, tag string) int64 {
	t.Helper()
	tags, err := s.Tags(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, have := range tags {
		if have.Name == tag {
			return have.Next
		}
	}
	return 0
}

// hooked is a store whose Reserve is followed by something.
type hooked struct {
	store.Store
	after func(store.Segment)
}

func (h hooked) Reserve(ctx context.Context, tag string, step int64) (store.Segment, error) {
	seg, err := h.Store.Reserve(ctx, tag, step)
	if h.after != nil && err == nil {
		h.after(seg)
	}
	return seg, err
}

func timeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
