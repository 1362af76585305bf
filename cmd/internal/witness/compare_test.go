package witness

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// TestCompareWhileOthersCount: a listing may lack keys that are written while it is made, and
// that is no loss.
func TestCompareWhileOthersCount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const keys = 300
	for i := range keys {
		if _, err := b.kv.Put(t.Context(), fmt.Sprintf("k%03d", i), []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	w, err := Open(b.folder, number, b.log)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context(), b.js, []string{"b"}); err != nil {
		t.Fatal(err)
	}
	w.Stop()
	if w, err = Open(b.folder, number, b.log); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for n := 2; ctx.Err() == nil; n++ {
				for i := g * keys / 4; i < (g+1)*keys/4 && ctx.Err() == nil; i++ {
					_, _ = b.kv.Put(ctx, fmt.Sprintf("k%03d", i), []byte(fmt.Sprint(n)))
				}
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	for range 20 {
		if err := w.Compare(t.Context(), b.js); err != nil {
			t.Fatal(err)
		}
	}
}
