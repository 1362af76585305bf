package enrich

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// The headers of enriched and of dead-lettered events.
const (
	HeaderID      = "Ids-Id"      // the ID, decimal
	HeaderSource  = "Ids-Source"  // stream and sequence the event came from
	HeaderError   = "Ids-Error"   // dead letters: why it could not be stamped
	HeaderSubject = "Ids-Subject" // dead letters: the event's subject
)

// event is an event of the source.
type event struct {
	seq     uint64
	subject string
	header  nats.Header
	data    []byte
	behind  uint64 // how many followed it in the source when it was read
}

// errPoison is wrapped by the errors of events that cannot be stamped, however often
// it is tried.
var errPoison = errors.New("cannot be stamped")

func poison(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errPoison}, args...)...)
}

// stamper puts IDs on events.
type stamper struct {
	source   string
	mapping  mapping
	json     path
	existing Existing
}

// hasID reports whether the event keeps the ID that it has, or an error that wraps
// errPoison if it may not.
func (s stamper) hasID(e event) (bool, error) {
	var have []string
	for name, values := range e.header {
		if strings.EqualFold(name, HeaderID) {
			have = append(have, values...)
		}
	}
	if len(have) == 0 {
		return false, nil
	}
	if s.existing == Refuse {
		return true, poison("it has the header %s: %.40q", HeaderID, have)
	}
	if ranges, err := messages.DecodeRanges([]byte(have[0]), 1); len(have) > 1 || err != nil {
		return true, poison("the header %s is not one ID: %.40q", HeaderID, have)
	} else if have[0] != ranges[0].String() {
		return true, poison("the header %s is not an ID: %.40q", HeaderID, have)
	}
	return true, nil
}

// check makes the draft of an event's message, and finds out whether the event can be stamped
// with any ID within limit bytes, or keeps the one that it has. The error wraps errPoison.
func (s stamper) check(e event, limit int) (draft *nats.Msg, keep bool, err error) {
	keep, err = s.hasID(e)
	if err != nil {
		return nil, keep, err
	}
	draft = s.draft(e)
	if !keep {
		if err := s.put(draft, e, math.MaxInt64); err != nil { // the longest there is
			return nil, keep, err
		}
	}
	if size := wireSize(draft); size > limit {
		return nil, keep, poison("with its ID it has %d bytes, allowed are %d", size, limit)
	}
	return draft, keep, nil
}

// stamp makes the target's message of an event; the ID 0 leaves it the one that it has.
func (s stamper) stamp(e event, id int64) (*nats.Msg, error) {
	msg := s.draft(e)
	if id == 0 {
		return msg, nil
	}
	return msg, s.put(msg, e, id)
}

// draft is the target's message but for the ID: the event's own headers without those that
// are instructions to a server, and where it came from.
func (s stamper) draft(e event) *nats.Msg {
	msg := &nats.Msg{Subject: s.mapping.apply(e.subject), Header: carried(e.header), Data: e.data}
	msg.Header.Set(HeaderSource, origin(s.source, e.seq))
	return msg
}

// put puts an ID on the draft of an event, in the place of another one that was tried.
func (s stamper) put(msg *nats.Msg, e event, id int64) (err error) {
	msg.Header.Set(HeaderID, strconv.FormatInt(id, 10))
	msg.Data, err = s.json.set(e.data, id)
	return err
}

// deadLetter makes the message that tells of an event that cannot be stamped. Where the
// event does not fit into limit bytes it is left out: the source still has it. The
// Nats-Msg-Id keeps a second try soon after from showing up twice.
func (s stamper) deadLetter(subject string, e event, reason error, limit int) *nats.Msg {
	msg := &nats.Msg{Subject: subject, Header: carried(e.header), Data: e.data}
	s.explain(msg, e, reason)
	if wireSize(msg) > limit {
		msg = &nats.Msg{Subject: subject, Header: nats.Header{}}
		s.explain(msg, e, reason)
	}
	return msg
}

func (s stamper) explain(msg *nats.Msg, e event, reason error) {
	msg.Header.Set(HeaderSource, origin(s.source, e.seq))
	msg.Header.Set(HeaderSubject, e.subject)
	msg.Header.Set(HeaderError, strings.ToValidUTF8(reason.Error(), "?"))
	msg.Header.Set(nats.MsgIdHdr, "ids-dead "+origin(s.source, e.seq))
}

// serverHeaders is what headers begin with that tell the server to do something: to
// expect a sequence, to replace older messages, to expire this one.
const serverHeaders = "nats-"

// ours are the headers, in lower case, that say what became of an event here.
var ours = []string{strings.ToLower(HeaderSource), strings.ToLower(HeaderError), strings.ToLower(HeaderSubject)}

// carried copies the headers that are the event's own.
func carried(header nats.Header) nats.Header {
	out := nats.Header{}
	for name, values := range header {
		lower := strings.ToLower(name)
		if !strings.HasPrefix(lower, serverHeaders) && !slices.Contains(ours, lower) {
			out[name] = values
		}
	}
	return out
}

// origin names an event of a stream.
func origin(stream string, seq uint64) string {
	return stream + " " + strconv.FormatUint(seq, 10)
}

// originSeq is the sequence that a message of the target says it came from, if it is an
// enriched event of that stream. A dead letter, which the target may take too, is none.
func originSeq(stream string, header nats.Header) (uint64, bool) {
	if header.Get(HeaderError) != "" {
		return 0, false
	}
	number, ok := strings.CutPrefix(header.Get(HeaderSource), stream+" ")
	seq, err := strconv.ParseUint(number, 10, 64)
	return seq, ok && err == nil
}

// batchHeaders is the room that the headers of a batch take, at most.
const batchHeaders = 200

// wireSize is how many bytes a message of a batch has for the server's limits.
func wireSize(msg *nats.Msg) int {
	n := batchHeaders + len("NATS/1.0\r\n\r\n") + len(msg.Data)
	for name, values := range msg.Header {
		for _, value := range values {
			n += len(name) + len(": \r\n") + len(value)
		}
	}
	return n
}
