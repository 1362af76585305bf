package natstest

import (
	"fmt"
	"os"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, and fails if a goroutine outlives them. It
// ignores goroutines of NATS servers that have ended.
func Main(m goleak.TestingM) {
	code := m.Run()
	var err error
	ended := func() bool {
		err = goleak.Find(
			goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*ocspHandler).run"),
			goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"),
			goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).setupMirrorConsumer.func3"),
			goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"),
		)
		return err == nil
	}
	if code == 0 && !poll(Patience, ended) {
		fmt.Fprintln(os.Stderr, "goroutines outlive the tests:", err)
		code = 1
	}
	os.Exit(code)
}
