package subject_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"pgregory.net/rapid"

	"github.com/idworker/idworker/internal/subject"
)

// Patterns compare as on the server.
func TestPatternsAsTheServer(t *testing.T) {
	pattern := rapid.Custom(func(t *rapid.T) string {
		tokens := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*"}), 0, 4).Draw(t, "tokens")
		if len(tokens) == 0 || rapid.Bool().Draw(t, "rest") {
			tokens = append(tokens, ">")
		}
		return strings.Join(tokens, ".")
	})
	rapid.Check(t, func(t *rapid.T) {
		x, y := pattern.Draw(t, "x"), pattern.Draw(t, "y")
		if got, want := subject.Overlap(x, y), server.SubjectsCollide(x, y); got != want {
			t.Fatalf("overlap(%s, %s) = %v", x, y, got)
		}
		if got, want := subject.Covers(x, y), server.SubjectMatchesFilter(y, x); got != want {
			t.Fatalf("covers(%s, %s) = %v", x, y, got)
		}
	})
}
