package enrich

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// errUnstampable is wrapped by the errors of events that cannot be stamped; do
// not retry.
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

	letterLimit int // of a dead letter, if known
}

// keepsID reports whether the event keeps its ID. If it has an ID that it may
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
		return true, unstampable("header %s is already set: %.40q", HeaderID, have)
	}
	if id, err := strconv.ParseInt(have[0], 10, 64); len(have) > 1 || err != nil || id < 1 || strconv.FormatInt(id, 10) != have[0] {
		return true, unstampable("header %s is not a single ID: %.40q", HeaderID, have)
	}
	return true, nil
}

// draft makes an event's message for the target, except for the ID: with the
// event's own headers, without those that instruct a server, and with its
// origin. If keepsID, the message is complete. The error wraps errUnstampable.
func (s stamper) draft(e event) (draft *nats.Msg, keepsID bool, err error) {
	if e.Malformed {
		return nil, false, unstampable("header cannot be decoded")
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

// jsonPath is a place in a JSON object: keys joined by dots. Empty keys mean no
// place.
type jsonPath struct {
	keys string
	// Put the ID as a number, which JavaScript rounds beyond 2^53.
	number bool
}

// checkJSONPath allows keys of letters, digits, _ and - that start with a
// letter or _, so that none has a special meaning to the JSON library.
func checkJSONPath(keys string) error {
	if keys == "" {
		return nil
	}
	for key := range strings.SplitSeq(keys, ".") {
		if key == "" || key[0] >= '0' && key[0] <= '9' || key[0] == '-' || strings.Trim(key, pathBytes) != "" {
			return configError("JSON path %q, want dot-joined keys of letters, digits, _ and -, not starting with a digit or -", keys)
		}
	}
	return nil
}

const pathBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// check returns an error that wraps errUnstampable unless an ID can be put
// there: only objects, null or nothing on the way, and null or nothing at its
// end.
func (p jsonPath) check(data []byte) error {
	if p.keys == "" {
		return nil
	}
	if !gjson.ValidBytes(data) || !gjson.ParseBytes(data).IsObject() {
		return unstampable("not a JSON object: %.40q", data)
	}
	at := gjson.ParseBytes(data)
	for rest, more := p.keys, true; more && at.IsObject(); {
		var key string
		key, rest, more = strings.Cut(rest, ".")
		found := valuesAt(at, key)
		if len(found) == 0 {
			return nil
		}
		if at = found[0]; len(found) > 1 {
			return unstampable("JSON key %s occurs twice", key)
		}
		if at.Type != gjson.Null && (!more || !at.IsObject()) {
			return unstampable("JSON path %s already has %.40q", strings.TrimSuffix(p.keys, "."+rest), at.Raw)
		}
	}
	return nil
}

// valuesAt lists the values of a key in an object, which may have it more than
// once.
func valuesAt(object gjson.Result, key string) (all []gjson.Result) {
	object.ForEach(func(k, value gjson.Result) bool {
		if k.String() == key {
			all = append(all, value)
		}
		return true
	})
	return all
}

// setID puts the ID into a checked JSON object, and leaves the rest unchanged,
// byte for byte. It does not overwrite a value, except null.
func (p jsonPath) setID(data []byte, id int64) ([]byte, error) {
	if p.keys == "" {
		return data, nil
	}
	raw := strconv.FormatInt(id, 10)
	if !p.number {
		raw = strconv.Quote(raw)
	}
	out, err := sjson.SetRawBytes(data, p.keys, []byte(raw))
	if err != nil {
		return nil, unstampable("JSON path %s: %v", p.keys, err)
	}
	return out, nil
}
