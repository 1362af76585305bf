package number_test

import (
	"fmt"
	"time"

	"github.com/idworker/idworker/messages/number"
)

// A number of the format, made and read without a worker. Next gets the ID from
// one.
func ExampleFormat_Number() {
	zone, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		panic(err)
	}
	tickets, err := number.NewFormat("ticket", "TCK-{yyyyMMdd}-{seq:6}", zone)
	if err != nil {
		panic(err)
	}
	at, err := tickets.ParseDate("2026-11-26")
	if err != nil {
		panic(err)
	}
	text, err := tickets.Number(at, 42)
	fmt.Println(text, err)

	read, err := tickets.Parse(text)
	fmt.Println(read.Tag(), read.Seq, err)
	// Output:
	// TCK-20261126-000042 <nil>
	// ticket.20261126 42 <nil>
}
