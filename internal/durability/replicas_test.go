package durability_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/testing/natstest"
)

// TestReplicasThatDiffer: a stream is reported if servers have different numbers of
// messages of it at the same last sequence, in three looks in a row. Replicas that
// lag, other streams, and streams of that name elsewhere are not.
func TestReplicasThatDiffer(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t).Connect(t)
	var answers atomic.Pointer[func(look int) []string] // a server's streams
	var looks, streams atomic.Int64
	answer := func(msg *nats.Msg) {
		var ask struct {
			Account string
			Streams bool
		}
		if err := json.Unmarshal(msg.Data, &ask); err != nil || ask.Account != "$G" {
			t.Errorf("asked %s, %v", msg.Data, err)
		}
		look := 0
		if ask.Streams {
			look = int(looks.Add(1))
		}
		for i, details := range (*answers.Load())(look) {
			if !ask.Streams {
				details = ""
			}
			_ = msg.Respond(fmt.Appendf(nil, `{"server":{"name":"n%d"},"data":{"streams":%d,"account_details":[{"id":"$G","stream_detail":[%s]}]}}`, i, streams.Load(), details))
		}
	}
	if _, err := conn.Subscribe(durability.AskServers, answer); err != nil {
		t.Fatal(err)
	}
	stream := func(name string, last, messages int) string {
		return fmt.Sprintf(`{"name":%q,"created":"2026-11-01T00:00:00Z","state":{"messages":%d,"last_seq":%d}}`, name, messages, last)
	}
	for name, c := range map[string]struct {
		answers func(look int) []string
		want    string
		looks   int64
	}{
		"none":         {func(int) []string { return []string{"", "", ""} }, "", 1},
		"same":         {func(int) []string { return []string{stream("A", 9, 4), stream("A", 9, 4), stream("A", 9, 4)} }, "", 1},
		"one lags":     {func(int) []string { return []string{stream("A", 9, 4), stream("A", 8, 3)} }, "", 1},
		"other stream": {func(int) []string { return []string{stream("C", 9, 4), stream("C", 9, 3)} }, "", 1},
		"elsewhere": {func(int) []string {
			return []string{stream("A", 9, 4), strings.Replace(stream("A", 9, 3), "2026", "2025", 1)}
		}, "", 1},
		"differ": {func(int) []string { return []string{stream("A", 9, 4), stream("A", 9, 4), stream("A", 9, 3)} },
			"stream A has at sequence 9 these numbers of messages: 4 on n0, 4 on n1, 3 on n2", 3},
		"differ while it grows": {func(look int) []string { return []string{stream("A", look, 4), stream("A", look, 3)} },
			"stream A has at sequence 3 these numbers of messages: 4 on n0, 3 on n1", 3},
		"once": {func(look int) []string { return []string{stream("A", 9, 4), stream("A", 9, min(2+look, 4))} }, "", 2},
		"one after another": {func(look int) []string {
			return []string{stream([]string{"", "A", "B", "A"}[look], 9, 4), stream([]string{"", "A", "B", "A"}[look], 9, 3)}
		}, "", 2},
	} {
		looks.Store(0)
		answers.Store(&c.answers)
		found, err := durability.CompareReplicas(t.Context(), conn, []string{"A", "B"})
		if got := strings.Trim(fmt.Sprint(found), "[]"); err != nil || got != c.want || looks.Load() != c.looks {
			t.Errorf("%s: %q in %d looks, %v; want %q in %d", name, got, looks.Load(), err, c.want, c.looks)
		}
	}
	streams.Store(1001)
	looks.Store(0)
	if _, err := durability.CompareReplicas(t.Context(), conn, []string{"A"}); !errors.Is(err, durability.ErrManyStreams) || looks.Load() > 0 {
		t.Errorf("servers with many streams: %v, asked for them %d times", err, looks.Load())
	}
}

// TestReplicasOfACluster: the replicas of a healthy cluster are found, under the
// names that servers give them, and do not differ.
func TestReplicasOfACluster(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(exported), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := natstest.StartCluster(t, 3, func(o *server.Options) {
		conf, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatal(err)
		}
		o.Accounts, o.Users, o.SystemAccount = conf.Accounts, conf.Users, conf.SystemAccount
	})
	conn := cluster.Connect(t, nats.UserInfo("a", "a"))
	js := natstest.JetStream(t, conn)
	natstest.CreateStream(t, js, jetstream.StreamConfig{Name: "A", Subjects: []string{"a.*"}, Replicas: 3, MaxMsgsPerSubject: 1})
	for n := range 30 {
		if _, err := js.Publish(t.Context(), fmt.Sprintf("a.%d", n%7), nil); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Eventually(t, "three servers name the stream with its seven messages", func() bool {
		box, err := conn.SubscribeSync(conn.NewInbox())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = box.Unsubscribe() }()
		if err := conn.PublishRequest(durability.AskServers, box.Subject, []byte(`{"account":"APP","streams":true}`)); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			msg, err := box.NextMsgWithContext(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(msg.Data), `"messages": 7`) && !strings.Contains(string(msg.Data), `"messages":7`) {
				t.Logf("answer %d: %s", n, msg.Data)
				return false
			}
		}
		return true
	})
	if found, err := durability.CompareReplicas(t.Context(), conn, []string{"A"}); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	info, err := js.Stream(t.Context(), "A")
	if err != nil {
		t.Fatal(err)
	}
	created, err := json.Marshal(info.CachedInfo().Created)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Subscribe(durability.AskServers, func(msg *nats.Msg) { // as a fourth one does that lost messages
		_ = msg.Respond(fmt.Appendf(nil, `{"server":{"name":"fourth"},"data":{"account_details":[{"stream_detail":[{"name":"A","created":%s,"state":{"messages":6,"last_seq":30}}]}]}}`, created))
	})
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "all four are compared", func() bool {
		found, err := durability.CompareReplicas(t.Context(), conn, []string{"A"})
		return err == nil && len(found) == 1 && len(found[0].Replicas) == 4
	})
}
