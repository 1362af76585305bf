package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

func tagsBucket(t *testing.T, net network) jetstream.KeyValue {
	t.Helper()
	kv, err := newJetStream(t, net).KeyValue(t.Context(), worker.TagsBucketName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// TestUnusableDirectoryEntries neither stop the worker nor hide other tags, nor remove those
// that were usable before.
func TestUnusableDirectoryEntries(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	if err := worker.Provision(t.Context(), newJetStream(t, net), messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	kv := tagsBucket(t, net)
	for key, value := range map[string]string{"a": "", "b": "{", "c": `{"step":0}`, "d": `{"step":-1}`, "e": `{"step":1e30}`, "f=g": `{"step":5}`} {
		if _, err := kv.Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	startWorker(t, net, worker.Config{Store: s})
	createTags(t, net, s, 10, "order")
	c := newClient(t, net)
	c.must("order")
	for _, tag := range []string{"a", "b", "c", "d", "e"} {
		if _, err := c.ask(tag, 1); !errors.Is(err, messages.ErrNoTag) {
			t.Errorf("%s: %v, want 404", tag, err)
		}
	}
	if _, err := kv.Put(t.Context(), "order", []byte("{")); err != nil {
		t.Fatal(err)
	}
	createTags(t, net, s, 10, "later")
	c.must("later") // so the worker has seen both
	if _, err := c.patiently("order", 1); err != nil {
		t.Errorf("a tag whose entry became unusable: %v, want it to stay as it was", err)
	}
}

// TestRemovedTagIsRefused, and the worker learns of it without being asked.
func TestRemovedTagIsRefused(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Store: s, TagRefresh: time.Hour})
	createTags(t, net, s, 10, "order")
	c := newClient(t, net)
	c.must("order")
	if err := tagsBucket(t, net).Delete(t.Context(), "order"); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "404", func() bool {
		_, err := c.ask("order", 1)
		return errors.Is(err, messages.ErrNoTag)
	})
}

// TestReplyCannotBeACommand: a reply goes where the caller says, with the worker's rights.
// Where it could be a command, none is sent.
func TestReplyCannotBeACommand(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Store: s})
	createTags(t, net, s, 10, "order")
	c := newClient(t, net)
	last := c.must("order")
	for _, subject := range []string{"ids.segment.nosuch", "ids.segment.order", "ids.snowflake"} {
		for _, reply := range []string{"$JS.API.STREAM.DELETE.KV_ids_segments", "ids.reserve"} {
			if err := c.conn.PublishRequest(subject, reply, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if id := c.must("order"); id != last+1 {
		t.Errorf("%d after %d: IDs went where no reply must go", id, last)
	}
	if _, err := s.Tags(t.Context()); err != nil {
		t.Errorf("the bucket is gone: %v", err)
	}
}

// TestExhaustedTag: the last IDs are handed out, then 507, never a negative one.
func TestExhaustedTag(t *testing.T) {
	t.Parallel()
	const top = 1<<63 - 1
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Store: s})
	createTags(t, net, s, 10, "order")
	if err := s.CreateTag(t.Context(), store.Tag{Name: "end", Step: 10, Next: top - 10}); err != nil {
		t.Fatal(err)
	}
	if _, err := tagsBucket(t, net).Put(t.Context(), "end", []byte(`{"step":10}`)); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, net)
	last := c.use("end", 9, c.must("end"))
	if last != top-1 {
		t.Errorf("last ID is %d, want %d", last, int64(top-1))
	}
	if ranges, err := c.ask("end", 1); !errors.Is(err, messages.ErrExhausted) {
		t.Errorf("past the end: %v, %v, want 507", ranges, err)
	}
}
