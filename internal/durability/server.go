// Package durability checks that acknowledged writes to JetStream will last.
//
// [CheckStream] checks the configuration of a stream or bucket: does it keep
// its entries? [CheckServers] checks the servers: is a write on disk before it
// is acknowledged? [Versions] finds servers of versions that lose streams, and
// [CompareReplicas] finds replicas that differ. Every bucket whose entries must
// last passes the first check when it is opened, created or provisioned. A lost
// counter would issue its IDs again.
package durability

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/inbox"
	"github.com/idworker/idworker/internal/problem"
)

// ErrSyncUnknown means that no server reports whether it syncs every write: the
// account may lack the right to [AskServers], see docs/security.md.
var ErrSyncUnknown = problem.New(problem.NotSynced, "no server reports whether it syncs every write")

// ErrNoSync means that a server acknowledges writes before they are on disk: a
// power failure loses them, and their IDs are issued again.
var ErrNoSync = problem.New(problem.NotSynced, "sync_interval is not always")

// AskServers is the request for the servers' settings. Without the right to it,
// an installation works, but cannot detect servers that do not sync.
const AskServers = "$SYS.REQ.SERVER.PING.JSZ"

const (
	jszWait = time.Second // for the first answer
	jszMore = 200 * time.Millisecond

	maxServers = 1 << 10 // maximum of buffered answers
)

// CheckServers checks that all servers sync every write before they acknowledge
// it. The error is nil if all answering servers do, and else wraps [ErrNoSync]
// or [ErrSyncUnknown].
func CheckServers(ctx context.Context, conn *nats.Conn) error {
	known, lazy := false, false
	err := askAll(ctx, conn, AskServers, askConfig, func(answer []byte) (more bool) {
		config := configOf(answer)
		known = known || config != nil
		lazy = config != nil && !config.SyncAlways
		return !lazy
	})
	switch {
	case err != nil:
		return err
	case lazy:
		return ErrNoSync
	case !known:
		return ErrSyncUnknown
	}
	return nil
}

// DataFolder returns the data folder of the only server that answers; empty if
// none does or several do.
func DataFolder(ctx context.Context, conn *nats.Conn) string {
	var folders []string
	err := askAll(ctx, conn, AskServers, askConfig, func(answer []byte) (more bool) {
		if config := configOf(answer); config != nil {
			folders = append(folders, config.StoreDir)
		}
		return len(folders) < 2
	})
	if err != nil || len(folders) != 1 {
		return ""
	}
	return folders[0]
}

// askConfig asks for the servers' settings.
const askConfig = `{"config":true}`

// askAll sends a request that all servers answer. It calls see with each
// answer, until see wants no more, or none has come for a while.
func askAll(ctx context.Context, conn *nats.Conn, subject, request string, see func(answer []byte) (more bool)) error {
	reply := conn.NewInbox()
	answers, err := inbox.Subscribe(conn, reply, maxServers)
	if err != nil {
		return err
	}
	defer answers.Unsubscribe()
	if err := conn.PublishRequest(subject, reply, []byte(request)); err != nil {
		return err
	}
	for wait := jszWait; ; wait = jszMore {
		next, cancel := context.WithTimeout(ctx, wait)
		msg, err := answers.Next(next)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil || !see(msg.Data):
			return nil
		}
	}
}

// jetStream has settings of a server.
type jetStream struct {
	SyncAlways bool   `json:"sync_always"`
	StoreDir   string `json:"store_dir"`
}

// configOf parses a server's answer. It is nil if that has no settings.
func configOf(answer []byte) *jetStream {
	var jsz struct {
		Data *struct {
			Disabled bool       `json:"disabled"`
			Config   *jetStream `json:"config"`
		} `json:"data"`
	}
	if json.Unmarshal(answer, &jsz) != nil || jsz.Data == nil || jsz.Data.Disabled {
		return nil
	}
	return jsz.Data.Config
}
