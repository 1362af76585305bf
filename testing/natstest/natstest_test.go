package natstest

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bucket writes one value through nc to a new bucket.
func bucket(t *testing.T, nc *nats.Conn, replicas int) jetstream.KeyValue {
	t.Helper()
	js := JetStream(t, nc)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b", Replicas: replicas})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	return kv
}

// readable waits until the bucket answers again.
func readable(t *testing.T, kv jetstream.KeyValue) {
	t.Helper()
	Eventually(t, "the value is readable", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		e, err := kv.Get(ctx, "k")
		return err == nil && string(e.Value()) == "v"
	})
}

func TestDataAndPortSurviveARestart(t *testing.T) {
	s := Start(t)
	nc := s.Connect(t)
	kv := bucket(t, nc, 1)
	before := s.URL()

	s.Stop()
	s.Stop()
	Eventually(t, "client notices", func() bool { return !nc.IsConnected() })
	s.Restart()

	if s.URL() != before {
		t.Errorf("URL %s after restart, was %s", s.URL(), before)
	}
	readable(t, kv)
}

func TestClusterServesWithOneServerStopped(t *testing.T) {
	c := StartCluster(t, 3)
	nc := c.Connect(t)
	kv := bucket(t, nc, 3)

	leader := c.StreamLeader("KV_b")
	if leader == nil {
		t.Fatal("the stream has no leader")
	}
	leader.Stop()
	readable(t, kv)

	leader.Restart()
	c.WaitReady(t)
	readable(t, kv)
}
