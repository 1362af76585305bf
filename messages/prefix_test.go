package messages_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/idworker/idworker/messages"
)

func TestPrefix(t *testing.T) {
	for _, p := range []messages.Prefix{"ids", "a", "eu-west_1", messages.Prefix(strings.Repeat("x", 32))} {
		if err := p.Check(); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
	for _, p := range []messages.Prefix{"", "Ids", ".", "a.b", "*", ">", "a b", "a\n", "ü", "$SYS", messages.Prefix(strings.Repeat("x", 33))} {
		if err := p.Check(); !errors.Is(err, messages.ErrPrefix) {
			t.Errorf("%q: %v, want ErrPrefix", p, err)
		}
	}
}

// TestNamesOnTheWire spells out the contract, on which clients in other
// languages depend.
func TestNamesOnTheWire(t *testing.T) {
	p := messages.DefaultPrefix
	for _, c := range []struct{ got, want string }{
		{p.Segment("order.item"), "ids.segment.order.item"},
		{p.Snowflake(), "ids.snowflake"},
		{p.QueueGroup(), "ids"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
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
