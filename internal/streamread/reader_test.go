package streamread_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

type bed struct {
	*testing.T
	server *natstest.Node
	js     jetstream.JetStream
	stream jetstream.Stream
}

func newBed(t *testing.T, opts ...func(*server.Options)) *bed {
	t.Helper()
	srv := natstest.Start(t, opts...)
	js := natstest.JetStream(t, srv.Connect(t), jetstream.WithPublishAsyncMaxPending(100_000))
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return &bed{t, srv, js, stream}
}

// numbered publishes n messages.
func (b *bed) numbered(n int) {
	for i := range n {
		b.publishAsync(&nats.Msg{Subject: fmt.Sprintf("s.%d", (i+1)%10), Data: fmt.Append(nil, i+1)})
	}
	<-b.js.PublishAsyncComplete()
}

func (b *bed) publishAsync(m *nats.Msg) {
	b.Helper()
	if _, err := b.js.PublishMsgAsync(m); err != nil {
		b.Fatal(err)
	}
}

// read reads to the end and calls f with each message.
func (b *bed) read(r *streamread.Reader, f func(streamread.Message)) (n int) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), natstest.Patience)
	defer cancel()
	for {
		msg, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			b.Fatalf("after %d messages: %v", n, err)
		}
		n++
		f(msg)
	}
}

// sequences reads a range and returns the sequences.
func (b *bed) sequences(filter string, from, through uint64) (all []uint64) {
	b.Helper()
	r := streamread.Open(b.js, b.stream, filter, from, through)
	defer r.Close()
	b.read(r, func(m streamread.Message) { all = append(all, m.Sequence) })
	return all
}

// TestRange: a reader returns the messages of its range, and then ends, even if
// the range is empty.
func TestRange(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if got := b.sequences("", 1, 0); got != nil {
		t.Errorf("empty stream: %v", got)
	}
	b.numbered(30)
	for _, seq := range []uint64{1, 2, 3, 15, 28, 30} {
		if err := b.stream.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		filter        string
		from, through uint64
		want          []uint64
	}{
		{"", 1, 6, []uint64{4, 5, 6}},
		{"", 13, 17, []uint64{13, 14, 16, 17}},
		{"", 27, 30, []uint64{27, 29}},
		{"", 30, 30, nil},
		{"", 15, 15, nil},
		{"", 29, 100, []uint64{29}},
		{"s.4", 1, 30, []uint64{4, 14, 24}},
		{"s.4", 5, 23, []uint64{14}},
		{"s.none", 1, 30, nil},
		{"s.*", 4, 5, []uint64{4, 5}},
	} {
		began := time.Now()
		if got := b.sequences(c.filter, c.from, c.through); !slices.Equal(got, c.want) {
			t.Errorf("%q %d..%d: %v, want %v", c.filter, c.from, c.through, got, c.want)
		}
		t.Logf("%+v took %v", c, time.Since(began))
	}
}

// TestWithoutConsumer: it reads the same and only requests messages,
// concurrently where there are many.
func TestWithoutConsumer(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.numbered(600)
	for seq := uint64(101); seq <= 300; seq++ {
		if seq%10 != 5 {
			if err := b.stream.DeleteMsg(t.Context(), seq); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		filter        string
		from, through uint64
		waits         int // requests that wait for earlier requests
	}{
		{"", 1, 600, 40}, {"", 90, 350, 40}, {"", 145, 145, 1}, {"s.5", 1, 600, 61}, {"s.none", 1, 600, 1}, {"", 601, 700, 1}, {"", 5, 4, 0},
	} {
		want := b.sequences(c.filter, c.from, c.through)
		requests := b.listen("$JS.API.>")
		r := streamread.Open(b.js, b.stream, c.filter, c.from, c.through).WithoutConsumer()
		var got []uint64
		b.read(r, func(m streamread.Message) { got = append(got, m.Sequence) })
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", c, got, want)
		}
		waits := 0
		for _, msg := range requests() {
			if msg.Subject != "$JS.API.STREAM.MSG.GET.S" {
				t.Errorf("%+v: %s", c, msg.Subject)
			}
			if strings.Contains(string(msg.Data), "next_by_subj") {
				waits++
			}
		}
		if waits > c.waits {
			t.Errorf("%+v: %d requests after one another", c, waits)
		}
	}
}

// listen returns the messages that are published from now on.
func (b *bed) listen(subject string) (all func() []*nats.Msg) {
	b.Helper()
	conn := b.server.Connect(b)
	sub, err := conn.SubscribeSync(subject)
	if err != nil {
		b.Fatal(err)
	}
	all = func() (found []*nats.Msg) {
		b.Helper()
		if err := conn.Flush(); err != nil {
			b.Fatal(err)
		}
		for n, _, _ := sub.Pending(); n > 0; n-- {
			msg, err := sub.NextMsg(natstest.Patience)
			if err != nil {
				b.Fatal(err)
			}
			found = append(found, msg)
		}
		return found
	}
	all()
	return all
}

// TestExtend: a reader at its end continues from there.
func TestExtend(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]func(*streamread.Reader) *streamread.Reader{
		"consumer":    func(r *streamread.Reader) *streamread.Reader { return r },
		"no consumer": (*streamread.Reader).WithoutConsumer,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.numbered(10)
			if err := b.stream.DeleteMsg(t.Context(), 5); err != nil { // so that it reads beyond
				t.Fatal(err)
			}
			r := kind(streamread.Open(b.js, b.stream, "", 1, 5))
			defer r.Close()
			var all []uint64
			note := func(m streamread.Message) { all = append(all, m.Sequence) }
			b.read(r, note)
			r.Extend(7)
			b.read(r, note)
			b.numbered(5)
			r.Extend(15)
			b.read(r, note)
			if want := []uint64{1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; !slices.Equal(all, want) {
				t.Errorf("%v, want %v", all, want)
			}
		})
	}
}

// hostileHeaders are headers that a client could mistake for the server's.
func hostileHeaders() (all []nats.Header) {
	for _, status := range []string{"100", "200", "204", "400", "404", "408", "409", "423", "503", "x", ""} {
		for _, description := range []string{"", "Idle Heartbeat", "No Messages", "Message Size Exceeds MaxBytes", "Consumer Deleted", "Leadership Change", "Batch Completed", "EOB"} {
			h := nats.Header{"Status": {status}, "Nats-Pending-Messages": {"1000"}, "Nats-Pending-Bytes": {"5"}}
			if description != "" {
				h["Description"] = []string{description}
			}
			all = append(all, h)
		}
	}
	return append(all, nats.Header{"Nats-Stream": {"X"}, "Nats-Sequence": {"7"}, "Nats-Num-Pending": {"0"}},
		nats.Header{"Nats-Consumer-Stalled": {"$JS.FC.x"}}, nats.Header{"Nats-Last-Consumer": {"1"}})
}

// TestAnyMessage: a message with any headers and without a body is read, and so
// are the following messages, with limits retention and without.
func TestAnyMessage(t *testing.T) {
	t.Parallel()
	for name, retention := range map[string]jetstream.RetentionPolicy{"limits": jetstream.LimitsPolicy, "work queue": jetstream.WorkQueuePolicy} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			stream, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "H", Subjects: []string{"h.>"}, Retention: retention})
			if err != nil {
				t.Fatal(err)
			}
			b.stream = stream
			headers := hostileHeaders()
			for i, h := range headers {
				b.publishAsync(&nats.Msg{Subject: fmt.Sprintf("h.%d", i+1), Header: h})
			}
			<-b.js.PublishAsyncComplete()
			n := len(headers)
			// Headers that cannot be decoded, and an inlined status.
			for _, raw := range []string{"NATS/1.0\r\nNo colon\r\n\r\n", "NATS/1.0 503\r\n\r\n", "NATS/1.0 100 Idle Heartbeat\r\nA: b\r\n\r\n"} {
				n++
				publishRaw(t, b.server.URL(), fmt.Sprintf("h.%d", n), raw)
			}
			natstest.Eventually(t, fmt.Sprintf("%d messages in the stream", n), func() bool {
				info, err := stream.Info(t.Context())
				return err == nil && info.State.LastSeq == uint64(n)
			})
			// After a pause of the consumer, a message is fetched from the leader, and so
			// is each that is not recognized.
			natstest.Eventually(t, "a read without fetches from the leader", func() bool {
				r := streamread.Open(b.js, stream, "", 1, uint64(n))
				defer r.Close()
				next, malformed, asked := uint64(0), 0, b.countLeader("H")
				b.read(r, func(m streamread.Message) {
					if next++; m.Sequence != next || m.Subject != fmt.Sprintf("h.%d", next) || len(m.Data) > 0 {
						t.Fatalf("%+v, want message %d", m, next)
					}
					if m.Malformed {
						malformed++
					} else if i := int(next) - 1; i < len(headers) && m.Header.Get("Status") != headers[i].Get("Status") {
						t.Errorf("message %d has the headers %v, want %v", next, m.Header, headers[i])
					}
				})
				if next != uint64(n) || malformed != 1 {
					t.Errorf("%d messages, want %d; %d malformed, want 1", next, n, malformed)
				}
				return asked() == 0 || retention != jetstream.LimitsPolicy
			})
		})
	}
}

// countLeader counts requests to the leader from now on.
func (b *bed) countLeader(stream string) (asked func() int) {
	b.Helper()
	requests := b.listen("$JS.API.STREAM.MSG.GET." + stream)
	return func() int { return len(requests()) }
}

// publishRaw publishes a message with that raw header and without a body.
func publishRaw(t *testing.T, url, subject, header string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true}\r\nHPUB %s %d %d\r\n%s\r\nPING\r\n", subject, len(header), len(header), header)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for !strings.Contains(string(all), "PONG") {
		buf := make([]byte, 4096)
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("%s: %v", all, err)
		}
		all = append(all, buf[:n]...)
	}
	if strings.Contains(string(all), "-ERR") {
		t.Fatalf("%s", all)
	}
}

// TestLargeMessages: a message may be larger than a request allows.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(o *server.Options) { o.MaxPayload = 8 << 20 })
	for i := range 12 {
		b.publishAsync(&nats.Msg{Subject: "s.x", Data: make([]byte, []int{3 << 20, 10, 1 << 20, 5 << 20}[i%4])})
	}
	<-b.js.PublishAsyncComplete()
	asked := b.countLeader("S")
	if got := b.sequences("", 1, 12); len(got) != 12 {
		t.Errorf("%v", got)
	}
	// A busy machine may pause, too; with a fault, each of the six large ones does.
	if n := asked(); n >= 6 {
		t.Errorf("%d messages were fetched from the leader, after a pause", n)
	}
}

// TestConsumerLost: the consumer is deleted, or the server restarted, during a
// read.
func TestConsumerLost(t *testing.T) {
	t.Parallel()
	const n = 6_000
	for name, c := range map[string]struct {
		at   map[uint64]bool
		lose func(b *bed)
	}{
		"deleted": {map[uint64]bool{1: true, 1500: true, 2999: true, 5_990: true}, func(b *bed) {
			for name := range b.stream.ConsumerNames(b.Context()).Name() {
				if err := b.stream.DeleteConsumer(b.Context(), name); err != nil {
					b.Error(err)
				}
			}
		}},
		"server restarted": {map[uint64]bool{3000: true}, func(b *bed) { b.server.Restart() }},
		"messages removed": {map[uint64]bool{3000: true}, func(b *bed) {
			if err := b.stream.DeleteMsg(b.Context(), n); err != nil {
				b.Error(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.numbered(n)
			r := streamread.Open(b.js, b.stream, "", 1, n)
			defer r.Close()
			next := uint64(0)
			b.read(r, func(m streamread.Message) {
				if next++; m.Sequence != next || string(m.Data) != fmt.Sprint(next) {
					t.Fatalf("%d %s, want %d", m.Sequence, m.Data, next)
				}
				if c.at[next] {
					c.lose(b)
				}
			})
			if next < n-1 {
				t.Errorf("%d messages", next)
			}
		})
	}
}

// TestNothingIsLeft: a reader that is closed leaves no consumer.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.numbered(5000)
	r := streamread.Open(b.js, b.stream, "", 1, 5000)
	for range 10 {
		if _, err := r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	b.sequences("", 1, 5000)
	// A server that is slow deletes it later. If it is not told to, it does so after
	// twice that time.
	err := natstest.Await(15*time.Second, "the end of the consumers", func() error {
		info, err := b.stream.Info(t.Context())
		if err == nil && info.State.Consumers != 0 {
			err = fmt.Errorf("%d consumers are left", info.State.Consumers)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestStreamDeleted: reading ends with an error.
func TestStreamDeleted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.numbered(5000)
	r := streamread.Open(b.js, b.stream, "", 1, 5000)
	defer r.Close()
	if _, err := r.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.js.DeleteStream(t.Context(), "S"); err != nil {
		t.Fatal(err)
	}
	for {
		_, err := r.Next(t.Context())
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			t.Error(err)
		}
		return
	}
}
