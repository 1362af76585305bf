package worker

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// How long answers of workers are waited for after the latest, and how often, and after which
// pauses, it is looked how many loaders wait: each asks for events again every few seconds, and
// for a moment does not wait.
const (
	workersAnswerIn = 500 * time.Millisecond
	loaderLooks     = 3
	loaderLookPause = 200 * time.Millisecond
)

// CountWorkersRights are what CountWorkers takes. No role needs them for its work.
func CountWorkersRights() rights.Rights {
	return rights.Publish("$SRV.PING." + ServiceName)
}

// CountLoadersRights are what CountLoaders takes.
func CountLoadersRights(p messages.Prefix) rights.Rights {
	return rights.Publish(rights.ConsumerInfo(loads.StreamName(p), LoaderConsumer))
}

// CountWorkers counts the processes that answer requests, by asking them.
func CountWorkers(ctx context.Context, conn *nats.Conn, p messages.Prefix) (int, error) {
	instances, err := ListWorkers(ctx, conn, p)
	return len(instances), err
}

// ListWorkers returns the instances of the processes that answer requests, by asking them.
func ListWorkers(ctx context.Context, conn *nats.Conn, p messages.Prefix) (instances []string, err error) {
	found, err := askWorkers(ctx, conn, p)
	return slices.Sorted(maps.Keys(found)), err
}

// askWorkers returns what the processes that answer requests say of themselves, by instance.
func askWorkers(ctx context.Context, conn *nats.Conn, p messages.Prefix) (found map[string]map[string]string, err error) {
	inbox := conn.NewRespInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails on a closed connection only
	if err := conn.PublishRequest("$SRV.PING."+ServiceName, inbox, nil); err != nil {
		return nil, err
	}
	found = make(map[string]map[string]string)
	for ctx.Err() == nil {
		msg, err := sub.NextMsg(workersAnswerIn)
		if err != nil {
			break // all have answered, or nobody is there
		}
		var ping micro.Ping
		if json.Unmarshal(msg.Data, &ping) == nil && ping.Metadata["prefix"] == string(p) {
			found[ping.Metadata["instance"]] = ping.Metadata
		}
	}
	return found, ctx.Err()
}

// CountLoaders counts the processes that wait for load events. Those that are just serving some
// may be missing, or be there twice.
func CountLoaders(ctx context.Context, js jetstream.JetStream, p messages.Prefix) (n int, err error) {
	consumer, err := js.Consumer(ctx, loads.StreamName(p), LoaderConsumer)
	if err != nil {
		return 0, err
	}
	for range loaderLooks {
		info, err := consumer.Info(ctx)
		if err != nil {
			return 0, err
		}
		if n = max(n, info.NumWaiting); n > 0 {
			return n, nil
		}
		pause.For(ctx, loaderLookPause)
	}
	return n, ctx.Err()
}
