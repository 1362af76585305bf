package kv

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
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

// admitBirth refuses a birth on servers that lose streams.
func (s stream) admitBirth(ctx context.Context, conn *nats.Conn) error {
	if !s.lasting.Birth {
		return nil
	}
	servers, _, err := durability.Versions(ctx, conn, func(subject string) bool {
		return subject == durability.AskServers || unlimited(ctx, conn)
	})
	if err != nil {
		return err
	}
	return durability.CheckVersions(servers)
}

// unlimited reports whether the user's rights are not limited. The roles have the
// right to ask for their own, and none to ask for an account's figures.
func unlimited(ctx context.Context, conn *nats.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	reply, err := conn.RequestWithContext(ctx, rights.AskPermissions, nil)
	if err != nil {
		return false
	}
	var info struct {
		Data *struct{ Permissions any }
	}
	return json.Unmarshal(reply.Data, &info) == nil && info.Data != nil && info.Data.Permissions == nil
}

// atomicBatches reports whether the server of the connection takes atomic
// batches, as servers since 2.12 do.
func atomicBatches(conn *nats.Conn) bool {
	var major, minor int
	n, _ := fmt.Sscanf(conn.ConnectedServerVersion(), "%d.%d", &major, &minor)
	return n == 2 && (major > 2 || major == 2 && minor >= 12)
}
