package enrich

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// The headers of enriched events and of dead letters.
const (
	HeaderID     = "Ids-Id"     // the ID, decimal
	HeaderSource = "Ids-Source" // source stream and sequence of the event
	// Target stream, chain, and the Unix time in nanoseconds at which the
	// source stored the event.
	HeaderChain   = "Ids-Chain"
	HeaderError   = "Ids-Error"   // dead letters: why the event could not be stamped
	HeaderSubject = "Ids-Subject" // dead letters: the event's subject
)

// serverHeaders is the prefix of the headers that instruct the server: to
// expect a sequence, to replace older messages, to let this message expire.
const serverHeaders = "nats-"

// enrichHeaders are the headers, in lower case, in which enrichers record their
// work.
var enrichHeaders = []string{strings.ToLower(HeaderSource), strings.ToLower(HeaderChain), strings.ToLower(HeaderError), strings.ToLower(HeaderSubject)}

// copyOwnHeaders copies the headers that are the event's own.
func copyOwnHeaders(header nats.Header) nats.Header {
	out := make(nats.Header, len(header)+6)
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

// setOrigin records the event and the chain of a message.
func setOrigin(header nats.Header, source, chain string, e event) {
	header[HeaderSource] = []string{formatOrigin(source, e.Sequence)}
	header[HeaderChain] = []string{chain + " " + strconv.FormatInt(e.Time.UnixNano(), 10)}
}

// origin is a message's reference to its event.
type origin struct {
	// Name of the stream; empty if an enricher did not publish the message
	// here.
	source string
	seq    uint64
	chain  string // empty if it names none
	// When the source stored the event; zero without a chain.
	time   time.Time
	letter bool // the message is a dead letter
}

// parseOrigin returns the origin of a message. A message that the target copied
// from another stream is no evidence, whatever its headers.
func parseOrigin(header nats.Header) (o origin) {
	stream, number, _ := strings.Cut(header.Get(HeaderSource), " ")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || header.Get(headerCopied) != "" {
		return origin{}
	}
	o = origin{source: stream, seq: seq, letter: header.Get(HeaderError) != ""}
	chain := header.Get(HeaderChain)
	if i := strings.LastIndexByte(chain, ' '); i > 0 {
		if ns, err := strconv.ParseInt(chain[i+1:], 10, 64); err == nil {
			o.chain, o.time = chain[:i], time.Unix(0, ns)
		}
	}
	return o
}

// headerCopied is on messages that a stream copied from another stream.
const headerCopied = "Nats-Stream-Source"

// checkSize checks that a message of a batch can be sent and stored.
func checkSize(msg *nats.Msg, limit int) error {
	body := len(msg.Data)
	// The client counts 0 if it would not send it.
	header := msg.Size() - len(msg.Subject) - body
	switch {
	case header == 0:
		return unstampable("a header name cannot be published")
	case header+room > maxHeader:
		return unstampable("header of %d bytes with its ID, allowed is %d", header+room, maxHeader)
	case header+room+body > limit:
		return unstampable("message of %d bytes with its ID, allowed is %d", header+room+body, limit)
	case len(msg.Subject) > maxSubject:
		return unstampable("subject of %d bytes, allowed is %d", len(msg.Subject), maxSubject)
	}
	return nil
}

const (
	maxHeader = 1<<16 - 1 // of a stored message, in bytes
	// A line of the protocol has 4,096 bytes; a reply subject and sizes are in
	// it, too.
	maxSubject = 3800

	// room is for the longest ID, and for the headers of a batch.
	room = 240
)
