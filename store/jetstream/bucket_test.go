package jetstream

import (
	"errors"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

func TestOpenRefusesWhatForgets(t *testing.T) {
	t.Parallel()
	js := single{natstest.Start(t)}.js(t)
	if _, err := Open(t.Context(), js, "missing"); !errors.Is(err, natsjs.ErrBucketNotFound) {
		t.Errorf("missing bucket: %v, want ErrBucketNotFound", err)
	}
	if _, err := Open(t.Context(), js, "a.b"); !errors.Is(err, messages.ErrPrefix) {
		t.Errorf("bad prefix: %v, want ErrPrefix", err)
	}
	for name, change := range map[string]func(*natsjs.StreamConfig){
		"safe":    func(*natsjs.StreamConfig) {},
		"bounded": func(c *natsjs.StreamConfig) { c.MaxBytes = 1 << 20 },
		"memory":  func(c *natsjs.StreamConfig) { c.Storage = natsjs.MemoryStorage },
		"ttl":     func(c *natsjs.StreamConfig) { c.MaxAge = time.Hour },
		"discard": func(c *natsjs.StreamConfig) { c.Discard, c.MaxBytes = natsjs.DiscardOld, 1<<20 },
		"async":   func(c *natsjs.StreamConfig) { c.PersistMode = natsjs.AsyncPersistMode },
		"sources": func(c *natsjs.StreamConfig) { c.Sources = []*natsjs.StreamSource{{Name: "other"}} },
	} {
		prefix := messages.Prefix(name)
		bucket := BucketName(prefix)
		config := natsjs.StreamConfig{
			Name:              "KV_" + bucket,
			Subjects:          []string{"$KV." + bucket + ".>"},
			Storage:           natsjs.FileStorage,
			MaxMsgsPerSubject: 1,
			AllowDirect:       true,
			AllowRollup:       true,
			DenyDelete:        name != "async", // the server allows no such mix
			Discard:           natsjs.DiscardNew,
		}
		change(&config)
		if _, err := js.CreateStream(t.Context(), config); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err := Open(t.Context(), js, prefix)
		if name == "safe" || name == "bounded" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, ErrUnsafeBucket) || !strings.Contains(err.Error(), bucket) {
			t.Errorf("%s: %v, want ErrUnsafeBucket with the bucket's name", name, err)
		}
	}
}

func TestCreateLeavesAnExistingBucket(t *testing.T) {
	t.Parallel()
	c := single{natstest.Start(t)}
	s := fresh(t, c, "ids", 1)
	newTag(t, s, "order")
	if _, err := s.Reserve(t.Context(), "order", 10); err != nil {
		t.Fatal(err)
	}
	before := s.stream.CachedInfo()
	// One server cannot have three replicas; but the bucket exists, so nothing is checked.
	if err := Create(t.Context(), c.js(t), "ids", 3); err != nil {
		t.Fatal(err)
	}
	info, err := s.stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Config.Replicas != before.Config.Replicas || !info.Created.Equal(before.Created) {
		t.Error("the bucket was changed or replaced")
	}
	if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != 11 {
		t.Errorf("got %v, %v, want [11, 21)", seg, err)
	}
}

func TestReadLeaderInADomain(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, withDomain("hub"))
	js, err := natsjs.NewWithDomain(server.Connect(t), "hub", natsjs.WithDefaultTimeout(natstest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	if err := Create(t.Context(), js, "ids", 1); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), js, "ids")
	if err != nil {
		t.Fatal(err)
	}
	newTag(t, s, "order")
	for name, prefixed := range map[string]func() (natsjs.JetStream, error){
		"domain": func() (natsjs.JetStream, error) { return js, nil },
		"prefix": func() (natsjs.JetStream, error) {
			return natsjs.NewWithAPIPrefix(server.Connect(t), "$JS.hub.API", natsjs.WithDefaultTimeout(natstest.Patience))
		},
		"default": func() (natsjs.JetStream, error) { return natstest.JetStream(t, server.Connect(t)), nil },
	} {
		if s.js, err = prefixed(); err != nil {
			t.Fatal(err)
		}
		if found, err := s.readLeader(t.Context(), "order"); err != nil || len(found.value) == 0 {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
		if _, err := s.readLeader(t.Context(), "missing"); !errors.Is(err, natsjs.ErrKeyNotFound) {
			t.Errorf("%s: %v, want ErrKeyNotFound", name, err)
		}
	}
}
