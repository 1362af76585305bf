package enrich

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// The headers of enriched events and of dead letters.
const (
	HeaderID      = "Ids-Id"      // the ID, decimal
	HeaderSource  = "Ids-Source"  // stream and sequence that the event came from
	HeaderError   = "Ids-Error"   // dead letters: why the event could not be stamped
	HeaderSubject = "Ids-Subject" // dead letters: the event's subject
)

// event is an event of the source.
type event struct {
	seq     uint64
	subject string
	header  nats.Header
	data    []byte
	behind  uint64 // how many events followed it in the source when it was read
}

// serverHeaders is the prefix of the headers that instruct the server: to expect a
// sequence, to replace older messages, to let this one expire.
const serverHeaders = "nats-"

// enrichHeaders are the headers, in lower case, that say what enriching did with an event.
var enrichHeaders = []string{strings.ToLower(HeaderSource), strings.ToLower(HeaderError), strings.ToLower(HeaderSubject)}

// copyOwnHeaders copies the headers that are the event's own.
func copyOwnHeaders(header nats.Header) nats.Header {
	out := nats.Header{}
	for name, values := range header {
		lower := strings.ToLower(name)
		if !strings.HasPrefix(lower, serverHeaders) && !slices.Contains(enrichHeaders, lower) {
			out[name] = values
		}
	}
	return out
}

// formatOrigin names an event of a stream, as in HeaderSource.
func formatOrigin(stream string, seq uint64) string {
	return stream + " " + strconv.FormatUint(seq, 10)
}

// parseOrigin returns the source sequence of a message of the target, and whether the
// message is an enriched event of that stream. Dead letters, which may be in the target
// too, are not.
func parseOrigin(stream string, header nats.Header) (uint64, bool) {
	if header.Get(HeaderError) != "" {
		return 0, false
	}
	number, ok := strings.CutPrefix(header.Get(HeaderSource), stream+" ")
	seq, err := strconv.ParseUint(number, 10, 64)
	return seq, ok && err == nil
}

// batchHeaders is the most room that the headers of an atomic batch take in a message.
const batchHeaders = 200

// wireSize is the size in bytes that a message of a batch has under the server's limits.
func wireSize(msg *nats.Msg) int {
	n := batchHeaders + len("NATS/1.0\r\n\r\n") + len(msg.Data)
	for name, values := range msg.Header {
		for _, value := range values {
			n += len(name) + len(": \r\n") + len(value)
		}
	}
	return n
}
