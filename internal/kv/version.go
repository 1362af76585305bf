package kv

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/problem"
)

// oldestMinor is the oldest nats-server 2.x that works: earlier ones drop the
// metadata that identifies the register, and do not report their time.
const oldestMinor = 10

// checkServer refuses a server that is too old. The server of the connection
// stands for its cluster.
func checkServer(conn *nats.Conn) error {
	version := conn.ConnectedServerVersion()
	if !tooOld(version) {
		return nil
	}
	return problem.New(problem.Invalid, fmt.Sprintf("NATS server %s is version %s, need 2.%d or newer",
		conn.ConnectedServerName(), version, oldestMinor))
}

// tooOld reports whether a version is below 2.oldestMinor. The version is empty
// while the connection is lost.
func tooOld(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && (major < 2 || major == 2 && minor < oldestMinor)
}

// Birth makes the creation of a resource the birth of an installation, which is
// refused while a server has a version that loses streams. An installation that
// exists goes on there, because a refusal would turn an upgrade of idworker into
// an outage, and so does the restore of one that was lost.
func Birth(r Resource) Resource {
	if s, ok := r.(stream); ok {
		s.birth = true
		return s
	}
	return r
}

// admitBirth refuses a birth on servers that lose streams.
func (s stream) admitBirth(ctx context.Context, conn *nats.Conn) error {
	if !s.birth {
		return nil
	}
	servers, _, err := durability.Versions(ctx, conn, func(string) bool { return true })
	if err != nil {
		return err
	}
	return durability.CheckVersions(servers)
}

// atomicBatches reports whether the server of the connection takes atomic
// batches, as servers since 2.12 do.
func atomicBatches(conn *nats.Conn) bool {
	var major, minor int
	n, _ := fmt.Sscanf(conn.ConnectedServerVersion(), "%d.%d", &major, &minor)
	return n == 2 && (major > 2 || major == 2 && minor >= 12)
}
