// Package durability answers one question in two parts: will what JetStream acknowledged
// still be there later?
//
// [CheckStream] looks at the configuration of one stream or bucket: does it keep what it is
// told? [CheckServers] asks the servers: is a write on disk before it is acknowledged?
// Everything in which idworker counts or remembers passes the first check whenever it is
// opened, created or provisioned. A counter that is forgotten hands out its IDs again.
package durability

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/inbox"
	"github.com/idworker/idworker/internal/problem"
)

// ErrSyncUnknown says that no server tells whether it syncs every write: the account may
// not ask, see [AskServers] in docs/security.md.
var ErrSyncUnknown = problem.New(problem.NotSynced, "no server reports whether it syncs every write")

// ErrNoSync says that a server acknowledges writes before they are on disk: a power failure
// takes them back, and the IDs that they gave away are given away again.
var ErrNoSync = problem.New(problem.NotSynced, "sync_interval is not always")

// AskServers is the request with which servers are asked. An installation works
// without the right to it, but nobody then knows whether its servers sync.
const AskServers = "$SYS.REQ.SERVER.PING.JSZ"

const (
	jszWait = time.Second // for the first answer
	jszMore = 200 * time.Millisecond

	maxServers = 1 << 10 // whose answers can wait
)

// CheckServers asks all servers whether they sync every write before they acknowledge it. The
// error is nil if all that answered do, and else wraps [ErrNoSync] or [ErrSyncUnknown].
func CheckServers(ctx context.Context, conn *nats.Conn) error {
	reply := conn.NewInbox()
	answers, err := inbox.Subscribe(conn, reply, maxServers)
	if err != nil {
		return err
	}
	defer answers.Unsubscribe()
	if err := conn.PublishRequest(AskServers, reply, []byte(`{"config":true}`)); err != nil {
		return err
	}
	known := false
	for wait := jszWait; ; wait = jszMore {
		next, cancel := context.WithTimeout(ctx, wait)
		msg, err := answers.Next(next)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && known:
			return nil
		case err != nil:
			return ErrSyncUnknown
		}
		always, said := syncAlways(msg.Data)
		if said && !always {
			return ErrNoSync
		}
		known = known || said
	}
}

// syncAlways reads a server's answer, and whether it says anything about syncing.
func syncAlways(answer []byte) (always, said bool) {
	var jsz struct {
		Data *struct {
			Disabled bool `json:"disabled"`
			Config   *struct {
				SyncAlways bool `json:"sync_always"`
			} `json:"config"`
		} `json:"data"`
	}
	if json.Unmarshal(answer, &jsz) != nil || jsz.Data == nil || jsz.Data.Disabled || jsz.Data.Config == nil {
		return false, false
	}
	return jsz.Data.Config.SyncAlways, true
}
