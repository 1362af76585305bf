package enrich

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// errUnstampable is wrapped by the errors of events that cannot be stamped, however often
// it is tried.
var errUnstampable = errors.New("cannot be stamped")

func unstampable(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errUnstampable}, args...)...)
}

// stamper puts IDs on events.
type stamper struct {
	source   string
	mapping  mapping
	json     jsonPath
	existing Existing
}

// keepsID reports whether the event keeps the ID that it has. If it has one that it may
// not keep, the error wraps errUnstampable.
func (s stamper) keepsID(e event) (bool, error) {
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
		return true, unstampable("it has the header %s: %.40q", HeaderID, have)
	}
	if ranges, err := messages.DecodeRanges([]byte(have[0]), 1); len(have) > 1 || err != nil {
		return true, unstampable("the header %s is not one ID: %.40q", HeaderID, have)
	} else if have[0] != ranges[0].String() {
		return true, unstampable("the header %s is not an ID: %.40q", HeaderID, have)
	}
	return true, nil
}

// draftChecked drafts an event's message. It checks that the event can be stamped with any
// ID within limit bytes, or keeps the ID that it has. The error wraps errUnstampable.
func (s stamper) draftChecked(e event, limit int) (draft *nats.Msg, keepsID bool, err error) {
	keepsID, err = s.keepsID(e)
	if err != nil {
		return nil, keepsID, err
	}
	draft = s.draft(e)
	if !keepsID {
		if err := s.putID(draft, e, math.MaxInt64); err != nil { // the longest ID there is
			return nil, keepsID, err
		}
	}
	if size := wireSize(draft); size > limit {
		return nil, keepsID, unstampable("with its ID it has %d bytes, allowed are %d", size, limit)
	}
	return draft, keepsID, nil
}

// stamp makes an event's message for the target. The ID 0 means that the event keeps the
// ID that it has.
func (s stamper) stamp(e event, id int64) (*nats.Msg, error) {
	msg := s.draft(e)
	if id == 0 {
		return msg, nil
	}
	return msg, s.putID(msg, e, id)
}

// draft makes an event's message for the target, except for the ID: with the event's own
// headers, without those that instruct a server, and with its origin.
func (s stamper) draft(e event) *nats.Msg {
	msg := &nats.Msg{Subject: s.mapping.apply(e.subject), Header: copyOwnHeaders(e.header), Data: e.data}
	msg.Header.Set(HeaderSource, formatOrigin(s.source, e.seq))
	return msg
}

// putID puts an ID on the draft of an event. It replaces one that was put there before.
func (s stamper) putID(msg *nats.Msg, e event, id int64) (err error) {
	msg.Header.Set(HeaderID, strconv.FormatInt(id, 10))
	msg.Data, err = s.json.setID(e.data, id)
	return err
}
