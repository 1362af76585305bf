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
	var found []string
	for name, values := range header {
		if strings.EqualFold(name, TraceparentHeader) {
			found = append(found, values...)
		}
	}
	if len(found) != 1 || !isTraceparent(found[0]) {
		return ""
	}
	return found[0]
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

// headerOf returns the header of the requests of a call with that context.
func (c *Client) headerOf(ctx context.Context) nats.Header {
	if c.Traceparent == nil {
		return c.header
	}
	if value := c.Traceparent(ctx); isTraceparent(value) {
		return nats.Header{TraceparentHeader: {value}}
	}
	return c.header
}
