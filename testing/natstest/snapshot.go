package natstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// TakeSnapshot has a server back up a stream, or ends the test.
func TakeSnapshot(t testing.TB, nc *nats.Conn, stream string) Snapshot {
	t.Helper()
	s, err := TrySnapshot(nc, stream)
	if err != nil {
		t.Fatalf("snapshot of %s: %v", stream, err)
	}
	return s
}

// TrySnapshot has a server back up a stream.
func TrySnapshot(nc *nats.Conn, stream string) (s Snapshot, err error) {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return s, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	s.stream = stream
	if s.about, err = ask(nc, "$JS.API.STREAM.SNAPSHOT."+stream, map[string]any{"deliver_subject": inbox, "no_consumers": true}); err != nil {
		return s, err
	}
	for {
		msg, err := sub.NextMsg(snapshotTimeout)
		if err != nil {
			return s, err
		}
		if len(msg.Data) == 0 {
			return s, nil
		}
		s.chunks = append(s.chunks, msg.Data)
		if msg.Reply == "" { // this window is not full yet
			continue
		}
		if err := msg.Respond(nil); err != nil {
			return s, err
		}
	}
}

// Restore deletes the stream and puts it back to the state of the backup. It tries again if that fails, for
// the stream is gone then: a cluster may have a server that is away.
func (s Snapshot) Restore(t testing.TB, nc *nats.Conn) {
	t.Helper()
	want, err := ends(s.about)
	if err != nil {
		t.Fatal(err)
	}
	// Now and then nats-server v2.15.2 says that it is done and has what was there before.
	Eventually(t, "the restored state of "+s.stream, func() bool {
		if err := s.tryRestore(nc); err != nil {
			t.Logf("restore %s: %v", s.stream, err)
			return false
		}
		info, err := ask(nc, "$JS.API.STREAM.INFO."+s.stream, nil)
		if err != nil {
			return false
		}
		have, err := ends(info)
		return err == nil && have == want
	})
}

func (s Snapshot) tryRestore(nc *nats.Conn) error {
	var about struct {
		Config json.RawMessage `json:"config"`
		State  json.RawMessage `json:"state"`
	}
	if err := json.Unmarshal(s.about, &about); err != nil {
		return err
	}
	_, _ = ask(nc, "$JS.API.STREAM.DELETE."+s.stream, nil) // the restore tells if it is there still
	answer, err := ask(nc, "$JS.API.STREAM.RESTORE."+s.stream, about)
	if err != nil {
		return err
	}
	var to struct {
		Subject string `json:"deliver_subject"`
	}
	if err := json.Unmarshal(answer, &to); err != nil {
		return err
	}
	return s.send(nc, to.Subject)
}

// end is where a stream ends.
type end struct {
	Seq  uint64    `json:"last_seq"`
	Time time.Time `json:"last_ts"`
}

// ends returns where a stream ends, by what a server says about it.
func ends(about json.RawMessage) (at end, err error) {
	var stream struct{ State end }
	err = json.Unmarshal(about, &stream)
	return stream.State, err
}

// send sends the chunks to the server that restores.
func (s Snapshot) send(nc *nats.Conn, subject string) error {
	for i, chunk := range append(slices.Clip(s.chunks), nil) {
		_, err := nc.Request(subject, chunk, snapshotTimeout)
		// In a cluster it takes a moment until all servers know who takes the chunks.
		for begin := time.Now(); i == 0 && errors.Is(err, nats.ErrNoResponders) && time.Since(begin) < snapshotTimeout; {
			time.Sleep(10 * time.Millisecond)
			_, err = nc.Request(subject, chunk, snapshotTimeout)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ask sends a request to the JetStream API.
func ask(nc *nats.Conn, subject string, request any) (json.RawMessage, error) {
	var data []byte
	if request != nil {
		var err error
		if data, err = json.Marshal(request); err != nil {
			return nil, err
		}
	}
	reply, err := nc.Request(subject, data, snapshotTimeout)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", subject, err)
	}
	var answer struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil || answer.Error != nil {
		return nil, fmt.Errorf("%w: %s: %s", errRefused, subject, reply.Data)
	}
	return reply.Data, nil
}

var errRefused = errors.New("refused")
