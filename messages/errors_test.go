package messages_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"pgregory.net/rapid"

	"github.com/idworker/idworker/messages"
)

// message is a reply as NATS delivers it; no code means no headers.
func message(data, code, text string) *nats.Msg {
	msg := &nats.Msg{Data: []byte(data)}
	if code != "" {
		msg.Header = nats.Header{micro.ErrorCodeHeader: {code}, micro.ErrorHeader: {text}}
	}
	return msg
}

var sentinels = map[messages.Code]error{
	messages.CodeMalformed:   messages.ErrMalformed,
	messages.CodeNoTag:       messages.ErrNoTag,
	messages.CodeBusy:        messages.ErrBusy,
	messages.CodeUnavailable: messages.ErrUnavailable,
	messages.CodeExhausted:   messages.ErrExhausted,
}

func TestDecodeReply(t *testing.T) {
	got, err := messages.DecodeReply(message("1001-1002", "", ""), 2)
	if want := []messages.Range{{1001, 1002}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if got, err := messages.DecodeReply(message("", "", ""), 1); got != nil || !errors.Is(err, messages.ErrReply) {
		t.Errorf("empty reply: %v, %v; want ErrReply", got, err)
	}
	if got, err := messages.DecodeReply(message("1001", "teapot", ""), 1); got != nil || !errors.Is(err, messages.ErrReply) {
		t.Errorf("code that is none: %v, %v; want ErrReply", got, err)
	}
}

// TestErrorReplies: every code is the error of its own sentinel and of no
// other, carries the worker's text, and never yields IDs, whatever the body is.
func TestErrorReplies(t *testing.T) {
	for code := range sentinels {
		got, err := messages.DecodeReply(message("1001", strconv.Itoa(int(code)), "told by the worker"), 1)
		if got != nil {
			t.Errorf("code %d: IDs %v", code, got)
		}
		for other, sentinel := range sentinels {
			if is := errors.Is(err, sentinel); is != (other == code) {
				t.Errorf("code %d is %v: %t", code, sentinel, is)
			}
		}
		var reply *messages.Error
		if !errors.As(fmt.Errorf("wrapped: %w", err), &reply) || reply.Code != code || reply.Text != "told by the worker" {
			t.Errorf("code %d: %v", code, err)
		}
	}
}

func TestAnyErrorReply(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		code := rapid.IntRange(100, 999).Draw(t, "code")
		text := rapid.String().Draw(t, "text")
		_, err := messages.DecodeReply(message("", strconv.Itoa(code), text), 1)
		var reply *messages.Error
		if !errors.As(err, &reply) || int(reply.Code) != code || reply.Text != text {
			t.Fatalf("%d %q became %v", code, text, err)
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	f.Add([]byte("1001"), "", "", int64(1))
	f.Add([]byte(""), "404", "no such tag", int64(1))
	f.Add([]byte("1001"), "503", "both", int64(1))
	f.Add([]byte(""), "teapot", "", int64(1))
	f.Add([]byte(""), "99999999999999999999", "", int64(1))
	f.Fuzz(func(t *testing.T, data []byte, code, text string, n int64) {
		ranges, err := messages.DecodeReply(message(string(data), code, text), n)
		if err == nil {
			if code != "" {
				t.Fatalf("%v beside the code %q", ranges, code)
			}
			wantRanges(t, ranges, n)
			return
		}
		var reply *messages.Error
		if ranges != nil || !errors.Is(err, messages.ErrReply) && !errors.As(err, &reply) {
			t.Fatalf("%v beside %v", ranges, err)
		}
	})
}
