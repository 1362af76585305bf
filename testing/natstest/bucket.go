package natstest

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// storeBusy is the server's error code for a stream whose predecessor of the
// same name is still being removed from the disk.
const storeBusy jetstream.ErrorCode = 10049

// CreateStream creates a stream. A stream of the same name may have been
// deleted just before.
func CreateStream(t testing.TB, js jetstream.JetStream, config jetstream.StreamConfig) {
	t.Helper()
	Eventually(t, "stream "+config.Name+" can be created", func() bool {
		_, err := js.CreateStream(t.Context(), config)
		return created(t, config.Name, err)
	})
}

// CreateBucket creates a bucket. A bucket of the same name may have been
// deleted just before.
func CreateBucket(t testing.TB, js jetstream.JetStream, name string) {
	t.Helper()
	Eventually(t, "bucket "+name+" can be created", func() bool {
		_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: name})
		return created(t, name, err)
	})
}

// created reports whether it was created; it fails the test if it never will
// be.
func created(t testing.TB, name string, err error) bool {
	t.Helper()
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == storeBusy {
		return false
	}
	if err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return true
}
