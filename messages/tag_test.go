package messages_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/messages"
)

func TestCheckTag(t *testing.T) {
	for _, tag := range []string{
		"a", "order", "order.item", "A-Z_9.0", "-", "_", "a.b.c.d.e.f", "0",
		strings.Repeat("x", messages.MaxTagLen), strings.Repeat("a.", 63) + "ab",
	} {
		if err := messages.CheckTag(tag); err != nil {
			t.Errorf("%q: %v", tag, err)
		}
	}
	for _, c := range []struct{ why, tag string }{
		{"empty", ""},
		{"too long", strings.Repeat("x", messages.MaxTagLen+1)},
		{"one wildcard", "*"},
		{"all wildcard", ">"},
		{"wildcard in a token", "order*"},
		{"wildcard as a token", "order.*"},
		{"wildcard at the end", "order.>"},
		{"a dot", "."},
		{"dot at the start", ".order"},
		{"dot at the end", "order."},
		{"double dot", "order..item"},
		{"space", "order item"},
		{"tab", "order\titem"},
		{"newline", "order\n"},
		{"carriage return", "order\r\nPUB x 0"},
		{"zero byte", "order\x00"},
		{"unicode letter", "bestellüng"},
		{"unicode dot", "order\u3002item"},
		{"not UTF-8", "\xff\xfe"},
		{"system subject", "$SYS"},
		{"slash, legal in KV keys only", "a/b"},
		{"equals sign, legal in KV keys only", "a=b"},
	} {
		if err := messages.CheckTag(c.tag); !errors.Is(err, messages.ErrTag) {
			t.Errorf("%s: %v, want ErrTag", c.why, err)
		}
	}
}

// TestTagErrorsStayShort: an error repeats at most one byte of the input,
// however long.
func TestTagErrorsStayShort(t *testing.T) {
	for _, tag := range []string{strings.Repeat("*", 1<<20), strings.Repeat("x", 127) + "\n", "\xff"} {
		if text := messages.CheckTag(tag).Error(); len(text) > 120 || strings.ContainsAny(text, "\r\n") {
			t.Errorf("tag of %d bytes: error of %d: %q", len(tag), len(text), text)
		}
	}
}

func TestCheckTagAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _ = messages.CheckTag("shop.eu-west.order") }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestAnyWellFormedTag(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tag := tags().Draw(t, "tag")
		if err := messages.CheckTag(tag); err != nil {
			t.Fatal(err)
		}
		if got := tokens(tag); len(strings.Split(messages.DefaultPrefix.Segment(tag), ".")) != 2+got {
			t.Fatalf("subject %q has not %d tokens behind ids.segment", messages.DefaultPrefix.Segment(tag), got)
		}
	})
}

func FuzzCheckTag(f *testing.F) {
	for _, tag := range []string{"order", "order.item", "a..b", "order.", ">", "*", "a\r\nPUB", strings.Repeat("x", 129)} {
		f.Add(tag)
	}
	f.Fuzz(func(t *testing.T, tag string) {
		err := messages.CheckTag(tag)
		if want := tagRule.MatchString(tag) && len(tag) <= messages.MaxTagLen; (err == nil) != want {
			t.Fatalf("%q: %v", tag, err)
		}
		if err == nil {
			wantTagInSubjects(t, tag)
		} else if !errors.Is(err, messages.ErrTag) {
			t.Fatalf("%v is not ErrTag", err)
		}
	})
}
