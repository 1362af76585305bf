package embedded

import (
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/register"
)

// TestFolderOf010: buckets that 0.1.0 created deny purges after the next start,
// unless a raise was interrupted, whose mark stays. No ID comes twice.
func TestFolderOf010(t *testing.T) {
	t.Parallel()
	registers := register.BucketName(prefix)
	all := []string{registers, lease.ClockBucketName(prefix), agreement.BucketName(prefix), enrich.BucketName(prefix)}
	const raising = "idworker_raising"
	for name, mark := range map[string]string{"whole": "", "raise interrupted": "mark"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, given := config(filepath.Join(t.TempDir(), "data")), make(handedOut)
			cfg.Correct = append(lease.Resources(prefix, 0, 0)[:2], register.Bucket(prefix, 0), enrich.Bucket(prefix, 0))
			s := start(t, cfg)
			js := streams(t, s)
			for _, bucket := range all {
				c := jetstream.KeyValueConfig{Bucket: bucket}
				if bucket == registers {
					c.Metadata = map[string]string{"idworker_id": "a"}
				}
				if _, err := js.CreateKeyValue(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			segments := openStore(t, s)
			create(t, segments, "order")
			given.reserve(t, segments, "order", 3)
			shut(t, segments)
			if mark != "" {
				c := settings(t, js, registers)
				c.Metadata[raising] = mark
				if _, err := js.UpdateStream(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			s.Stop()

			s = start(t, cfg)
			js = streams(t, s)
			for _, bucket := range all {
				c := settings(t, js, bucket)
				if corrected := bucket != registers || mark == ""; c.DenyPurge != corrected || c.AllowRollup == corrected {
					t.Errorf("%s: %+v", bucket, c)
				}
			}
			if c := settings(t, js, registers); c.Metadata[raising] != mark || c.AllowAtomicPublish != (mark == "") {
				t.Errorf("%s: %+v", registers, c)
			}
			if mark == "" {
				segments = openStore(t, s)
				given.reserve(t, segments, "order", 3)
				shut(t, segments)
			}
		})
	}
}

// streams opens a server's JetStream.
func streams(t *testing.T, s *NATS) jetstream.JetStream {
	t.Helper()
	conn, js, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return js
}

// settings returns the configuration of a bucket's stream.
func settings(t *testing.T, js jetstream.JetStream, bucket string) jetstream.StreamConfig {
	t.Helper()
	stream, err := js.Stream(t.Context(), kv.StreamName(bucket))
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().Config
}
