package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/testing/natstest"
)

const (
	testTTL   = time.Second
	testAhead = 2 * time.Second
	testSkew  = 200 * time.Millisecond
)

// issue leases a worker ID from a server, issues IDs as far ahead of the clock
// as allowed, and returns the lowest and the highest timestamp.
func issue(t *testing.T, s *NATS, layout snowflake.Layout) (first, last int64) {
	t.Helper()
	conn, js, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := lease.Create(t.Context(), js, prefix, testTTL, 1); err != nil {
		t.Fatal(err)
	}
	m, err := lease.Open(t.Context(), lease.Config{JS: js, Layout: layout, TTL: testTTL, MaxAhead: testAhead, MaxClockSkew: testSkew})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), natstest.Patience)
	defer stop()
	err = m.Run(ctx, func(state lease.State) {
		if state.Generator == nil {
			return
		}
		var all []snowflake.IDRange
		// The previous hold may have used up all time ahead of the clock. Then
		// the first IDs come when the clock has caught up.
		for len(all) == 0 && ctx.Err() == nil {
			for err == nil {
				all, err = state.Generator.NextN(all, 1000)
			}
			if !errors.Is(err, snowflake.ErrAhead) {
				break
			}
			err = nil
			time.Sleep(time.Millisecond)
		}
		if len(all) > 0 {
			first, last = layout.Timestamp(all[0].First), layout.Timestamp(all[len(all)-1].Last)
		}
		stop()
	})
	if err != nil || last == 0 {
		t.Fatalf("no IDs: %v", err)
	}
	return first, last
}

// TestSnowflakeAfterARestore: the fences of a restored clock bucket lie in the
// past, and later issued time is lost. Wait until all of that is past: a lease,
// the lead over the clock and twice the clock's error after the last ID. Then
// no ID is issued again, because a hold begins no earlier than the present.
func TestSnowflakeAfterARestore(t *testing.T) {
	t.Parallel()
	layout, err := snowflake.NewLayout(snowflake.LayoutSpec{
		Epoch: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), Unit: time.Millisecond, Time: 55, Worker: 1, Sequence: 7,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(filepath.Join(t.TempDir(), "data"))
	s := start(t, cfg)
	issue(t, s, layout)
	s.Stop()
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(cfg.Folder)); err != nil {
		t.Fatal(err)
	}
	s = start(t, cfg)
	var last int64
	for range 3 {
		_, last = issue(t, s, layout)
	}
	used := time.Now()
	shut(t, openStore(t, s)) // records the state of the clock bucket
	s.Stop()

	remove(t, cfg.Folder)
	copyFolder(t, cfg.Folder, backup)
	if err := fails(t, cfg); !errors.Is(err, ErrDamaged) {
		t.Fatalf("%v, want ErrDamaged", err)
	}
	raise(t, cfg, 1)

	time.Sleep(time.Until(used.Add(testTTL + testAhead + 2*testSkew))) // the rule
	if first, _ := issue(t, start(t, cfg), layout); first <= last {
		t.Errorf("DUPLICATE: an ID of time %d, after IDs up to %d", first, last)
	}
}
