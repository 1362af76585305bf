package kv

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/problem"
)

// oldestMinor is the oldest nats-server 2.x that works: earlier ones drop the
// metadata that identifies the register, and do not report their time.
const oldestMinor = 10

// checkServer refuses a server that is too old. The server of the connection
// stands for its cluster.
func checkServer(conn *nats.Conn) error {
	var minor int
	version := conn.ConnectedServerVersion()
	if n, _ := fmt.Sscanf(version, "2.%d.", &minor); n == 0 || minor >= oldestMinor {
		return nil
	}
	return problem.New(problem.Invalid, fmt.Sprintf("NATS server %s is version %s, need 2.%d or newer",
		conn.ConnectedServerName(), version, oldestMinor))
}
