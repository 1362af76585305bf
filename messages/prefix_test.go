package messages_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/idworker/idworker/messages"
)

// TestQueueGroup spells out the workers' queue group: processes of two versions
// share it.
func TestQueueGroup(t *testing.T) {
	if got := messages.DefaultPrefix.QueueGroup(); got != "ids" {
		t.Errorf("%s, want ids", got)
	}
}

func FuzzPrefix(f *testing.F) {
	for _, p := range []string{"ids", "", "a.b", "*", ">", "a b", "\xff", strings.Repeat("x", 33)} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := messages.Prefix(s)
		err := p.Check()
		if want := tokenRule.MatchString(s) && len(s) <= 32; (err == nil) != want {
			t.Fatalf("%q: %v", s, err)
		}
		if err != nil {
			if !errors.Is(err, messages.ErrPrefix) {
				t.Fatalf("%v is not ErrPrefix", err)
			}
			return
		}
		wantLiteral(t, p.Segment("order"), 3)
		wantLiteral(t, p.Snowflake(), 2)
		wantLiteral(t, p.QueueGroup(), 1)
	})
}
