package natstest

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// Snapshot is a backup of a stream, as `nats stream backup` makes one.
type Snapshot struct {
	stream string
	about  json.RawMessage // its configuration and state, for the restore
	chunks [][]byte
}

const snapshotTimeout = 10 * time.Second

// TakeSnapshot takes a backup of a stream.
func TakeSnapshot(t testing.TB, nc *nats.Conn, stream string) Snapshot {
	t.Helper()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	s := Snapshot{stream: stream}
	s.about = ask(t, nc, "$JS.API.STREAM.SNAPSHOT."+stream, map[string]any{"deliver_subject": inbox, "no_consumers": true})
	for {
		msg, err := sub.NextMsg(snapshotTimeout)
		if err != nil {
			t.Fatalf("snapshot of %s: %v", stream, err)
		}
		if len(msg.Data) == 0 {
			return s
		}
		s.chunks = append(s.chunks, msg.Data)
		if msg.Reply == "" { // this window is not full yet
			continue
		}
		if err := msg.Respond(nil); err != nil {
			t.Fatal(err)
		}
	}
}

// Restore deletes the stream and puts it back to the state of the backup.
func (s Snapshot) Restore(t testing.TB, nc *nats.Conn) {
	t.Helper()
	var about struct {
		Config json.RawMessage `json:"config"`
		State  json.RawMessage `json:"state"`
	}
	want := ends(t, s.about)
	// Now and then nats-server v2.15.2 says that it is done and has what was there before.
	Eventually(t, snapshotTimeout, "the restored state of "+s.stream, func() bool {
		ask(t, nc, "$JS.API.STREAM.DELETE."+s.stream, nil)
		if err := json.Unmarshal(s.about, &about); err != nil {
			t.Fatal(err)
		}
		var to struct {
			Subject string `json:"deliver_subject"`
		}
		if err := json.Unmarshal(ask(t, nc, "$JS.API.STREAM.RESTORE."+s.stream, about), &to); err != nil {
			t.Fatal(err)
		}
		s.send(t, nc, to.Subject)
		return ends(t, ask(t, nc, "$JS.API.STREAM.INFO."+s.stream, nil)) == want
	})
}

// ends returns where a stream ends, by what a server says about it.
func ends(t testing.TB, about json.RawMessage) (at struct {
	Seq  uint64    `json:"last_seq"`
	Time time.Time `json:"last_ts"`
}) {
	t.Helper()
	var stream struct{ State json.RawMessage }
	err := json.Unmarshal(about, &stream)
	if err == nil {
		err = json.Unmarshal(stream.State, &at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// send sends the chunks of the backup.
func (s Snapshot) send(t testing.TB, nc *nats.Conn, subject string) {
	t.Helper()
	for i, chunk := range append(s.chunks, nil) {
		sent := func() bool {
			_, err := nc.Request(subject, chunk, snapshotTimeout)
			if err != nil && (i > 0 || !errors.Is(err, nats.ErrNoResponders)) {
				t.Fatalf("restore %s: %v", s.stream, err)
			}
			return err == nil
		}
		// In a cluster it takes a moment until all servers know who takes the chunks.
		Eventually(t, snapshotTimeout, "the restore of "+s.stream+" begins", sent)
	}
}

// ask sends a request to the JetStream API, or ends the test.
func ask(t testing.TB, nc *nats.Conn, subject string, request any) json.RawMessage {
	t.Helper()
	var data []byte
	if request != nil {
		var err error
		if data, err = json.Marshal(request); err != nil {
			t.Fatal(err)
		}
	}
	reply, err := nc.Request(subject, data, snapshotTimeout)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	var answer struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil || answer.Error != nil {
		t.Fatalf("%s: %s", subject, reply.Data)
	}
	return reply.Data
}
