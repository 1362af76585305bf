package lease

import (
	"time"

	"github.com/idworker/idworker/snowflake"
)

// UpperHalf is the first worker ID of the upper half, whose fences may be as long
// as the declared outage. Those below it never have one.
func UpperHalf(l snowflake.Layout) int64 { return firstLong(l) }

// Of returns until when a worker ID may still be in use.
func (lost Lost) Of(l snowflake.Layout, worker int64) time.Time {
	if worker >= firstLong(l) {
		return lost.Upper
	}
	return lost.Lower
}
