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

// The headers of an error reply for the fields of an [Error] that programs use.
// A worker sends one only if its field is set, and version 0.2.0 sends neither.
const (
	MaxCountHeader     = "Ids-Max-Count"
	FullTemplateHeader = "Ids-Full-Template"
)

// Error is an error reply.
type Error struct {
	Code Code
	// For people: the fault, and the allowed values.
	Text string

	// MaxCount is the largest count that the worker allows, if it refused the
	// request's count (CodeMalformed). Other workers may allow another.
	MaxCount int64
	// FullTemplate is the pattern of the template that creates no more tags
	// (CodeBusy), because it has as many as it may have.
	FullTemplate string
}

// The error replies, for [errors.Is], which compares only the code.
var (
	ErrMalformed   = &Error{Code: CodeMalformed, Text: "malformed request"}
	ErrNoTag       = &Error{Code: CodeNoTag, Text: "no such tag"}
	ErrStrict      = &Error{Code: CodeStrict, Text: "the tag is strictly ordered"}
	ErrBusy        = &Error{Code: CodeBusy, Text: "too many parked requests"}
	ErrUnavailable = &Error{Code: CodeUnavailable, Text: "no ID before the deadline"}
	ErrExhausted   = &Error{Code: CodeExhausted, Text: "the tag's numbers are used up"}
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
	switch {
	case e.Code == CodeMalformed:
		return problem.Invalid, nil
	case e.Code == CodeNoTag:
		return problem.NotFound, nil
	case e.Code == CodeBusy && e.FullTemplate != "":
		return problem.TemplateFull, []any{e.FullTemplate}
	case e.Code == CodeBusy, e.Code == CodeUnavailable:
		return problem.TryLater, nil
	case e.Code == CodeExhausted:
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
// worker's text and template as they came, and no MaxCount if that is malformed;
// an ErrReply quotes at most 40 characters.
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
	most, _ := parseDecimal([]byte(msg.Header.Get(MaxCountHeader))) // 0 if it is missing or malformed
	return nil, &Error{
		Code: Code(code), Text: msg.Header.Get(micro.ErrorHeader),
		MaxCount: most, FullTemplate: msg.Header.Get(FullTemplateHeader),
	}
}

// nats.go delivers the status of a reply's first line, NATS/1.0, as a header.
const (
	statusHeader = "Status"
	noResponders = "503"
)
