package tags_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/secretfile"
)

// TestMarkedList: a byte-order mark, which some shells write at the start of a
// file, is invisible, so the error names it.
func TestMarkedList(t *testing.T) {
	for _, mark := range []string{"\xEF\xBB\xBF", "\xFF\xFE"} {
		if _, err := tags.Parse(strings.NewReader(mark + "ok 10 1\n")); !errors.Is(err, tags.ErrFormat) || !errors.Is(err, secretfile.ErrMark) {
			t.Errorf("%q: %v", mark, err)
		}
	}
}

// TestReadTransfer: errors name the malformed lines.
func TestReadTransfer(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"order 10 1 sideways", "order 10 1 strict 5", "order removed 1 sideways", "order 0 1", "order removed 0", "order 10 strict", "chat.* 10 1", "chat.* 10 sideways 0 0 1",
		"floor", "floor 5", "floor 5 now", "floor 0 2026-11-20T00:00:00Z", "floor x 2026-11-20T00:00:00Z", "floor 5 2026-11-20T00:00:00Z 1",
		"chat.* 10 trend 0 0 1 yyyyMMdd", "chat.* 10 trend 0 0 1 yyyyMMdd 0", "chat.* 10 trend 0 0 1 yyyyMMdd x", "chat.* 10 trend 0 0 1 MMdd 5", "chat.* 10 trend 0 0 1 yyyyMMdd 5 5",
		"chat.* 0 trend 0 0 1", "chat.* 10 trend -1 0 1", "chat.* 10 trend 0 0", "chat.* 10 trend 0 0 -1", "chat.* 10 trend 0 0 1 removed", "cha*t 10 trend 0 0 1", "chat.* 10 trend 0 0 x",
	} {
		if _, err := tags.Parse(strings.NewReader("ok 10 1\n" + line + "\n")); !errors.Is(err, tags.ErrFormat) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", line, err)
		}
	}
}
