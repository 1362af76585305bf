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
	invoices, err := number.NewFormat("invoice", "INV-{yyyyMMdd}-{seq:6}", zone)
	if err != nil {
		panic(err)
	}
	at, err := invoices.ParseDate("2026-11-26")
	if err != nil {
		panic(err)
	}
	text, err := invoices.Number(at, 42)
	fmt.Println(text, err)

	read, err := invoices.Parse(text)
	fmt.Println(read.Tag(), read.Seq, err)
	// Output:
	// INV-20261126-000042 <nil>
	// invoice.20261126 42 <nil>
}
