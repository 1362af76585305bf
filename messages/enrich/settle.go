package enrich

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/leader"
)

// ErrAmbiguous says that the target was written by somebody else, and messages that would
// tell whether a batch of events arrived have been removed from it. Its remedy is an
// operator's decision.
var ErrAmbiguous = errors.New("cannot tell whether events arrived")

// settle finds out what became of the plan in the record, if it has one, and moves the
// record on as far as the plan has arrived. What is left of the plan then is to be published
// behind the target's last sequence.
func (b *book) settle(ctx context.Context, js jetstream.JetStream, source string, target jetstream.Stream) error {
	info, err := target.Info(ctx)
	if err != nil {
		return fmt.Errorf("target stream: %w", err)
	}
	last := info.State.LastSeq
	if last < b.Last {
		return fmt.Errorf("%w: stream %s ends at sequence %d, but there was a %d; its server has lost messages it had acknowledged, see sync_interval",
			ErrAmbiguous, info.Config.Name, last, b.Last)
	}
	if b.Plan != nil && last > b.Last {
		arrived, err := b.arrived(ctx, js, source, info.Config.Name, last)
		if err != nil {
			return err
		}
		b.finish(arrived)
	}
	b.Last = last
	return nil
}

// arrived is the source sequence through which the plan has arrived in the target, whose
// last sequence is not what it was.
func (b *book) arrived(ctx context.Context, js jetstream.JetStream, source, target string, last uint64) (uint64, error) {
	if len(b.Plan.Runs) == 0 { // dead letters only
		return b.Plan.Through, nil
	}
	if last == b.Last+b.Plan.size() {
		msg, err := leader.At(ctx, js, target, last)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return b.Plan.Through, nil // consumed and removed already
		}
		if err != nil {
			return 0, fmt.Errorf("read the target: %w", err)
		}
		if seq, ours := originSeq(source, msg.Header); ours && seq == b.Plan.last() {
			return b.Plan.Through, nil
		}
	}
	return b.search(ctx, js, source, target, last)
}

// search reads what the target got behind Last, for events of the plan.
func (b *book) search(ctx context.Context, js jetstream.JetStream, source, target string, last uint64) (uint64, error) {
	arrived := b.Done
	for seq := b.Last + 1; seq <= last; seq++ {
		msg, err := leader.At(ctx, js, target, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return 0, fmt.Errorf("%w: sequence %d of stream %s is gone, and not all behind %d was written by enrichers",
				ErrAmbiguous, seq, target, b.Last)
		}
		if err != nil {
			return 0, fmt.Errorf("read the target: %w", err)
		}
		if from, ours := originSeq(source, msg.Header); ours && from > arrived && from <= b.Plan.last() {
			arrived = from
		}
	}
	if arrived == b.Plan.last() {
		return b.Plan.Through, nil
	}
	return arrived, nil
}

// finish notes that the source is done through a sequence.
func (b *book) finish(through uint64) {
	b.Done = through
	if b.Plan == nil {
		return
	}
	if b.Plan.Runs = b.Plan.after(through); len(b.Plan.Runs) == 0 {
		b.Plan = nil
	}
}
