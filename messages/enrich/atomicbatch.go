package enrich

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// The headers of an atomic batch. See the NATS architecture decision record ADR-50.
const (
	headerBatchID     = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"
)

// errTargetMoved says that the target's last sequence is not the expected one.
var errTargetMoved = errors.New("the target has moved on")

// publishBatch publishes messages to one stream, all of them or none, if the stream's last
// sequence is the expected one. It returns the last sequence afterwards. Not only the last
// message asks for an answer but also the first, because that is where the server says why
// it accepts no batch at all. What is wrong with any other message has to be found out
// before.
//
// After errTargetMoved and other errors of the server, nothing was published. After errors
// of the connection or of ctx, that is not known.
func publishBatch(ctx context.Context, conn *nats.Conn, msgs []*nats.Msg, last uint64) (uint64, error) {
	inbox := conn.NewInbox()
	answers, err := conn.SubscribeSync(inbox)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answers.Unsubscribe() }() // fails only if the connection is closed
	batch := nuid.Next()
	for i, msg := range msgs {
		msg.Reply = ""
		if i == 0 || i == len(msgs)-1 {
			msg.Reply = inbox
		}
		msg.Header.Set(headerBatchID, batch)
		msg.Header.Set(headerBatchSeq, strconv.Itoa(i+1))
		if i == 0 {
			msg.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(last, 10))
		}
		if i == len(msgs)-1 {
			msg.Header.Set(headerBatchCommit, "1")
		}
		if err := conn.PublishMsg(msg); err != nil {
			return 0, err
		}
	}
	return awaitCommit(ctx, answers)
}

// awaitCommit waits for the answer to the whole batch, or for an error. An empty answer
// only says that one message of the batch has arrived.
func awaitCommit(ctx context.Context, answers *nats.Subscription) (uint64, error) {
	for {
		msg, err := answers.NextMsgWithContext(ctx)
		switch {
		case err != nil:
			return 0, err
		case msg.Header.Get("Status") == "503":
			return 0, nats.ErrNoResponders
		case len(msg.Data) == 0:
			continue
		}
		var ack struct {
			Sequence uint64              `json:"seq"`
			Error    *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(msg.Data, &ack); err != nil {
			return 0, fmt.Errorf("answer of the server: %w", err)
		}
		if ack.Error == nil {
			return ack.Sequence, nil
		}
		switch ack.Error.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			return 0, fmt.Errorf("%w: %w", errTargetMoved, ack.Error)
		}
		return 0, ack.Error
	}
}
