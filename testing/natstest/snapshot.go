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
	latest uint64          // its last sequence when the backup was complete
	chunks [][]byte
}

const snapshotTimeout = 10 * time.Second

// calmTries bounds the repetitions of a backup during which a message was
// stored.
const calmTries = 100

// TakeSnapshot has a server back up a stream, or ends the test. It repeats a
// backup during which a message was stored: nats-server v2.15.2 may then lose
// the entry of a key that is being replaced. After calmTries it keeps the
// backup of a stream that is always written to.
func TakeSnapshot(t testing.TB, nc *nats.Conn, stream string) (s Snapshot) {
	t.Helper()
	for range calmTries {
		var err error
		if s, err = TrySnapshot(nc, stream); err != nil {
			t.Fatalf("snapshot of %s: %v", stream, err)
		}
		if first, err := lastSequence(s.about); err == nil && first == s.latest {
			return s
		}
		time.Sleep(10 * time.Millisecond)
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
			info, err := ask(nc, "$JS.API.STREAM.INFO."+stream, nil)
			if err == nil {
				s.latest, err = lastSequence(info)
			}
			return s, err
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

// Restore deletes the stream and puts it back to the state of the backup.
func (s Snapshot) Restore(t testing.TB, nc *nats.Conn) {
	t.Helper()
	if err := s.TryRestore(nc); err != nil {
		t.Fatal(err)
	}
}

// errOtherState: a restore has reported success, and the stream has other content.
var errOtherState = errors.New("the stream has other content")

// TryRestore is Restore, and returns its error. It retries a failed restore, since
// the stream is gone by then: a server of the cluster may be away.
func (s Snapshot) TryRestore(nc *nats.Conn) error {
	first, err := lastSequence(s.about)
	if err != nil {
		return err
	}
	// Now and then nats-server v2.15.2 reports success and has the old content.
	// Messages stored while the backup was made may be in it.
	return Await(patience(), "the restored state of "+s.stream, func() error {
		if err := s.tryRestore(nc); err != nil {
			return err
		}
		info, err := ask(nc, "$JS.API.STREAM.INFO."+s.stream, nil)
		if err != nil {
			return err
		}
		have, err := lastSequence(info)
		if err == nil && (have < first || have > s.latest) {
			return errOtherState
		}
		return err
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

// lastSequence returns the last sequence of a stream, as its server reports it.
func lastSequence(about json.RawMessage) (uint64, error) {
	var stream struct {
		State struct {
			LastSeq uint64 `json:"last_seq"`
		}
	}
	err := json.Unmarshal(about, &stream)
	return stream.State.LastSeq, err
}

// send sends the chunks to the server that restores.
func (s Snapshot) send(nc *nats.Conn, subject string) error {
	for i, chunk := range append(slices.Clip(s.chunks), nil) {
		_, err := nc.Request(subject, chunk, snapshotTimeout)
		// In a cluster, interest in the chunks takes a moment to reach all
		// servers.
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

// ask sends a request to the JetStream API and decodes the reply.
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
