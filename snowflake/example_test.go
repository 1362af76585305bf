package snowflake_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// at is a clock that stands still, so that the examples are deterministic.
func at(t time.Time) snowflake.Clock {
	return func() int64 { return t.UnixNano() }
}

func Example() {
	g, err := snowflake.New(snowflake.Settings{
		Layout: snowflake.Default(),
		Worker: 7,
		// Only this process has worker ID 7.
		Fence: snowflake.Fence{Hi: snowflake.Forever},
		Clock: at(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := g.Next()
	if err != nil {
		fmt.Println(err)
		return
	}
	l := snowflake.Default()
	fmt.Println(l.Time(id).Format(time.RFC3339), "by", l.WorkerID(id))
	// Output: 2026-07-01T12:00:00Z by 7
}

func ExampleGenerator_NextN() {
	l, noon := snowflake.Default(), time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	lo := l.TimestampAt(noon)
	g, _ := snowflake.New(snowflake.Settings{
		Layout: l,
		Worker: 7,
		Fence:  snowflake.Fence{Lo: lo, Hi: lo + 1000},
		Clock:  at(noon),
	})
	ranges, _ := g.NextN(nil, 5000) // more than a millisecond has
	for _, r := range ranges {
		fmt.Printf("%d-%d: %d IDs of %s\n", r.First, r.Last, r.Len(), l.Time(r.First).Format("15:04:05.000"))
	}
	// Output:
	// 198044968550428672-198044968550432767: 4096 IDs of 12:00:00.000
	// 198044968554622976-198044968554623879: 904 IDs of 12:00:00.001
}

// The fence keeps successive holders of a worker ID apart.
func ExampleGenerator_Extend() {
	l, noon := snowflake.Default(), time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	lo := l.TimestampAt(noon)
	g, _ := snowflake.New(snowflake.Settings{Layout: l, Fence: snowflake.Fence{Lo: lo}, Clock: at(noon)})

	_, err := g.Next()
	fmt.Println(err)

	g.Extend(lo + 30_000) // 30 s were reserved
	_, err = g.Next()
	fmt.Println(err)

	unused := g.Revoke() + 1 // the next holder may start here
	_, err = g.Next()
	fmt.Println(err, unused-lo)
	// Output:
	// snowflake: time is not below the fence
	// <nil>
	// snowflake: worker ID was revoked 1
}

func ExampleID() {
	id, _ := snowflake.Parse("1541815603606036480")
	text, _ := json.Marshal(id)
	fmt.Println(id, id.Base62(), string(text))
	// Output: 1541815603606036480 1ptWyK4WgZU "1541815603606036480"
}

func ExampleLayout() {
	id, l := snowflake.ID(1541815603606036480), snowflake.Twitter() // a tweet
	fmt.Println(l.Time(id), l.Datacenter(id), l.WorkerID(id), l.Sequence(id))
	fmt.Println("this layout lasts until", l.End().Format(time.DateOnly))
	// Output:
	// 2022-06-28 16:07:40.105 +0000 UTC 11 26 0
	// this layout lasts until 2080-07-10
}

func ExampleLayout_FirstAt() {
	l := snowflake.Default()
	july, _ := l.FirstAt(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC))
	august, _ := l.FirstAt(time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC))
	fmt.Printf("WHERE id >= %d AND id < %d\n", july, august)
	// Output: WHERE id >= 197863774617600000 AND id < 209097798451200000
}

func ExampleParseLayout() {
	l, err := snowflake.ParseLayout("39:10ms/s8/w16@1409529600000")
	fmt.Println(l == snowflake.Sonyflake(), err)

	_, err = snowflake.ParseLayout("41:1ms/w10/s13@1735689600000")
	fmt.Println(err)
	// Output:
	// true <nil>
	// snowflake: bad layout: widths of 64 bits in all, allowed is 63, or 53 for IDs below 2^53
}
