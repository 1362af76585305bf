package durability

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/rights"
)

// ErrManyStreams means that replicas were not compared, because a server has so
// many streams that its answer would be large.
var ErrManyStreams = errors.New("replicas not compared: a server has more than 1000 streams")

const (
	maxStreams = 1000

	// compareLooks is how often replicas must differ in a row: an answer may be from
	// the moment of a write.
	compareLooks = 3
	comparePause = 500 * time.Millisecond
)

// Divergence is that the replicas of a stream have different numbers of messages at the
// same last sequence. Some of them have lost or revived entries, and become
// leader at any time.
type Divergence struct {
	Stream   string
	Sequence uint64
	Replicas []Replica // sorted by server
}

// Replica is a replica of a stream, by the name of its server.
type Replica struct {
	Server   string
	Messages uint64
}

func (d Divergence) String() string {
	parts := make([]string, 0, len(d.Replicas))
	for _, r := range d.Replicas {
		parts = append(parts, fmt.Sprintf("%d on %s", r.Messages, r.Server))
	}
	return fmt.Sprintf("stream %s has at sequence %d these numbers of messages: %s", d.Stream, d.Sequence, strings.Join(parts, ", "))
}

// CompareReplicas returns those of the streams whose replicas differ, as all
// servers report in three looks in a row. Streams whose messages expire, or are
// deleted once read, differ for moments, so they are not to be compared. Answers
// that do not arrive prove nothing. The user needs the right to [AskServers], and
// the right to ask for its own rights, which name the account.
func CompareReplicas(ctx context.Context, conn *nats.Conn, streams []string) (differing []Divergence, err error) {
	account, err := accountOf(ctx, conn)
	if err != nil {
		return nil, err
	}
	answered, many := false, false
	err = askAll(ctx, conn, AskServers, fmt.Sprintf(`{"account":%q}`, account), func(answer []byte) (more bool) {
		answered, many = true, parseReplicas(answer).Data.Streams > maxStreams
		return !many
	})
	switch {
	case err != nil || !answered:
		return nil, err
	case many:
		return nil, ErrManyStreams
	}
	for look := range compareLooks {
		if look > 0 {
			pause.For(ctx, comparePause)
		}
		found, err := lookAtReplicas(ctx, conn, account, streams)
		if err != nil {
			return nil, err
		}
		if look > 0 {
			found = slices.DeleteFunc(found, func(d Divergence) bool {
				return !slices.ContainsFunc(differing, func(before Divergence) bool { return before.Stream == d.Stream })
			})
		}
		if differing = found; len(differing) == 0 {
			break
		}
	}
	return differing, nil
}

// accountOf returns the account of a connection's user, as servers name it.
func accountOf(ctx context.Context, conn *nats.Conn) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, jszWait)
	defer cancel()
	reply, err := conn.RequestWithContext(ctx, rights.AskPermissions, nil)
	if err != nil {
		return "", err
	}
	var info struct {
		Data struct{ Account string }
	}
	if err := json.Unmarshal(reply.Data, &info); err != nil || info.Data.Account == "" {
		return "", errors.New("a server did not name the user's account")
	}
	return info.Data.Account, nil
}

// serverReplicas is a server's answer about the streams of an account.
type serverReplicas struct {
	Server struct{ Name string }
	Data   struct {
		Streams  int // of all accounts
		Accounts []struct {
			Streams []struct {
				Name    string
				Created time.Time
				State   struct {
					Messages uint64
					Last     uint64 `json:"last_seq"`
				}
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
}

func parseReplicas(answer []byte) (r serverReplicas) {
	if json.Unmarshal(answer, &r) != nil || !isShown(r.Server.Name) {
		return serverReplicas{}
	}
	return r
}

// lookAtReplicas asks all servers once, and returns the streams whose replicas
// differ, sorted by name.
func lookAtReplicas(ctx context.Context, conn *nats.Conn, account string, streams []string) (differing []Divergence, err error) {
	type state struct {
		stream  string
		created int64 // another stream of that name is in another JetStream domain
		last    uint64
	}
	at := make(map[state]map[string]uint64) // messages by server
	err = askAll(ctx, conn, AskServers, fmt.Sprintf(`{"account":%q,"streams":true}`, account), func(answer []byte) (more bool) {
		server := parseReplicas(answer)
		for _, account := range server.Data.Accounts {
			for _, s := range account.Streams {
				if !slices.Contains(streams, s.Name) {
					continue
				}
				key := state{s.Name, s.Created.UnixNano(), s.State.Last}
				if at[key] == nil {
					at[key] = make(map[string]uint64)
				}
				at[key][server.Server.Name] = s.State.Messages
			}
		}
		return true
	})
	for key, servers := range at {
		d := Divergence{Stream: key.stream, Sequence: key.last}
		for _, server := range slices.Sorted(maps.Keys(servers)) {
			d.Replicas = append(d.Replicas, Replica{server, servers[server]})
		}
		if slices.ContainsFunc(d.Replicas, func(r Replica) bool { return r.Messages != d.Replicas[0].Messages }) {
			differing = append(differing, d)
		}
	}
	slices.SortFunc(differing, func(a, b Divergence) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Sequence, b.Sequence))
	})
	return differing, err
}
