package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
)

// TestStatesOfWorkerIDs: a worker ID is held, or free, or reserved: that of a
// process which died, or of any after a loss of the fences.
func TestStatesOfWorkerIDs(t *testing.T) {
	t.Parallel()
	layout, err := snowflake.ParseLayout("41:1ms/w10/s12@1735689600000")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	holdings := []lease.Holding{
		{Worker: 7, Reserved: now.Add(-time.Minute)},
		{Worker: 8, Reserved: now.Add(time.Minute), Instance: "a", Host: "h", Since: now.Add(-time.Hour), Heartbeat: now},
		{Worker: 600, Reserved: now.Add(-time.Minute)},
		{Worker: 601, Reserved: now.Add(2 * time.Hour)},
	}
	for _, c := range []struct {
		waits lease.Lost
		want  string
	}{
		{lease.Lost{}, `layout 41:1ms/w10/s12@1735689600000
DATACENTER  WORKER  STATE     HELD BY  HOST  SINCE                 CLOCK  RESERVED UNTIL
0           7       free      -        -     -                     -      2026-11-30T13:59:00Z
0           8       held      a        h     2026-11-30T13:00:00Z  +0ms   2026-11-30T14:01:00Z
0           600     free      -        -     -                     -      2026-11-30T13:59:00Z
0           601     reserved  -        -     -                     -      2026-11-30T16:00:00Z
`},
		{lease.Lost{Lower: now.Add(-time.Second), Upper: now.Add(time.Hour)}, `layout 41:1ms/w10/s12@1735689600000
after a loss of the fences, worker IDs 512 to 1023 wait until 15:00 UTC
DATACENTER  WORKER  STATE     HELD BY  HOST  SINCE                 CLOCK  RESERVED UNTIL
0           7       free      -        -     -                     -      2026-11-30T13:59:00Z
0           8       held      a        h     2026-11-30T13:00:00Z  +0ms   2026-11-30T14:01:00Z
0           600     reserved  -        -     -                     -      2026-11-30T15:00:00Z
0           601     reserved  -        -     -                     -      2026-11-30T16:00:00Z
`},
	} {
		var out bytes.Buffer
		if err := workerIDsAt(now, holdings, layout, c.waits).Text(&out); err != nil || out.String() != c.want {
			t.Errorf("%v: %v:\n%s\nwant\n%s", c.waits, err, &out, c.want)
		}
	}
}
