package messages_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/messages"
)

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
