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

// Change is a write of a key that must have a revision, 0 for none.
type Change struct {
	Key      string
	Value    []byte
	Revision uint64
}

// Written is the outcome of a [Change]: that of [Bucket.Update].
type Written struct {
	Revision uint64
	Err      error
}

const (
	// MaxBatch is the most changes of one [Bucket.UpdateMany]. A server accepts
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

// UpdateMany writes up to [MaxBatch] changes of different keys, and returns
// the outcome of each. If the stream allows atomic batches, all changes are one
// batch, which a syncing server stores with one sync. If the server refuses the
// batch, or allows none, each change is written alone.
func (b *Bucket) UpdateMany(ctx context.Context, changes []Change) []Written {
	if len(changes) > 1 && b.stream.CachedInfo().Config.AllowAtomicPublish {
		last, err := b.writeBatch(ctx, changes)
		if refused := (*jetstream.APIError)(nil); !errors.As(err, &refused) {
			done := make([]Written, len(changes))
			for i := range done {
				done[i].Err = keyError(b.Name(), changes[i].Key, err)
				if err == nil {
					done[i].Revision = last - uint64(len(changes)-1-i)
				}
			}
			return done
		}
	}
	return b.writeSingly(ctx, changes)
}

func (b *Bucket) writeSingly(ctx context.Context, changes []Change) []Written {
	done := make([]Written, len(changes))
	var writers errgroup.Group
	writers.SetLimit(singles)
	for i, c := range changes {
		writers.Go(func() error {
			done[i].Revision, done[i].Err = b.Update(ctx, c.Key, c.Value, c.Revision)
			return nil
		})
	}
	_ = writers.Wait() // each change has its own error
	return done
}

// writeBatch writes all changes or none, and returns the revision of the last.
// After a *jetstream.APIError nothing was written; after any other error the
// outcome is unknown.
func (b *Bucket) writeBatch(ctx context.Context, changes []Change) (last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	id, subject := nuid.Next(), "$KV."+b.Name()+"."
	if o := b.js.Options(); o.Domain+o.APIPrefix != "" {
		subject = streamread.APISubject(b.js, subject)
	}
	var reply *nats.Msg
	for i, c := range changes {
		msg := &nats.Msg{Subject: subject + c.Key, Data: c.Value, Header: nats.Header{
			headerBatchID:                       {id},
			headerBatchSeq:                      {strconv.Itoa(i + 1)},
			jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(c.Revision, 10)},
		}}
		if i < len(changes)-1 {
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
	case ack.Batch != id || ack.Count != len(changes):
		return 0, fmt.Errorf("reply to a batch of %d: %.100q", len(changes), reply.Data)
	}
	return ack.Sequence, nil
}
