package messages_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// An embedded server of a test leaves these behind.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*ocspHandler).run"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"),
	)
}
