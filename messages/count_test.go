package messages_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/messages"
)

// TestCountTooLarge: a count that is only too large is not called malformed,
// and the text names the bounds.
func TestCountTooLarge(t *testing.T) {
	_, err := messages.DecodeCount([]byte("20000"), 10_000)
	if err == nil || err.Error() != "count 20000 is too large, allowed is a decimal from 1 to 10000" {
		t.Errorf("%v", err)
	}
}

// TestLimitOfACountError: every error about a count has the largest count that is
// allowed, whatever its text is.
func TestLimitOfACountError(t *testing.T) {
	for body, text := range map[string]string{
		"20000":                    "count 20000 is too large, allowed is a decimal from 1 to 10000",
		"0":                        `malformed count: "0", allowed is an empty request or a decimal from 1 to 10000`,
		strings.Repeat("9", 1_000): "malformed count: 1000 bytes, allowed is an empty request or a decimal from 1 to 10000",
	} {
		_, err := messages.DecodeCount([]byte(body), 10_000)
		count, ok := errors.AsType[*messages.CountError](err)
		if !ok || count.Limit != 10_000 || err.Error() != text || !errors.Is(err, messages.ErrCount) {
			t.Errorf("%.20s: %v", body, err)
		}
	}
}

func TestDecodeCountAllocatesNothing(t *testing.T) {
	data := []byte("5000")
	if n := testing.AllocsPerRun(100, func() { _, _ = messages.DecodeCount(data, 10_000) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestAnyCountThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, math.MaxInt64).Draw(t, "n")
		if got, err := messages.DecodeCount(messages.EncodeCount(n), n); got != n || err != nil {
			t.Fatalf("%d became %d, %v", n, got, err)
		}
		if n > 1 {
			if _, err := messages.DecodeCount(messages.EncodeCount(n), n-1); !errors.Is(err, messages.ErrCount) {
				t.Fatalf("%d with the limit %d: %v", n, n-1, err)
			}
		}
	})
}

func FuzzDecodeCount(f *testing.F) {
	for _, data := range []string{"", "1", "10", "0", "-1", "1e3", " 7", "01", "9223372036854775808", strings.Repeat("1", 30)} {
		f.Add([]byte(data), int64(10_000))
	}
	f.Fuzz(func(t *testing.T, data []byte, limit int64) {
		n, err := messages.DecodeCount(data, limit)
		if err != nil {
			if n != 0 || !errors.Is(err, messages.ErrCount) {
				t.Fatalf("%q: %d beside %v", data, n, err)
			}
			return
		}
		if len(data) == 0 {
			if n != 1 {
				t.Fatalf("empty request is %d", n)
			}
			return
		}
		if n < 1 || n > limit {
			t.Fatalf("%q: %d, limit %d", data, n, limit)
		}
		if n > 1 && !bytes.Equal(messages.EncodeCount(n), data) {
			t.Fatalf("%q is %d, which is %q", data, n, messages.EncodeCount(n))
		}
	})
}
