package enrich

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
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
	chain    string // of the record
	mapping  mapping
	json     jsonPath
	existing Existing
	limit    int // of a message in the target, in bytes

	letterLimit int // of a dead letter, as far as it is known
}

// keepsID reports whether the event keeps the ID that it has. If it has one that it may
// not keep, the error wraps errUnstampable.
func (s stamper) keepsID(e event) (bool, error) {
	if len(e.Header) == 0 {
		return false, nil
	}
	var have []string
	for name, values := range e.Header {
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
	if id, err := strconv.ParseInt(have[0], 10, 64); len(have) > 1 || err != nil || id < 1 || strconv.FormatInt(id, 10) != have[0] {
		return true, unstampable("the header %s is not one ID: %.40q", HeaderID, have)
	}
	return true, nil
}

// draft makes an event's message for the target, except for the ID: with the event's own
// headers, without those that instruct a server, and with its origin. If keepsID, the
// message is complete. The error wraps errUnstampable.
func (s stamper) draft(e event) (draft *nats.Msg, keepsID bool, err error) {
	if e.Malformed {
		return nil, false, unstampable("its header cannot be decoded")
	}
	if keepsID, err = s.keepsID(e); err != nil {
		return nil, keepsID, err
	}
	if !keepsID {
		if err := s.json.check(e.Data); err != nil {
			return nil, false, err
		}
	}
	draft = &nats.Msg{Subject: s.mapping.apply(e.Subject), Header: copyOwnHeaders(e.Header), Data: e.Data}
	setOrigin(draft.Header, s.source, s.chain, e)
	return draft, keepsID, checkSize(draft, s.limit)
}

// putID puts an ID on the draft of an event. The error wraps errUnstampable.
func (s stamper) putID(msg *nats.Msg, id int64) (err error) {
	msg.Header[HeaderID] = []string{strconv.FormatInt(id, 10)}
	if msg.Data, err = s.json.setID(msg.Data, id); err != nil || s.json.keys == "" {
		return err
	}
	return checkSize(msg, s.limit)
}
