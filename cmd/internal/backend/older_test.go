package backend_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

const prefix = messages.DefaultPrefix

// site is an installation, or what is left of it.
type site struct {
	*testing.T
	js jetstream.JetStream
}

func newSite(t *testing.T) site {
	t.Helper()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t))
	return site{t, js}
}

// must fails the test unless all errors are nil.
func (s site) must(all ...error) {
	s.Helper()
	if err := errors.Join(all...); err != nil {
		s.Fatal(err)
	}
}

func (s site) put(bucket, key, value string) {
	s.Helper()
	kv, err := s.js.KeyValue(s.Context(), bucket)
	if err == nil {
		_, err = kv.PutString(s.Context(), key, value)
	}
	s.must(err)
}

// provision does what worker processes and loaders do when they start, and what an administrator
// does, in turn, and returns the first error.
func (s site) provision() error {
	counters, err := backend.Parse("jetstream", "")
	s.must(err)
	ctx := s.Context()
	for range 2 {
		if err := counters.Create(ctx, s.js, prefix, 1); err != nil {
			return err
		}
		if err := worker.Provision(ctx, s.js, prefix, 1); err != nil {
			return err
		}
		if err := lease.Create(ctx, s.js, prefix, lease.DefaultTTL, 1); err != nil {
			return err
		}
		all := append(worker.Resources(prefix, 1), lease.Resources(prefix, lease.DefaultTTL, 1)...)
		for _, r := range append(all, backend.CounterBucket(prefix, 1)) {
			if _, err := r.Apply(ctx, s.js); err != nil {
				return err
			}
		}
	}
	return nil
}

// everything an installation in use has.
func (s site) inUse() {
	s.Helper()
	s.must(s.provision())
	s.put(agreement.BucketName(prefix), agreement.StoreKey, string(backend.JetStream))
	s.put(agreement.BucketName(prefix), "layout", "text")
	s.put(agreement.BucketName(prefix), "clock_id", "text")
	s.put(jetstreamstore.BucketName(prefix), "order", `{"max_id":1001,"step":1000}`)
	s.put(worker.TagsBucketName(prefix), "order", `{"step":1000}`)
	s.put(lease.ClockBucketName(prefix), "1", `{"hi":1}`)
}

// TestBucketsAreNotMadeTwice: a bucket in which something was counted is not made again, by
// anybody who makes buckets, as long as something else says that it was there.
func TestBucketsAreNotMadeTwice(t *testing.T) {
	t.Parallel()
	segments, clock, config, tags := jetstreamstore.BucketName(prefix), lease.ClockBucketName(prefix), agreement.BucketName(prefix), worker.TagsBucketName(prefix)
	for name, test := range map[string]struct {
		gone         []string // buckets that are deleted
		purge        string   // a bucket that is emptied
		bucket, what string   // the refusal; none if empty
	}{
		"nothing is gone":              {},
		"counters":                     {[]string{segments}, "", segments, "bucket ids_config says that it counts in jetstream"},
		"counters and config":          {[]string{segments, config}, "", segments, "bucket ids_tags has 1 entries"},
		"counters and directory":       {[]string{segments, tags}, "", segments, "bucket ids_config says"},
		"counters, emptied":            {nil, segments, segments, "bucket ids_tags has 1 entries"},
		"clock":                        {[]string{clock}, "", clock, "bucket ids_config has the key clock_id"},
		"config":                       {[]string{config}, "", config, "bucket ids_tags has 1 entries"},
		"config and directory":         {[]string{config, tags}, "", config, "bucket ids_clock has 1 entries"},
		"the directory, only a mirror": {[]string{tags}, "", "", ""},
		"all, so nobody can know":      {[]string{segments, clock, config, tags}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.inUse()
			for _, bucket := range test.gone {
				s.must(s.js.DeleteKeyValue(t.Context(), bucket))
			}
			if test.purge != "" {
				stream, err := s.js.Stream(t.Context(), resource.BucketStream(test.purge))
				s.must(err, stream.Purge(t.Context()))
			}
			for range 2 { // the refusal changes nothing
				err := s.provision()
				var older *resource.OlderError
				switch {
				case test.bucket == "":
					s.must(err)
				case !errors.As(err, &older) || older.Bucket != test.bucket || older.Missing != (test.purge == "") || !strings.HasPrefix(older.What, test.what):
					t.Errorf("%v, want a refusal to make %s because %s", err, test.bucket, test.what)
				}
			}
		})
	}
}

// TestFirstTime: whoever comes first, and whatever is added later, gets its buckets.
func TestFirstTime(t *testing.T) {
	t.Parallel()
	t.Run("workers before loaders", func(t *testing.T) {
		s := newSite(t)
		s.must(worker.Provision(t.Context(), s.js, prefix, 1), lease.Create(t.Context(), s.js, prefix, lease.DefaultTTL, 1))
		s.put(agreement.BucketName(prefix), "layout", "text")
		s.put(lease.ClockBucketName(prefix), "1", `{"hi":1}`)
		s.must(s.provision())
	})
	t.Run("a tag before any process", func(t *testing.T) {
		s := newSite(t)
		s.must(s.provision())
		s.put(jetstreamstore.BucketName(prefix), "order", `{"max_id":1,"step":1000}`)
		s.put(worker.TagsBucketName(prefix), "order", `{"step":1000}`)
		s.must(s.provision())
	})
	t.Run("an installation that counts elsewhere", func(t *testing.T) {
		s := newSite(t)
		s.must(worker.Provision(t.Context(), s.js, prefix, 1))
		s.put(agreement.BucketName(prefix), agreement.StoreKey, "mysql shop.leaf_alloc")
		s.put(worker.TagsBucketName(prefix), "order", `{"step":1000}`)
		s.must(s.provision()) // its counters are moved to JetStream next
	})
	t.Run("counters that are moved from elsewhere", func(t *testing.T) {
		s := newSite(t)
		s.must(worker.Provision(t.Context(), s.js, prefix, 1))
		s.put(worker.TagsBucketName(prefix), "order", `{"step":1000}`)
		if err := s.provision(); !errors.As(err, new(*resource.OlderError)) {
			t.Errorf("made without counters: %v", err)
		}
		s.must(jetstreamstore.Create(t.Context(), s.js, prefix, 1))
		if err := s.provision(); !errors.As(err, new(*resource.OlderError)) {
			t.Errorf("used without counters: %v", err)
		}
		segments, err := jetstreamstore.Open(t.Context(), s.js, prefix)
		s.must(err, segments.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 5000}), s.provision())
	})
}

// TestMadeMeanwhile: evidence that came after another process made the bucket is none.
func TestMadeMeanwhile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	create := func() error {
		_, err := s.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b", Description: "of the other process"})
		return err
	}
	asked := 0
	evidence := func(context.Context, jetstream.JetStream, bool) (string, error) {
		asked++
		return "it was used", create()
	}
	r := resource.Bucket(jetstream.KeyValueConfig{Bucket: "b"}, evidence)
	s.must(r.Ensure(t.Context(), s.js))
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	broken := errors.New("broken")
	unknown := resource.Bucket(jetstream.KeyValueConfig{Bucket: "c"}, func(context.Context, jetstream.JetStream, bool) (string, error) { return "", broken })
	_, err := unknown.Apply(t.Context(), s.js)
	for _, err := range []error{err, unknown.Ensure(t.Context(), s.js)} {
		if !errors.Is(err, broken) || !errors.As(err, new(*resource.MissingError)) {
			t.Errorf("with evidence that cannot be read: %v", err)
		}
	}
	if _, err := s.js.KeyValue(t.Context(), "c"); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("it was made all the same: %v", err)
	}
}

// TestCounter: the number in a counter is known as the store wrote it.
func TestCounter(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must(s.provision())
	segments, err := jetstreamstore.Open(t.Context(), s.js, prefix)
	s.must(err, segments.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 5000}))
	kv, err := s.js.KeyValue(t.Context(), jetstreamstore.BucketName(prefix))
	s.must(err)
	entry, err := kv.Get(t.Context(), "order")
	s.must(err)
	if n, ok := backend.Counter(entry.Value()); n != 5000 || !ok {
		t.Errorf("%s is %d, %v", entry.Value(), n, ok)
	}
	s.must(segments.RemoveTag(t.Context(), "order"))
	entry, err = kv.Get(t.Context(), "order")
	s.must(err)
	if n, ok := backend.Counter(entry.Value()); n != 5000 || !ok {
		t.Errorf("%s is %d, %v", entry.Value(), n, ok)
	}
	for _, other := range []string{"", "jetstream", "5", `{"hi":5,"hold":"x"}`, `{"max_id":0,"step":1}`, `{"high":-1}`} {
		if n, ok := backend.Counter([]byte(other)); ok {
			t.Errorf("%s is %d", other, n)
		}
	}
	if n, ok := backend.Counter([]byte(`{"high":7}`)); n != 7 || !ok {
		t.Errorf("the ledger's is %d, %v", n, ok)
	}
}
