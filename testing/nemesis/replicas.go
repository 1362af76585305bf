package nemesis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// compareReplicas reports the servers whose messages of a stream differ from those
// of its leader, and returns them.
func (r *Run) compareReplicas(ctx context.Context, stream string) (stray []string) {
	leader, err := r.cluster.leader(stream)
	if err != nil {
		return nil
	}
	for _, server := range servers {
		if server == leader.Name {
			continue
		}
		differ, err := r.difference(ctx, stream, leader.Name, server)
		if err != nil {
			r.Say("%6.1fs messages of %s: %v", r.now().Seconds(), server, err)
			continue
		}
		if len(differ) > 0 {
			stray = append(stray, server)
			text := fmt.Sprintf("%s has other messages of %s than its leader %s, at %d sequences from %d",
				server, stream, leader.Name, len(differ), slices.Min(differ))
			r.note("%s", text)
			r.Say("%6.1fs %s", r.now().Seconds(), text)
		}
	}
	return stray
}

// difference is at which sequences two servers have different messages, or only
// one of them has a message, up to where both have come. A message that differs
// only in the first of two looks was written or removed meanwhile.
func (r *Run) difference(ctx context.Context, stream, a, b string) (differ []uint64, err error) {
	look := func() (differ map[uint64]bool, err error) {
		ofA, errA := r.messages(ctx, stream, a)
		ofB, errB := r.messages(ctx, stream, b)
		last := min(highest(ofA), highest(ofB))
		differ = make(map[uint64]bool)
		for _, one := range []map[uint64]uint64{ofA, ofB} {
			for sequence := range one {
				if sequence <= last && ofA[sequence] != ofB[sequence] {
					differ[sequence] = true
				}
			}
		}
		return differ, errors.Join(errA, errB)
	}
	first, err := look()
	if err != nil || len(first) == 0 || !sleep(ctx, 2*time.Second) {
		return nil, err
	}
	second, err := look()
	maps.DeleteFunc(second, func(sequence uint64, _ bool) bool { return !first[sequence] })
	return slices.Collect(maps.Keys(second)), err
}

// highest is the highest sequence of messages.
func highest(messages map[uint64]uint64) uint64 {
	return slices.Max(append(slices.Collect(maps.Keys(messages)), 0))
}

// messages are the sums of a server's own messages of a stream. Another server
// answers for one that has not caught up.
func (r *Run) messages(ctx context.Context, stream, server string) (map[uint64]uint64, error) {
	if err := r.cluster.health(server); err != nil {
		return nil, err
	}
	conn := r.watchers[slices.Index(servers, server)]
	if conn.ConnectedServerName() != server {
		return nil, nats.ErrDisconnected
	}
	return ownMessages(ctx, conn, stream)
}

// emptyStray does what an operator does if a server does not follow the others after
// old copies were put back: he empties its folder, so that it copies theirs.
func (r *Run) emptyStray(ctx context.Context) {
	var stray []string
	for _, server := range servers {
		if r.cluster.awaitHealth(server) != nil {
			stray = append(stray, server)
		}
	}
	for _, stream := range []string{registerStream, "KV_ids_clock", "KV_ids_config"} {
		if len(stray) == 0 {
			stray = r.compareReplicas(ctx, stream)
		}
	}
	if len(stray) != 1 {
		return // two that agree may be right
	}
	r.note("%s is emptied", stray[0])
	p := r.programs[stray[0]]
	p.Kill()
	err := os.RemoveAll(r.cluster.data(stray[0]))
	p.Release()
	if err := errors.Join(err, r.cluster.awaitHealth(stray[0])); err != nil {
		r.note("%s: %v", stray[0], err)
	}
}

// errDirectGet: a server's answer to a request for messages is an error.
var errDirectGet = errors.New("direct get")

// ownMessages are the sums of a stream's messages, by sequence, on the server of
// a connection: among subscribers that share a queue, a server prefers its own.
func ownMessages(ctx context.Context, conn *nats.Conn, stream string) (map[uint64]uint64, error) {
	inbox := conn.NewRespInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	all := make(map[uint64]uint64)
	for next := uint64(1); ; {
		request, err := json.Marshal(map[string]any{"seq": next, "batch": 1000})
		if err != nil {
			return nil, err
		}
		if err := conn.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, request); err != nil {
			return nil, err
		}
		for batch := true; batch; {
			message, err := receive(ctx, sub)
			if err != nil {
				return nil, err
			}
			switch status := message.Header.Get("Status"); status {
			case "":
			case "204": // the end of a batch
				batch = false
				continue
			case "404": // the end of the stream
				return all, nil
			default:
				return nil, fmt.Errorf("%w: %s %s", errDirectGet, status, message.Header.Get("Description"))
			}
			sequence, err := strconv.ParseUint(message.Header.Get("Nats-Sequence"), 10, 64)
			if err != nil {
				return nil, err
			}
			sum := fnv.New64a()
			_, _ = sum.Write([]byte(message.Header.Get("Nats-Subject")))
			_, _ = sum.Write(message.Data)
			all[sequence], next = sum.Sum64(), sequence+1
		}
	}
}

// receive receives a message within two seconds.
func receive(ctx context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}
