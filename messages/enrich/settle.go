package enrich

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/leader"
)

// settlePlan finds out what became of the plan in the record, if there is one, and moves
// the record on as far as the plan's events have arrived. What is left of the plan is then
// to be published behind the target's last sequence.
func (r *recordEntry) settlePlan(ctx context.Context, js jetstream.JetStream, source string, target jetstream.Stream) error {
	info, err := target.Info(ctx)
	if err != nil {
		return fmt.Errorf("target stream: %w", err)
	}
	last := info.State.LastSeq
	if last < r.Last {
		return fmt.Errorf("%w: stream %s ends at sequence %d, but there was a sequence %d; its server has lost messages that it had acknowledged, see sync_interval",
			ErrAmbiguous, info.Config.Name, last, r.Last)
	}
	if r.Plan != nil && last > r.Last {
		arrived, err := r.arrivedThrough(ctx, js, source, info.Config.Name, last)
		if err != nil {
			return err
		}
		r.markDone(arrived)
	}
	r.Last = last
	return nil
}

// arrivedThrough returns the source sequence through which the plan's events have arrived
// in the target, whose last sequence has changed.
func (r *recordEntry) arrivedThrough(ctx context.Context, js jetstream.JetStream, source, target string, last uint64) (uint64, error) {
	if len(r.Plan.Runs) == 0 { // dead letters only
		return r.Plan.Through, nil
	}
	if last == r.Last+r.Plan.size() {
		msg, err := leader.At(ctx, js, target, last)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return r.Plan.Through, nil // consumed and removed already
		}
		if err != nil {
			return 0, fmt.Errorf("read the target: %w", err)
		}
		if seq, ours := parseOrigin(source, msg.Header); ours && seq == r.Plan.lastSequence() {
			return r.Plan.Through, nil
		}
	}
	return r.searchTarget(ctx, js, source, target, last)
}

// searchTarget reads the messages of the target behind Last, looking for events of the
// plan. It returns the source sequence through which they have arrived.
func (r *recordEntry) searchTarget(ctx context.Context, js jetstream.JetStream, source, target string, last uint64) (uint64, error) {
	arrived := r.Done
	for seq := r.Last + 1; seq <= last; seq++ {
		msg, err := leader.At(ctx, js, target, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return 0, fmt.Errorf("%w: sequence %d of stream %s is gone, and not all messages behind %d were written by enrichers",
				ErrAmbiguous, seq, target, r.Last)
		}
		if err != nil {
			return 0, fmt.Errorf("read the target: %w", err)
		}
		if from, ours := parseOrigin(source, msg.Header); ours && from > arrived && from <= r.Plan.lastSequence() {
			arrived = from
		}
	}
	if arrived == r.Plan.lastSequence() {
		return r.Plan.Through, nil
	}
	return arrived, nil
}

// markDone moves the record's position to a source sequence, and takes the events through
// it out of the plan.
func (r *recordEntry) markDone(through uint64) {
	r.Done = through
	if r.Plan == nil {
		return
	}
	if r.Plan.Runs = r.Plan.runsAfter(through); len(r.Plan.Runs) == 0 {
		r.Plan = nil
	}
}
