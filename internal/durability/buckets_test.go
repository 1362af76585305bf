package durability_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
)

const prefix = messages.DefaultPrefix

// lasting are all buckets whose entries must last, each with the call that
// precedes all reads and writes.
var lasting = []struct {
	name     string
	resource kv.Resource
	open     func(context.Context, jetstream.JetStream) error
}{
	{register.BucketName(prefix), register.Bucket(prefix, 1), func(ctx context.Context, js jetstream.JetStream) error {
		_, err := register.Open(ctx, register.Config{JetStream: js, Prefix: prefix})
		return err
	}},
	{lease.ClockBucketName(prefix), lease.Resources(prefix, lease.DefaultTTL, 1)[1], openLease},
	{agreement.BucketName(prefix), agreement.Bucket(prefix, 1), openLease},
	{agreement.BucketName(prefix), agreement.Bucket(prefix, 1), func(ctx context.Context, js jetstream.JetStream) error {
		_, err := agreement.Open(ctx, js, prefix)
		return err
	}},
	{enrich.BucketName(prefix), enrich.Bucket(prefix, 1), func(ctx context.Context, js jetstream.JetStream) error {
		if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "SOURCE", Subjects: []string{"source"}}); err != nil {
			return err
		}
		if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "TARGET", Subjects: []string{"target"}, AllowAtomicPublish: true}); err != nil {
			return err
		}
		_, err := enrich.Open(ctx, enrich.Config{
			Conn: js.Conn(), JetStream: js, IDs: messages.NewClient(js.Conn(), prefix), From: "SOURCE", To: "target", ID: "snowflake",
		})
		return err
	}},
}

func openLease(ctx context.Context, js jetstream.JetStream) error {
	for _, r := range lease.Resources(prefix, lease.DefaultTTL, 1) {
		_ = r.Ensure(ctx, js) // all but the unsafe bucket
	}
	_, err := lease.Open(ctx, lease.Config{JS: js, Layout: snowflake.Default()})
	return err
}

// forgetful are all settings with which a server loses or replaces entries.
var forgetful = map[durability.Setting]func(*jetstream.StreamConfig){
	durability.Storage: func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
	durability.Persist: func(c *jetstream.StreamConfig) { c.PersistMode, c.DenyDelete = jetstream.AsyncPersistMode, false },
	durability.Mirror: func(c *jetstream.StreamConfig) {
		c.Mirror, c.Subjects = &jetstream.StreamSource{Name: "OTHER"}, nil
	},
	durability.Sources: func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "OTHER"}} },
	durability.Transform: func(c *jetstream.StreamConfig) {
		c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "$KV.*.>", Destination: "other.>"}
	},
	durability.Retention:  func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
	durability.MaxAge:     func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
	durability.MessageTTL: func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
	durability.Discard:    func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 },
	durability.NoAck:      func(c *jetstream.StreamConfig) { c.NoAck = true },
}

// Opening and provisioning refuse every bucket that must last, with each
// setting that may lose entries.
func TestForgetfulBucketsAreRefused(t *testing.T) {
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	for _, b := range lasting {
		for setting, change := range forgetful {
			makeBucket(t, js, b.name, change)
			_, lookErr := b.resource.Look(t.Context(), js)
			_, applyErr := b.resource.Apply(t.Context(), js)
			for what, err := range map[string]error{
				"open":   b.open(t.Context(), js),
				"ensure": b.resource.Ensure(t.Context(), js),
				"look":   lookErr,
				"apply":  applyErr,
			} {
				var unsafe *durability.UnsafeError
				if !errors.As(err, &unsafe) || unsafe.Setting != setting || unsafe.Stream != "KV_"+b.name || !errors.Is(err, durability.ErrUnsafe) {
					t.Errorf("%s: %s with %s: %v", b.name, what, setting, err)
				}
			}
		}
	}
}

// A bucket as idworker creates it passes, and so does a bucket with limits that
// lose nothing.
func TestLastingBucketsPass(t *testing.T) {
	for what, change := range map[string]func(*jetstream.StreamConfig){
		"plain":   func(*jetstream.StreamConfig) {},
		"bounded": func(c *jetstream.StreamConfig) { c.MaxBytes, c.MaxMsgs = 1<<20, 1000 },
	} {
		js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
		for i, b := range lasting {
			if i == 0 || b.name != lasting[i-1].name {
				makeBucket(t, js, b.name, change)
			}
			if _, err := b.resource.Look(t.Context(), js); err != nil {
				t.Errorf("%s, %s: look: %v", b.name, what, err)
			}
			if err := b.open(t.Context(), js); err != nil {
				t.Errorf("%s, %s: open: %v", b.name, what, err)
			}
		}
	}
}

// makeBucket creates a bucket as nats.go does, but for a change, in place of
// any earlier bucket.
func makeBucket(t *testing.T, js jetstream.JetStream, name string, change func(*jetstream.StreamConfig)) {
	t.Helper()
	config := jetstream.StreamConfig{
		Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"}, Storage: jetstream.FileStorage,
		MaxMsgsPerSubject: 1, AllowDirect: true, AllowRollup: true, DenyDelete: true, Discard: jetstream.DiscardNew,
	}
	change(&config)
	_ = js.DeleteStream(t.Context(), config.Name) // may be missing
	natstest.CreateStream(t, js, config)
}

// TestNoBirthOnServersThatLoseStreams: no installation begins while one server
// has a version that loses streams. One that exists goes on, and so does the
// restore of one that was lost.
func TestNoBirthOnServersThatLoseStreams(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1))
	answer(t, conn, "2.15.2", "2.10.20")
	js := natstest.JetStream(t, conn)
	births := map[string]func() error{
		"register.Create": func() error { return register.Create(t.Context(), js, prefix, 1) },
		"lease.Create":    func() error { return lease.Create(t.Context(), js, prefix, lease.DefaultTTL, 1) },
		"agreement.Begin": func() error { return agreement.Begin(t.Context(), js, prefix, 1, "") },
		"provision": func() error {
			_, err := lease.Resources(prefix, lease.DefaultTTL, 1)[0].Apply(t.Context(), js)
			return err
		},
	}
	for what, birth := range births {
		natstest.Eventually(t, what+" is refused", func() bool {
			lost := new(durability.LossError)
			err := birth()
			if errors.As(err, &lost) {
				return true
			}
			// The answers may have come too late.
			t.Logf("%s: %v", what, err)
			for name := range js.StreamNames(t.Context()).Name() {
				if err := js.DeleteStream(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			return false
		})
	}
	for range js.StreamNames(t.Context()).Name() {
		t.Error("a stream was created")
	}
	// A raise creates it so.
	if err := kv.Ensure(t.Context(), js, agreement.Bucket(prefix, 1)); err != nil {
		t.Fatal(err)
	}
	for what, birth := range births {
		if err := birth(); err != nil && !errors.Is(err, agreement.ErrPin) { // another one has its ID by now
			t.Errorf("%s, with an installation: %v", what, err)
		}
	}
}
