package messages

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"
)

// TraceparentHeader is the header of requests that names the caller's trace, as
// W3C Trace Context defines it. Its value is opaque here: workers write it to
// their logs, and nothing depends on it. Replies do not carry it.
const TraceparentHeader = "traceparent"

// maxTraceparentLen bounds the value, in bytes. Version 00 has 55; later versions
// may have more.
const maxTraceparentLen = 256

// DecodeTraceparent returns the value of the header of a request. Names are
// compared without case, as NATS servers do, because some callers send
// Traceparent. The value is empty if the header is missing, repeated or
// malformed.
func DecodeTraceparent(header map[string][]string) string {
	found, n := "", 0
	for name, values := range header {
		if strings.EqualFold(name, TraceparentHeader) && len(values) > 0 {
			found = values[0]
			n += len(values)
		}
	}
	if n != 1 || !isTraceparent(found) {
		return ""
	}
	return found
}

// isTraceparent reports whether a value may be sent and logged: 1 to 256 visible
// ASCII characters, so that it cannot forge a header or a line of a log.
func isTraceparent(value string) bool {
	if value == "" || len(value) > maxTraceparentLen {
		return false
	}
	for i := range len(value) {
		if value[i] <= ' ' || value[i] > '~' {
			return false
		}
	}
	return true
}

// traceOf returns the trace of a call with that context, "" if there is none
// that may be sent.
func (c *Client) traceOf(ctx context.Context) string {
	if c.Traceparent == nil {
		return ""
	}
	if value := c.Traceparent(ctx); isTraceparent(value) {
		return value
	}
	return ""
}

// requestHeader returns the header of the call's next request. A server without
// headers would refuse the request, but a trace must not cost an ID.
func (c *call) requestHeader() nats.Header {
	if c.trace == "" || !c.nc.HeadersSupported() {
		return c.header
	}
	return nats.Header{TraceparentHeader: {c.trace}}
}
