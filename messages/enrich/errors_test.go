package enrich

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// What is missing of the target can be told from the error without reading its text.
func TestTargetErrors(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.stream(jetstream.StreamConfig{Name: "PLAIN", Subjects: []string{"plain.>"}})
	for _, c := range []struct {
		to     string
		want   error
		stream string
	}{
		{"nowhere.>", ErrNoTarget, ""},
		{"plain.>", ErrNoBatches, "PLAIN"},
	} {
		cfg := b.config()
		cfg.To = c.to
		_, err := Open(t.Context(), cfg)
		var got *TargetError
		if !errors.Is(err, ErrConfig) || !errors.Is(err, c.want) || !errors.As(err, &got) {
			t.Errorf("target %s: %v, want a TargetError that is ErrConfig and %v", c.to, err, c.want)
		} else if got.Subject != c.to || got.Stream != c.stream {
			t.Errorf("target %s: subject %q, stream %q, want stream %q", c.to, got.Subject, got.Stream, c.stream)
		}
	}
}
