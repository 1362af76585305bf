package e2e

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// TestStrictAfterRestoredRules: ids_config is restored while workers run, and a tag is made strict. When the command
// has succeeded the tag is, though the workers notice only after some seconds that what they read went back.
func TestStrictAfterRestoredRules(t *testing.T) {
	t.Parallel()
	o := startTemplateOrder(t, "order")
	o.tag("create", "order", "--step", "500")
	js, err := jetstream.New(connect(t, o.url))
	if err != nil {
		t.Fatal(err)
	}
	for range 10 { // revisions that the restored bucket will not have
		o.tag("set", "order", "--order", "trend")
	}
	o.trend(50)
	putBack(t, js, "KV_ids_config")
	natstest.Eventually(t, time.Minute, "the tag is strict", func() bool {
		return run(t, "tag", "set", "--server", o.url, "order", "--order", "strict").code == 0
	})
	o.strict(50)
}

// putBack makes a bucket's stream again, with its latest messages under lower numbers.
func putBack(t *testing.T, js jetstream.JetStream, name string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := js.Stream(t.Context(), name)
	check(err)
	config, last := s.CachedInfo().Config, s.CachedInfo().State.LastSeq
	var all []*jetstream.RawStreamMsg
	for n := uint64(1); n <= last; n++ {
		if msg, err := s.GetMsg(t.Context(), n); err == nil {
			all = append(all, msg)
		}
	}
	check(js.DeleteStream(t.Context(), name))
	_, err = js.CreateStream(t.Context(), config)
	check(err)
	for _, msg := range all {
		_, err := js.Publish(t.Context(), msg.Subject, msg.Data)
		check(err)
	}
}
