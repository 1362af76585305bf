package worker

import (
	"errors"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
)

// wireErrors maps errors to the codes of the wire contract.
var wireErrors = []struct {
	err  error
	code messages.Code
}{
	{messages.ErrCount, messages.CodeMalformed},
	{messages.ErrTag, messages.CodeMalformed},
	{store.ErrNoTag, messages.CodeNoTag},
	{store.ErrExhausted, messages.CodeExhausted},
	{allocator.ErrBusy, messages.CodeBusy},
	{errNoNewTag, messages.CodeBusy},
	{allocator.ErrStrict, messages.CodeStrict},
	{errOverloaded, messages.CodeBusy},
	{allocator.ErrNoSegment, messages.CodeUnavailable},
	{snowflake.ErrAhead, messages.CodeBusy},
	{snowflake.ErrExhausted, messages.CodeExhausted},
}

// wireError returns what the headers of an error reply say. Unlike an error in Go, the
// text stands alone there, so it names no package and no sentinel twice.
func wireError(err error) (code messages.Code, text string) {
	for _, w := range wireErrors {
		if errors.Is(err, w.err) {
			return w.code, err.Error()
		}
	}
	return messages.CodeUnavailable, err.Error()
}
