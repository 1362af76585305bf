package leaf_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/store/internal/leaf"
)

// TestUntilSilent: a listing may take as long as something comes.
func TestUntilSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, heard, cancel := leaf.UntilSilent(t.Context())
		defer cancel()
		for range 100 {
			time.Sleep(leaf.ListSilence - time.Millisecond)
			if ctx.Err() != nil {
				t.Fatalf("ended while something came: %v", context.Cause(ctx))
			}
			heard()
		}
		time.Sleep(leaf.ListSilence)
		synctest.Wait()
		if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("silence: %v, want an end as of a deadline", err)
		}
	})
}
