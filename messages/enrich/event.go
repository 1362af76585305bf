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

// serverHeaders is the prefix of the headers that instruct the server: to expect a
// sequence, to replace older messages, to let this one expire.
const serverHeaders = "nats-"

// enrichHeaders are the headers, in lower case, that say what enriching did with an event.
var enrichHeaders = []string{strings.ToLower(HeaderSource), strings.ToLower(HeaderError), strings.ToLower(HeaderSubject)}

// copyOwnHeaders copies the headers that are the event's own.
func copyOwnHeaders(header nats.Header) nats.Header {
	out := make(nats.Header, len(header)+5)
	for name, values := range header {
		lower := strings.ToLower(strings.TrimSpace(name))
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

// checkSize checks that a message of a batch can be sent and stored.
func checkSize(msg *nats.Msg, limit int) error {
	body := len(msg.Data)
	header := msg.Size() - len(msg.Subject) - body // the client counts 0 if it would not send it
	switch {
	case header == 0:
		return unstampable("its header has a name that cannot be published")
	case header+room > maxHeader:
		return unstampable("with its ID its header has %d bytes, allowed are %d", header+room, maxHeader)
	case header+room+body > limit:
		return unstampable("with its ID it has %d bytes, allowed are %d", header+room+body, limit)
	case len(msg.Subject) > maxSubject:
		return unstampable("its subject has %d bytes, allowed are %d", len(msg.Subject), maxSubject)
	}
	return nil
}

const (
	maxHeader  = 1<<16 - 1 // of a stored message, in bytes
	maxSubject = 3800      // a line of the protocol has 4,096 bytes; a reply subject and sizes are in it, too

	// room is for the longest ID, and for the headers of a batch.
	room = 240
)
