package nemesis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// The streams of the enrichment.
const (
	sourceStream = "ORDERS"
	targetStream = "READY"
	eventRate    = 500 // a second
	eventBatch   = 100 // that are published together
)

// eventCheck publishes events, and checks their arrival.
type eventCheck struct {
	run  *Run
	js   jetstream.JetStream
	stop context.Context
	wg   sync.WaitGroup

	mu       sync.Mutex
	sequence uint64            // the last known sequence of the source
	numbers  map[uint64]string // of events that have not arrived, by sequence
	sentAt   map[uint64]time.Duration
	arrived  uint64
	unseen   int64 // events whose content was not compared: their sequence became known too late
}

// startEvents makes the streams, and starts to publish.
func (r *Run) startEvents(stop context.Context) *eventCheck {
	e := &eventCheck{run: r, js: r.cluster.js, stop: stop, numbers: make(map[uint64]string), sentAt: make(map[uint64]time.Duration)}
	for _, cfg := range []jetstream.StreamConfig{
		{Name: sourceStream, Subjects: []string{"orders.raw.>"}, Duplicates: 4 * patient},
		{Name: targetStream, Subjects: []string{"orders.ready.>"}, AllowAtomicPublish: true, AllowBatchPublish: true},
	} {
		cfg.Replicas = len(servers)
		r.must(natstest.Await(patient, "stream "+cfg.Name, func() error {
			_, err := e.js.CreateOrUpdateStream(context.Background(), cfg)
			return err
		}))
	}
	return e
}

func (e *eventCheck) start() {
	e.wg.Go(e.publishAll)
}

// publishAll publishes events at a rate, each batch until the source has it.
func (e *eventCheck) publishAll() {
	n := 0
	for range ticks(e.stop, time.Second*eventBatch/eventRate) {
		batch := make([]string, eventBatch)
		for i := range batch {
			n++
			batch[i] = strconv.Itoa(n)
		}
		for begin := e.run.now(); len(batch) > 0; {
			if batch = e.publish(batch); len(batch) > 0 && e.run.now()-begin > patient {
				e.run.note("the source took no events for %v, so none followed", patient)
				return
			}
		}
	}
}

// publish publishes events, and returns those that the source has not
// confirmed. Their IDs in the source's window of duplicates keep those from
// being there twice that it had taken.
func (e *eventCheck) publish(batch []string) (failed []string) {
	sent := e.run.now()
	acks := make([]jetstream.PubAckFuture, len(batch))
	for i, number := range batch {
		acks[i], _ = e.js.PublishMsgAsync(&nats.Msg{ // an error leaves no future
			Subject: "orders.raw." + number[len(number)-1:], Data: []byte(`{"n":` + number + `}`), Header: nats.Header{nats.MsgIdHdr: {number}},
		})
	}
	for i, ack := range acks {
		if ack == nil {
			failed = append(failed, batch[i])
			continue
		}
		select {
		case a := <-ack.Ok():
			e.published(a.Sequence, batch[i], sent)
		case err := <-ack.Err():
			if err != nil {
				failed = append(failed, batch[i])
			}
		}
	}
	return failed
}

func (e *eventCheck) published(sequence uint64, number string, sent time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sequence = max(e.sequence, sequence)
	if sequence > e.arrived {
		e.numbers[sequence], e.sentAt[sequence] = number, sent
	}
}

// read checks the target's messages, until the context ends.
func (e *eventCheck) read(ctx context.Context) {
	for ctx.Err() == nil {
		_ = e.readOn(ctx) // begins again where it ended
		time.Sleep(100 * ms)
	}
}

func (e *eventCheck) readOn(ctx context.Context) error {
	c, err := e.js.OrderedConsumer(ctx, targetStream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: e.seen() + 1,
	})
	if err != nil {
		return err
	}
	it, err := c.Messages(jetstream.PullHeartbeat(time.Second), jetstream.PullExpiry(5*time.Second))
	if err != nil {
		return err
	}
	defer it.Stop()
	for ctx.Err() == nil {
		msg, err := it.Next(jetstream.NextMaxWait(5 * time.Second))
		if err != nil {
			return err
		}
		if err := e.check(msg); err != nil {
			return err
		}
	}
	return nil
}

func (e *eventCheck) seen() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.arrived
}

// errGap: the consumer skipped a message, which is requested again.
var errGap = errors.New("not the next message")

// check checks a message of the target: the kth message is the kth event of the
// source.
func (e *eventCheck) check(msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.arrived + 1
	if meta.Sequence.Stream != k {
		return fmt.Errorf("%w: %d instead of %d", errGap, meta.Sequence.Stream, k)
	}
	e.arrived = k
	h := msg.Headers()
	text := h.Get("Ids-Id")
	id, err := strconv.ParseInt(text, 10, 64)
	if want := fmt.Sprintf("%s %d", sourceStream, k); err != nil || h.Get("Ids-Source") != want || len(h["Ids-Id"]) != 1 {
		e.run.checker.Violation("EVENT: message %d of the target has Ids-Source %q and Ids-Id %q, want %q and one ID: doubled, lost or out of order",
			k, h.Get("Ids-Source"), h["Ids-Id"], want)
		return nil
	}
	var body struct {
		N  json.Number `json:"n"`
		ID string      `json:"id"`
	}
	number, known := e.numbers[k]
	err = json.Unmarshal(msg.Data(), &body)
	if err != nil || body.ID != text || known && body.N.String() != number || !strings.HasPrefix(msg.Subject(), "orders.ready.") {
		e.run.checker.Violation("EVENT: message %d of the target on %s is %s with ID %s, event %s", k, msg.Subject(), msg.Data(), text, number)
	}
	sent := e.run.now()
	if known {
		sent = e.sentAt[k]
	} else {
		e.unseen++
	}
	delete(e.numbers, k)
	delete(e.sentAt, k)
	e.run.record(&Call{Kind: Event, Tag: eventTag, Sent: sent, Count: 1, Ranges: []messages.Range{{First: id, Last: id}}})
	return nil
}

// finish waits until all events have arrived that were published.
func (e *eventCheck) finish() {
	e.mu.Lock()
	last := e.sequence
	e.mu.Unlock()
	err := natstest.Await(patient, "the last event to arrive", func() error {
		if n := e.seen(); n < last {
			return fmt.Errorf("%w: %d of %d are there", errGap, n, last)
		}
		return nil
	})
	if err != nil {
		e.run.checker.Violation("EVENTS: %v", err)
	}
}
