package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// stats requests the STATS of a number of workers, by instance.
func stats(t testing.TB, conn *nats.Conn, workers int) (all map[string]worker.Stats) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprintf("STATS of %d workers", workers), func() bool {
		all = askStats(t, conn, workers)
		return len(all) >= workers
	})
	return all
}

// askStats sends a single request, and returns the prompt answers.
func askStats(t testing.TB, conn *nats.Conn, workers int) map[string]worker.Stats {
	t.Helper()
	inbox := conn.NewRespInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	subject, err := micro.ControlSubject(micro.StatsVerb, worker.ServiceName, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.PublishRequest(subject, inbox, nil); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]worker.Stats)
	for len(all) < workers {
		msg, err := sub.NextMsg(5 * time.Second)
		if err != nil {
			break // repeated
		}
		var answer micro.Stats
		var data worker.Stats
		if err := json.Unmarshal(msg.Data, &answer); err != nil || len(answer.Endpoints) != 1 {
			t.Fatalf("STATS: %v\n%s", err, msg.Data)
		}
		if err := json.Unmarshal(answer.Endpoints[0].Data, &data); err != nil {
			t.Fatalf("STATS: %v\n%s", err, msg.Data)
		}
		all[data.Instance] = data
	}
	return all
}

// heldByAll waits until every worker has IDs of a tag in memory.
func heldByAll(t testing.TB, url, tag string, workers int) {
	t.Helper()
	client := dial(t, url)
	natstest.Eventually(t, "all workers have IDs of tag "+tag, func() bool {
		for range 4 * workers {
			_, _ = client.once(t, tag, 1)
		}
		for _, s := range stats(t, client.conn, workers) {
			if !gives(s, tag) {
				return false
			}
		}
		return true
	})
}

func gives(s worker.Stats, tag string) bool {
	for _, figures := range s.Tags {
		if figures.Tag == tag && figures.Left > 0 {
			return true
		}
	}
	return false
}
