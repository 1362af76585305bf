package rights_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"pgregory.net/rapid"

	"github.com/idworker/idworker/internal/rights"
)

func TestJoin(t *testing.T) {
	got := rights.Join(rights.Publish("b", "a"), rights.Subscribe("s"), rights.Publish("a"))
	if !slices.Equal(got.Publish, []string{"a", "b"}) || !slices.Equal(got.Subscribe, []string{"s"}) {
		t.Errorf("%+v", got)
	}
}

// A right covers the same subjects as the server's rule.
func TestCoversAsTheServerDoes(t *testing.T) {
	token := rapid.SampledFrom([]string{"a", "b", "*"})
	subject := rapid.Custom(func(t *rapid.T) string {
		tokens := rapid.SliceOfN(token, 1, 4).Draw(t, "tokens")
		if rapid.Bool().Draw(t, "open") {
			tokens = append(tokens, ">")
		}
		return strings.Join(tokens, ".")
	})
	rapid.Check(t, func(t *rapid.T) {
		right, wanted := subject.Draw(t, "right"), subject.Draw(t, "subject")
		if got, want := rights.Covers(right, wanted), server.SubjectMatchesFilter(wanted, right); got != want {
			t.Fatalf("%s covers %s: %v, the server says %v", right, wanted, got, want)
		}
	})
}
