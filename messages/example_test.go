package messages_test

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
)

// The reply to a request for 5 IDs, and the IDs in it.
func ExampleDecodeRanges() {
	ranges, err := messages.DecodeRanges([]byte("1001-1003\n2001-2002"), 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	for id := range messages.IDs(ranges) {
		fmt.Println(id)
	}
	// Output:
	// 1001
	// 1002
	// 1003
	// 2001
	// 2002
}

// A reply with another number of IDs than requested is an error, and none of
// its IDs may be used.
func ExampleDecodeRanges_short() {
	_, err := messages.DecodeRanges([]byte("1001-1003"), 5)
	fmt.Println(err)
	// Output: malformed reply: 3 IDs, requested 5
}

// The code distinguishes error replies.
func ExampleDecodeReply() {
	msg := &nats.Msg{Header: nats.Header{
		micro.ErrorCodeHeader: {"404"},
		micro.ErrorHeader:     {"no such tag"},
	}}
	_, err := messages.DecodeReply(msg, 1)
	fmt.Println(errors.Is(err, messages.ErrNoTag), err)
	// Output: true no such tag (404)
}

func ExampleCheckTag() {
	fmt.Println(messages.CheckTag("shop.order"))
	fmt.Println(messages.CheckTag("shop.*"))
	// Output:
	// <nil>
	// malformed tag: '*' at byte 5, allowed are A-Z a-z 0-9 _ - and dots between tokens
}

func ExampleEncodeCount() {
	fmt.Printf("%q %q\n", messages.EncodeCount(1), messages.EncodeCount(100))
	// Output: "" "100"
}

func ExamplePrefix_Segment() {
	fmt.Println(messages.DefaultPrefix.Segment("shop.order"))
	// Output: ids.segment.shop.order
}
