package enrich

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/inbox"
)

// The headers of an atomic batch, and the parts of a fast batch's reply
// subject. See the NATS architecture decision record ADR-50.
const (
	headerBatchID     = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"

	fastStart, fastAppend, fastCommit = ".0.$FI", ".1.$FI", ".2.$FI"
)

// errTargetMoved means that the target's last sequence is not as expected.
var errTargetMoved = errors.New("the target has advanced")

// errBatchTooLarge means that the server refuses a batch of that many messages.
var errBatchTooLarge = errors.New("too many messages in a batch")

// errCodeBatchTooLarge is the server's code for that.
const errCodeBatchTooLarge = 10199

// strayAnswers is the room in the inbox for meaningless replies, beside a reply
// to each message of a batch.
const strayAnswers = 64

// maxRefusals is the number of batches in a row that may be refused, see
// isRefusal, before that counts as a failure: another publisher keeps writing
// to the target.
const maxRefusals = 10

// isRefusal reports whether the next try, with fewer messages at once, may
// succeed.
func isRefusal(err error) bool {
	return errors.Is(err, errTargetMoved) || errors.Is(err, errBatchTooLarge)
}

// publisher publishes batches to a stream.
type publisher struct {
	conn   *nats.Conn
	stream string
	fast   bool // with fast instead of atomic batches
	// Messages in a batch that the server is believed to accept.
	most int

	refusals int // in a row, at most maxRefusals
	// The last try; the next batch is then atomic and gets the server's reason.
	failed bool
}

// adapt records the outcome of publishing.
func (p *publisher) adapt(err error) {
	p.failed = err != nil
	if errors.Is(err, errBatchTooLarge) {
		p.most = max(p.most/2, 1)
	}
	switch {
	case err == nil:
		p.refusals = 0
	case isRefusal(err):
		p.refusals = min(p.refusals+1, maxRefusals)
	}
}

// publish publishes messages, each on the condition that it follows the
// previous message and the first follows the sequence last. After an error, the
// first of them may be stored.
func (p publisher) publish(ctx context.Context, msgs []*nats.Msg, last uint64) error {
	for batch := range slices.Chunk(msgs, max(p.most>>p.refusals, 1)) {
		if err := p.publishBatch(ctx, batch, last); err != nil {
			return err
		}
		last += uint64(len(batch))
	}
	return nil
}

// publishBatch publishes messages at once. An atomic batch is stored as a whole
// or not at all, of a fast batch perhaps only the first messages.
func (p publisher) publishBatch(ctx context.Context, msgs []*nats.Msg, last uint64) error {
	reply, id := p.conn.NewInbox(), nuid.Next()
	answers, err := inbox.Subscribe(p.conn, reply+".>", len(msgs)+strayAnswers)
	if err != nil {
		return err
	}
	defer answers.Unsubscribe()
	want := commit{Stream: p.stream, Sequence: last + uint64(len(msgs)), Batch: id, Count: len(msgs)}
	prepare := prepareAtomic
	switch {
	case p.fast && !p.failed:
		prepare = prepareFast
	case len(msgs) == 1:
		prepare, want.Batch, want.Count = prepareAlone, "", 0
	}
	for i, msg := range msgs {
		prepare(msg, reply, id, i, len(msgs), last)
		if err := p.conn.PublishMsg(msg); err != nil {
			return err
		}
	}
	return awaitCommit(ctx, answers, want)
}

// prepareAlone puts the condition on a message that is no batch: a batch would
// be staged on disk, synced and removed again for nothing.
func prepareAlone(msg *nats.Msg, reply, _ string, _, _ int, last uint64) {
	msg.Header[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(last, 10)}
	msg.Reply = reply + ".alone"
}

// prepareAtomic puts the headers of an atomic batch on message i of n. The
// first and the last message request a reply: with the first, the server
// reports why it accepts no batch at all. A fault in any other message is in
// the last reply.
func prepareAtomic(msg *nats.Msg, reply, id string, i, n int, last uint64) {
	msg.Reply = ""
	msg.Header[headerBatchID] = []string{id}
	msg.Header[headerBatchSeq] = []string{strconv.Itoa(i + 1)}
	if i == 0 {
		msg.Header[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(last, 10)}
	}
	if i == n-1 {
		msg.Header[headerBatchCommit] = []string{"1"}
	}
	if i == 0 || i == n-1 {
		msg.Reply = reply + ".atomic"
	}
}

// prepareFast makes a message part of a fast batch that ends with the first
// refused message. The condition is on each message, so that nothing gets in
// between.
func prepareFast(msg *nats.Msg, reply, id string, i, n int, last uint64) {
	operation := fastAppend
	switch i {
	case n - 1:
		operation = fastCommit
	case 0:
		operation = fastStart
	}
	msg.Header[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(last+uint64(i), 10)}
	msg.Reply = reply + "." + id + ".1000.fail." + strconv.Itoa(i+1) + operation
}

// commit is the reply to a batch that was stored as a whole. The reply to a
// single message has no batch and no count.
type commit struct {
	Stream   string `json:"stream"`
	Sequence uint64 `json:"seq"`
	Batch    string `json:"batch"`
	Count    int    `json:"count"`
}

// awaitCommit waits for the reply that confirms the whole batch, or for an
// error. Any client can reply; a reply that is no error and does not name
// stream and batch (or, of a single message, stream and sequence) is ignored.
func awaitCommit(ctx context.Context, answers *inbox.Inbox, want commit) error {
	for {
		msg, err := answers.Next(ctx)
		if err != nil {
			return err
		}
		var ack struct {
			commit
			Error *jetstream.APIError `json:"error"`
		}
		switch err := json.Unmarshal(msg.Data, &ack); {
		case err != nil:
		case ack.Error != nil:
			return serverError(ack.Error)
		case ack.commit == want:
			return nil
		case ack.Stream == want.Stream && ack.Batch == want.Batch && ack.Batch != "":
			return fmt.Errorf("%w: stored %d of %d messages, through sequence %d instead of %d", errTargetMoved, ack.Count, want.Count, ack.Sequence, want.Sequence)
		}
	}
}

func serverError(err *jetstream.APIError) error {
	switch err.ErrorCode {
	case errCodeBatchTooLarge:
		return fmt.Errorf("%w: %w", errBatchTooLarge, err)
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return fmt.Errorf("%w: %w", errTargetMoved, err)
	}
	return err
}
