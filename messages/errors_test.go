package messages_test

import (
	"errors"
	"fmt"
	"math"
	"regexp"
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

// TestFieldsOfAnErrorReply: an error reply has the values of its headers, and none
// in place of one that is missing, as version 0.2.0 sends it, or malformed.
func TestFieldsOfAnErrorReply(t *testing.T) {
	for _, c := range []struct {
		header, value string
		want          messages.Error
	}{
		{messages.MaxCountHeader, "10000", messages.Error{MaxCount: 10_000}},
		{messages.MaxCountHeader, "9223372036854775807", messages.Error{MaxCount: math.MaxInt64}},
		{messages.MaxCountHeader, "9223372036854775808", messages.Error{}},
		{messages.MaxCountHeader, "0", messages.Error{}},
		{messages.MaxCountHeader, "-1", messages.Error{}},
		{messages.MaxCountHeader, "1e3", messages.Error{}},
		{messages.MaxCountHeader, "", messages.Error{}},
		{messages.FullTemplateHeader, "chat.*", messages.Error{FullTemplate: "chat.*"}},
		{"Trace", "a decimal from 1 to 5; template a.* is full", messages.Error{}},
	} {
		msg := message("", "400", "a decimal from 1 to 5; template a.* is full")
		msg.Header.Set(c.header, c.value)
		c.want.Code, c.want.Text = messages.CodeMalformed, msg.Header.Get(micro.ErrorHeader)
		_, err := messages.DecodeReply(msg, 1)
		if reply, ok := errors.AsType[*messages.Error](err); !ok || *reply != c.want {
			t.Errorf("%s %q: %#v, want %#v", c.header, c.value, reply, c.want)
		}
	}
}

func FuzzDecodeReply(f *testing.F) {
	f.Add([]byte("1001"), "", "", int64(1))
	f.Add([]byte(""), "404", "no such tag", int64(1))
	f.Add([]byte("1001"), "503", "both", int64(1))
	f.Add([]byte(""), "teapot", "", int64(1))
	f.Add([]byte(""), "99999999999999999999", "", int64(1))
	f.Fuzz(func(t *testing.T, data []byte, code, text string, n int64) {
		ranges, err := messages.DecodeReply(message(string(data), code, text), n)
		reply, isError := errors.AsType[*messages.Error](err)
		switch {
		case err == nil && code == "":
			wantRanges(t, ranges, n)
		case ranges != nil || err == nil:
			t.Fatalf("%v, %v beside the code %q", ranges, err, code)
		case isError && (!codeRule.MatchString(code) || fmt.Sprintf("%03d", reply.Code) != code):
			t.Fatalf("%q became %d", code, reply.Code)
		case !isError && (!errors.Is(err, messages.ErrReply) || codeRule.MatchString(code)):
			t.Fatalf("%q: %v", code, err)
		}
	})
}

// codeRule is the rule for codes in another notation than in the code.
var codeRule = regexp.MustCompile(`\A[0-9]{3}\z`)
