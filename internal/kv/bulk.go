package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"

	"github.com/idworker/idworker/internal/streamread"
)

// Write is a new value of a key that must have a revision, 0 for none.
type Write struct {
	Key      string
	Value    []byte
	Revision uint64
}

// Written is the outcome of a [Write]: that of [Bucket.Update].
type Written struct {
	Revision uint64
	Err      error
}

const (
	// MaxBatch is the most writes of one [Bucket.UpdateMany]. A server accepts
	// atomic batches of 1,000 messages at most.
	MaxBatch = 500

	// singles is the number of writes in flight without atomic batches. A
	// server that syncs every write stores several with one sync.
	singles = 64

	batchTimeout = 30 * time.Second
)

// The headers of an atomic batch, see the NATS architecture decision record
// ADR-50.
const (
	headerBatchID     = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"
)

// UpdateMany makes up to [MaxBatch] writes of different keys, and returns
// the outcome of each. If the stream allows atomic batches, all writes are one
// batch, which a syncing server stores with one sync. If the server refuses the
// batch, or allows none, each is sent alone.
func (b *Bucket) UpdateMany(ctx context.Context, writes []Write) []Written {
	if len(writes) > 1 && b.stream.CachedInfo().Config.AllowAtomicPublish {
		last, err := b.writeBatch(ctx, writes)
		if refused := (*jetstream.APIError)(nil); !errors.As(err, &refused) {
			done := make([]Written, len(writes))
			for i := range done {
				done[i].Err = keyError(b.Name(), writes[i].Key, err)
				if err == nil {
					done[i].Revision = last - uint64(len(writes)-1-i)
				}
			}
			return done
		}
	}
	return b.writeSingly(ctx, writes)
}

func (b *Bucket) writeSingly(ctx context.Context, writes []Write) []Written {
	done := make([]Written, len(writes))
	var writers errgroup.Group
	writers.SetLimit(singles)
	for i, w := range writes {
		writers.Go(func() error {
			done[i].Revision, done[i].Err = b.Update(ctx, w.Key, w.Value, w.Revision)
			return nil
		})
	}
	_ = writers.Wait() // each write has its own error
	return done
}

// writeBatch makes all writes or none, and returns the revision of the last.
// After a *jetstream.APIError nothing was written; after any other error the
// outcome is unknown.
func (b *Bucket) writeBatch(ctx context.Context, writes []Write) (last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	id, subject := nuid.Next(), "$KV."+b.Name()+"."
	if o := b.js.Options(); o.Domain+o.APIPrefix != "" {
		subject = streamread.APISubject(b.js, subject)
	}
	var reply *nats.Msg
	for i, w := range writes {
		msg := &nats.Msg{Subject: subject + w.Key, Data: w.Value, Header: nats.Header{
			headerBatchID:                       {id},
			headerBatchSeq:                      {strconv.Itoa(i + 1)},
			jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(w.Revision, 10)},
		}}
		if i < len(writes)-1 {
			err = b.js.Conn().PublishMsg(msg)
		} else {
			msg.Header[headerBatchCommit] = []string{"1"}
			reply, err = b.js.Conn().RequestMsgWithContext(ctx, msg)
		}
		if err != nil {
			return 0, err
		}
	}
	var ack struct {
		Sequence uint64              `json:"seq"`
		Batch    string              `json:"batch"`
		Count    int                 `json:"count"`
		Error    *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(reply.Data, &ack); {
	case err != nil:
		return 0, fmt.Errorf("reply to a batch: %w", err)
	case ack.Error != nil:
		return 0, ack.Error
	case ack.Batch != id || ack.Count != len(writes):
		return 0, fmt.Errorf("reply to a batch of %d: %.100q", len(writes), reply.Data)
	}
	return ack.Sequence, nil
}
