package enrich

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// openSource finds the source and checks that it can be read by position.
func openSource(ctx context.Context, js jetstream.JetStream, c Config) (jetstream.Stream, error) {
	s, err := js.Stream(ctx, c.From)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, bad("there is no stream %s to read from", c.From)
	}
	if err != nil {
		return nil, fmt.Errorf("source stream %s: %w", c.From, err)
	}
	cfg := s.CachedInfo().Config
	if cfg.Retention != jetstream.LimitsPolicy {
		return nil, bad("stream %s has %s retention; want limits, because enrichers read by position and acknowledge nothing", c.From, cfg.Retention)
	}
	if !slices.ContainsFunc(cfg.Subjects, func(s string) bool { return overlap(s, c.Filter) }) && cfg.Mirror == nil && len(cfg.Sources) == 0 {
		return nil, bad("no subject of stream %s %q matches the filter %q", c.From, cfg.Subjects, c.Filter)
	}
	return s, nil
}

// openTarget finds the stream that takes the stamped events, and checks that it takes
// batches and does not lead back to the source.
func openTarget(ctx context.Context, js jetstream.JetStream, c Config, source jetstream.StreamConfig) (jetstream.Stream, error) {
	if slices.ContainsFunc(source.Subjects, func(s string) bool { return overlap(s, c.To) }) {
		return nil, bad("target %q loops back: stream %s has the subjects %q", c.To, c.From, source.Subjects)
	}
	name, err := js.StreamNameBySubject(ctx, c.To)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, bad("no stream takes the target subject %q; create one for it, with --allow-batch", c.To)
	}
	if err != nil {
		return nil, fmt.Errorf("find the stream of %q: %w", c.To, err)
	}
	s, err := js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("target stream %s: %w", name, err)
	}
	return s, checkTarget(s.CachedInfo().Config, c, source)
}

func checkTarget(cfg jetstream.StreamConfig, c Config, source jetstream.StreamConfig) error {
	feeds := slices.Clone(source.Sources)
	if source.Mirror != nil {
		feeds = append(feeds, source.Mirror)
	}
	switch {
	case !slices.ContainsFunc(cfg.Subjects, func(s string) bool { return covers(s, c.To) }):
		return bad("stream %s takes %q, which is not all of the target %q", cfg.Name, cfg.Subjects, c.To)
	case slices.ContainsFunc(feeds, func(f *jetstream.StreamSource) bool { return f.Name == cfg.Name }):
		return bad("target %q loops back: stream %s copies stream %s", c.To, c.From, cfg.Name)
	case cfg.RePublish != nil && slices.ContainsFunc(source.Subjects, func(s string) bool { return overlap(s, cfg.RePublish.Destination) }):
		return bad("target %q loops back: stream %s republishes to %q", c.To, cfg.Name, cfg.RePublish.Destination)
	case cfg.Sealed:
		return bad("stream %s is sealed, it takes no events", cfg.Name)
	case cfg.NoAck:
		return bad("stream %s acknowledges nothing (no_ack), so events could be lost unseen", cfg.Name)
	case !cfg.AllowAtomicPublish:
		return bad("stream %s takes no atomic batches, which keep events from being there twice; allow them: nats stream edit %s --allow-batch", cfg.Name, cfg.Name)
	}
	return nil
}

// checkDeadLetter checks that dead letters are kept somewhere, and not in the source.
func checkDeadLetter(ctx context.Context, js jetstream.JetStream, c Config, source jetstream.StreamConfig) error {
	if c.DeadLetter == "" {
		return nil
	}
	if slices.ContainsFunc(source.Subjects, func(s string) bool { return overlap(s, c.DeadLetter) }) {
		return bad("dead-letter subject %q loops back: stream %s has the subjects %q", c.DeadLetter, c.From, source.Subjects)
	}
	_, err := js.StreamNameBySubject(ctx, c.DeadLetter)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return bad("no stream takes the dead-letter subject %q, so dead letters would be lost", c.DeadLetter)
	}
	if err != nil {
		return fmt.Errorf("find the stream of %q: %w", c.DeadLetter, err)
	}
	return nil
}
