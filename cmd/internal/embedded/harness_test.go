package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/natstest"
)

const prefix = messages.DefaultPrefix

// lockerEnv names the folder on which this test's program starts a server when
// it runs as another process.
const lockerEnv = "EMBEDDED_TEST_FOLDER"

// inUseCode is its exit code if the folder is in use.
const inUseCode = 42

func TestMain(m *testing.M) {
	if folder := os.Getenv(lockerEnv); folder != "" {
		s, err := Start(context.Background(), config(folder))
		if errors.Is(err, ErrInUse) {
			os.Exit(inUseCode)
		}
		if err == nil {
			s.Stop()
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(0)
	}
	natstest.Main(m)
}

func config(folder string) Config {
	return Config{Host: "127.0.0.1", Port: server.RANDOM_PORT, Folder: folder, Prefix: prefix, Beside: []string{lease.ClockBucketName(prefix), agreement.BucketName(prefix)}, Log: zap.NewNop()}
}

// start starts a server, and stops it when the test ends.
func start(t *testing.T, cfg Config) *NATS {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// fails starts a server that must fail, and returns the error.
func fails(t *testing.T, cfg Config) error {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if err == nil {
		s.Stop()
		t.Fatal("started")
	}
	return err
}

// createBucket creates a bucket in a server.
func createBucket(t *testing.T, s *NATS, name string) jetstream.KeyValue {
	t.Helper()
	conn, js, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: name})
	if err != nil {
		t.Fatal(err)
	}
	return kv
}
