package enrich

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/subject"
)

// openSource finds the source stream and checks that it can be read by
// position.
func openSource(ctx context.Context, js jetstream.JetStream, c Config) (jetstream.Stream, error) {
	s, err := js.Stream(ctx, c.From)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, configError("no stream %s", c.From)
	}
	if err != nil {
		return nil, fmt.Errorf("source stream %s: %w", c.From, err)
	}
	cfg := s.CachedInfo().Config
	if cfg.Retention != jetstream.LimitsPolicy {
		return nil, configError("stream %s has %s retention, want limits: enrichers do not acknowledge", c.From, cfg.Retention)
	}
	if !slices.ContainsFunc(cfg.Subjects, func(s string) bool { return subject.Overlap(s, c.Filter) }) && cfg.Mirror == nil && len(cfg.Sources) == 0 {
		return nil, configError("no subject of stream %s %q matches filter %q", c.From, cfg.Subjects, c.Filter)
	}
	if c.OnLoss == Stop && !coversAll(c.Filter, cfg) {
		return nil, configError("stop on loss needs a filter that matches all subjects of the stream: %q does not cover stream %s %q", c.Filter, c.From, cfg.Subjects)
	}
	return s, nil
}

// openTarget finds the stream that takes the stamped events. It checks that the
// stream allows atomic batches and does not lead back to the source. The error
// may be a [TargetError].
func openTarget(ctx context.Context, js jetstream.JetStream, c Config, source jetstream.StreamConfig) (jetstream.Stream, error) {
	if slices.ContainsFunc(source.Subjects, func(s string) bool { return subject.Overlap(s, c.To) }) {
		return nil, configError("target %q loops back: stream %s has subjects %q", c.To, c.From, source.Subjects)
	}
	name, err := js.StreamNameBySubject(ctx, c.To)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, &TargetError{Subject: c.To}
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

// checkTarget checks that the target stream with that configuration takes all
// events, loses none, and does not lead back to the source.
func checkTarget(cfg jetstream.StreamConfig, c Config, source jetstream.StreamConfig) error {
	switch {
	case !slices.ContainsFunc(cfg.Subjects, func(s string) bool { return subject.Covers(s, c.To) }):
		return configError("stream %s has subjects %q, which do not cover target %q", cfg.Name, cfg.Subjects, c.To)
	case copies(source, cfg.Name):
		return configError("target %q loops back: stream %s copies stream %s", c.To, c.From, cfg.Name)
	case cfg.RePublish != nil && slices.ContainsFunc(source.Subjects, func(s string) bool { return subject.Overlap(s, cfg.RePublish.Destination) }):
		return configError("target %q loops back: stream %s republishes to %q", c.To, cfg.Name, cfg.RePublish.Destination)
	case len(cfg.Sources) > 0:
		return copiesError(cfg)
	case cfg.Sealed:
		return configError("stream %s is sealed", cfg.Name)
	case cfg.NoAck:
		return configError("stream %s has no_ack, so events could be lost unnoticed", cfg.Name)
	case !cfg.AllowAtomicPublish:
		return &TargetError{Subject: c.To, Stream: cfg.Name}
	}
	return nil
}

// copiesError refuses a target that copies other streams.
func copiesError(target jetstream.StreamConfig) error {
	return configError("target stream %s copies stream %s, whose messages could take the place of events", target.Name, target.Sources[0].Name)
}

// copies reports whether a stream copies another. A copy by way of a third
// stream is not detected: enrichers need not have the right to see that.
func copies(cfg jetstream.StreamConfig, name string) bool {
	return cfg.Mirror != nil && cfg.Mirror.Name == name ||
		slices.ContainsFunc(cfg.Sources, func(s *jetstream.StreamSource) bool { return s.Name == name })
}

// checkDeadLetter checks that a stream keeps the dead letters, and that it is
// not the source.
func checkDeadLetter(ctx context.Context, js jetstream.JetStream, c Config, source jetstream.StreamConfig) error {
	if c.DeadLetter == "" {
		return nil
	}
	if slices.ContainsFunc(source.Subjects, func(s string) bool { return subject.Overlap(s, c.DeadLetter) }) {
		return configError("dead-letter subject %q loops back: stream %s has subjects %q", c.DeadLetter, c.From, source.Subjects)
	}
	name, err := js.StreamNameBySubject(ctx, c.DeadLetter)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return configError("no stream takes dead-letter subject %q", c.DeadLetter)
	}
	if err != nil {
		return fmt.Errorf("find the stream of %q: %w", c.DeadLetter, err)
	}
	if copies(source, name) {
		return configError("dead-letter subject %q loops back: stream %s copies stream %s", c.DeadLetter, c.From, name)
	}
	return nil
}
