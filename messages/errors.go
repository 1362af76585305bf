package messages

import (
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/internal/problem"
)

// Code is the number in the header Nats-Service-Error-Code of an error reply.
type Code int

// The codes of the contract.
const (
	CodeMalformed Code = 400 // malformed or out-of-range count, malformed tag
	CodeNoTag     Code = 404 // no such tag
	// The tag is strict, and the request states that its IDs are for later.
	CodeStrict      Code = 409
	CodeBusy        Code = 429 // too many parked requests
	CodeUnavailable Code = 503 // no ID before the deadline
	CodeExhausted   Code = 507 // the tag's numbers are used up
)

// PrefetchHeader is the header of requests for IDs that are kept for later.
// They are refused with CodeStrict if the tag is strict.
const PrefetchHeader = "Ids-Prefetch"

// Error is an error reply.
type Error struct {
	Code Code
	// For people: the fault, and the allowed values.
	Text string
}

// The error replies, for [errors.Is], which compares only the code.
var (
	ErrMalformed   = &Error{CodeMalformed, "malformed request"}
	ErrNoTag       = &Error{CodeNoTag, "no such tag"}
	ErrStrict      = &Error{CodeStrict, "the tag is strictly ordered"}
	ErrBusy        = &Error{CodeBusy, "too many parked requests"}
	ErrUnavailable = &Error{CodeUnavailable, "no ID before the deadline"}
	ErrExhausted   = &Error{CodeExhausted, "the tag's numbers are used up"}
)

// Error returns the text, followed by the code in parentheses.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Text, e.Code) }

// Is reports whether target is an error reply with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Problem is part of [problem.Problem].
func (e *Error) Problem() (problem.Kind, []any) {
	switch e.Code {
	case CodeMalformed:
		return problem.Invalid, nil
	case CodeNoTag:
		return problem.NotFound, nil
	case CodeBusy, CodeUnavailable:
		return problem.TryLater, nil
	case CodeExhausted:
		return problem.Exhausted, nil
	}
	return "", nil
}

// DecodeReply reads the reply to a request for n IDs. It returns the ranges, or
// the *Error that the reply carries, or [nats.ErrNoResponders] if the server
// replied that nothing subscribes to the subject, or an error that wraps
// [ErrReply].
//
// The header with the code makes a reply an error, whatever its body is. The
// code has three digits; a reply with any other is malformed. The *Error has the
// worker's text as it came; an ErrReply quotes at most 40 characters.
func DecodeReply(msg *nats.Msg, n int64) ([]Range, error) {
	if len(msg.Data) == 0 && msg.Header.Get(statusHeader) == noResponders {
		return nil, nats.ErrNoResponders
	}
	if _, isError := msg.Header[micro.ErrorCodeHeader]; !isError {
		return DecodeRanges(msg.Data, n)
	}
	text := msg.Header.Get(micro.ErrorCodeHeader)
	code, err := strconv.ParseUint(text, 10, 16) // no sign
	if err != nil || len(text) != 3 {
		return nil, fmt.Errorf("%w: error code %.40q, allowed is three digits", ErrReply, text)
	}
	return nil, &Error{Code(code), msg.Header.Get(micro.ErrorHeader)}
}

// nats.go delivers the status of a reply's first line, NATS/1.0, as a header.
const (
	statusHeader = "Status"
	noResponders = "503"
)
