package e2e

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// stats asks a number of workers for their STATS, by instance.
func stats(t testing.TB, conn *nats.Conn, workers int) map[string]worker.Stats {
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
		msg, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatalf("STATS of %d workers, have %d: %v", workers, len(all), err)
		}
		var answer micro.Stats
		var data worker.Stats
		err = json.Unmarshal(msg.Data, &answer)
		if err == nil && len(answer.Endpoints) != 1 {
			err = errors.New("not one endpoint")
		}
		if err == nil {
			err = json.Unmarshal(answer.Endpoints[0].Data, &data)
		}
		if err != nil {
			t.Fatalf("STATS: %v\n%s", err, msg.Data)
		}
		all[data.Instance] = data
	}
	return all
}

// knownToAll waits until every worker has IDs of a tag: each learns of a new tag by itself.
func knownToAll(t testing.TB, url, tag string, workers int) {
	t.Helper()
	conn := connect(t, url)
	client := dial(t, url)
	natstest.Eventually(t, "all workers know tag "+tag, func() bool {
		for range 4 * workers {
			_, _ = client.Next(t.Context(), tag)
		}
		for _, s := range stats(t, conn, workers) {
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
