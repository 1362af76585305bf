package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
)

// backup is a snapshot of a stream, as the server makes for nats stream backup.
type backup struct {
	stream  string
	request natsserver.JSApiStreamRestoreRequest
	chunks  [][]byte
}

func request(t *testing.T, conn *nats.Conn, subject string, request, response any) {
	t.Helper()
	data, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := conn.Request(subject, data, natstest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(reply.Data, response); err != nil {
		t.Fatal(err)
	}
}

func takeBackup(t *testing.T, conn *nats.Conn, stream string) backup {
	t.Helper()
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	var response natsserver.JSApiStreamSnapshotResponse
	request(t, conn, "$JS.API.STREAM.SNAPSHOT."+stream, natsserver.JSApiStreamSnapshotRequest{DeliverSubject: inbox, NoConsumers: true}, &response)
	if response.Error != nil {
		t.Fatal(response.Error)
	}
	b := backup{stream: stream, request: natsserver.JSApiStreamRestoreRequest{Config: *response.Config, State: *response.State}}
	for {
		chunk, err := sub.NextMsg(natstest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if len(chunk.Data) == 0 {
			return b
		}
		b.chunks = append(b.chunks, chunk.Data)
		if chunk.Reply == "" {
			continue
		}
		if err := chunk.Respond(nil); err != nil {
			t.Fatal(err)
		}
	}
}

// restore replaces the stream by its backup.
func (b backup) restore(t *testing.T, conn *nats.Conn) {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), b.stream); err != nil {
		t.Fatal(err)
	}
	var response natsserver.JSApiStreamRestoreResponse
	request(t, conn, "$JS.API.STREAM.RESTORE."+b.stream, b.request, &response)
	if response.Error != nil {
		t.Fatal(response.Error)
	}
	for _, chunk := range append(b.chunks, nil) {
		reply, err := conn.Request(response.DeliverSubject, chunk, natstest.Patience)
		if err != nil || strings.Contains(string(reply.Data), `"error"`) {
			t.Fatalf("%s, %v", reply.Data, err)
		}
	}
}

// TestClockBucketRestored: the clock bucket is restored to the state of some
// heartbeats ago. The holder detects it, and so does a claimer while the
// holder's lease exists. TestClockBucketGoesBack shows how service resumes.
func TestClockBucketRestored(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	js := newJS(t, net)
	if err := Create(t.Context(), js, prefix, maxTTL, 1); err != nil {
		t.Fatal(err)
	}
	conn := net.Connect(t)
	h := mustSeek(t, mustOpen(t, config(js)))
	old := takeBackup(t, conn, "KV_"+ClockBucketName(prefix))
	beat := func() error { return h.renew(t.Context(), time.Now().Add(natstest.Patience)) }
	for range 3 {
		if err := beat(); err != nil {
			t.Fatal(err)
		}
	}
	hi := h.hi.Load()

	old.restore(t, conn)
	var back *ClockBackError
	if _, err := Open(t.Context(), config(js)); !errors.As(err, &back) || !errors.Is(err, ErrClockLost) {
		t.Errorf("another process: %v", err)
	}
	back = nil
	if err := beat(); !errors.As(err, &back) || !isFinal(err) || h.hi.Load() != hi {
		t.Errorf("the holder, which had the time up to %d and has it up to %d: %v", hi, h.hi.Load(), err)
	}
}

// TestOperatorDecides: once the key that the error names is deleted, the
// present bucket is the installation's.
func TestOperatorDecides(t *testing.T) {
	t.Parallel()
	js := provision(t, natstest.Start(t))
	kv, err := js.KeyValue(t.Context(), agreement.BucketName(prefix))
	if err != nil {
		t.Fatal(err)
	}
	mustOpen(t, config(js))
	if list, _, err := List(t.Context(), js, prefix); err != nil || len(list) != 0 {
		t.Errorf("the identity is taken for a worker ID: %v, %v", list, err)
	}
	if err := js.DeleteKeyValue(t.Context(), ClockBucketName(prefix)); err != nil {
		t.Fatal(err)
	}
	// An operator creates it again: Create does not.
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: ClockBucketName(prefix)}); err != nil {
		t.Fatal(err)
	}
	var lost *ClockLostError
	for range 2 { // the first refusal changes nothing
		_, err := Open(t.Context(), config(js))
		if !errors.As(err, &lost) || lost.Found != "" || lost.Installed == "" {
			t.Fatalf("%+v", err)
		}
		if want := fenceLength(testTTL) + snowflake.DefaultMaxAhead + 2*DefaultMaxClockSkew; lost.StopFor != want || lost.Key != ClockIDKey {
			t.Errorf("stop for %v, want %v; key %v", lost.StopFor, want, lost.Key)
		}
	}
	if err := kv.Delete(t.Context(), lost.Key); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, config(js))
}

// rewind takes a backup of a bucket; the returned function restores it.
func (s *fakeStore) rewind() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, versions := s.last, make(map[string][]bucketEntry)
	for key, v := range s.versions {
		versions[key] = slices.Clone(v)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last, s.versions = last, make(map[string][]bucketEntry)
		for key, v := range versions {
			s.versions[key] = slices.Clone(v)
		}
	}
}

func heartbeat(t *testing.T, h *hold) error {
	t.Helper()
	time.Sleep(modelTTL / 3)
	return h.renew(t.Context(), time.Now().Add(modelTTL))
}

// TestClockBucketGoesBack: every process that can detect it does, and no worker
// ID is claimed before all lost time is past.
func TestClockBucketGoesBack(t *testing.T) {
	var back *ClockBackError
	holder := func(t *testing.T) (*world, *process, *hold, func()) {
		w := newWorld()
		p := w.process("p", 1)
		h, _, _ := faultyHold(t, p)
		restore := w.clocks.rewind()
		for range 2 {
			if err := heartbeat(t, h); err != nil {
				t.Fatal(err)
			}
		}
		return w, p, h, restore
	}
	t.Run("heartbeat", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, _, h, restore := holder(t)
			restore()
			hi := h.hi.Load()
			if err := heartbeat(t, h); !errors.As(err, &back) || h.hi.Load() != hi {
				t.Errorf("%v; hi was %d, is %d", err, hi, h.hi.Load())
			}
		})
	})
	t.Run("heartbeat, after others have written", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, _, h, restore := holder(t)
			restore()
			for i := range 10 {
				_, _ = w.clocks.write(bucketEntry{key: string(rune('a' + i)), value: []byte("x")}, 0)
			}
			hi, err := h.hi.Load(), error(nil)
			for range maxBehind {
				err = heartbeat(t, h)
			}
			if !errors.Is(err, ErrClockLost) || h.hi.Load() != hi {
				t.Errorf("%v; hi was %d, is %d", err, hi, h.hi.Load())
			}
		})
	})
	t.Run("right before the fence is written", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			h, _, _ := faultyHold(t, w.process("p", 1))
			restore := w.clocks.rewind() // the hold's entry is the last
			mustSeek(t, w.process("q", 2).manager())
			if err := h.checkForward(t.Context(), reading{last: w.clocks.sequence()}); err != nil {
				t.Fatal(err)
			}
			restore()
			if err := h.writeHi(t.Context(), h.hi.Load()+1); !errors.As(err, &back) {
				t.Errorf("a write was accepted at a sequence that had been reached: %v", err)
			}
		})
	})
	t.Run("claim", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, _, h, restore := holder(t)
			restore()
			m := w.process("q", 2).manager()
			if _, err := m.seek(t.Context()); !errors.As(err, &back) || back.Known <= back.Last || back.Known > h.fence.known.Last {
				t.Errorf("%v", err)
			}
		})
	})
	for _, leasesToo := range []bool{false, true} {
		t.Run(fmt.Sprintf("service resumes, leases went back too: %v", leasesToo), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				p := w.process("p", 1)
				defer p.start(t.Context())()
				time.Sleep(time.Minute)
				restore, restoreLeases := w.clocks.rewind(), w.workers.rewind()
				time.Sleep(time.Minute)
				old := p.holding()
				mustNext(t, old)
				restore()
				if leasesToo {
					restoreLeases()
				}
				time.Sleep(modelTTL)
				if p.holding() != nil {
					t.Fatal("goes on, although the bucket went back")
				}
				began := time.Now()
				for p.holding() == nil {
					time.Sleep(time.Second)
				}
				first := mustNext(t, p.holding())
				if waited := time.Since(began); waited < p.ahead+2*p.skew-time.Second || waited > 2*modelTTL {
					t.Errorf("waited %v", waited)
				}
				if w.layout.Timestamp(first) <= old.Last() {
					t.Error("begins before the old one ended")
				}
			})
		})
	}
}

// TestStaleReplyIsNotALoss: an old answer about the stream is requested again.
func TestStaleReplyIsNotALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h, _, _ := faultyHold(t, w.process("p", 1))
		h.clock.server = &staleServer{server: h.clock.server}
		if err := heartbeat(t, h); err != nil {
			t.Error(err)
		}
	})
}

// staleServer gives an old answer first.
type staleServer struct {
	server
	asked bool
}

func (s *staleServer) state(ctx context.Context) (serverState, error) {
	a, err := s.server.state(ctx)
	if !s.asked {
		s.asked, a.last = true, 0
	}
	return a, err
}
