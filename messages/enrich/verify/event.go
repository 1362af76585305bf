package verify

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages/enrich"
)

// headerValues are all values of a header, whatever the case of its name.
func headerValues(h nats.Header, name string) (all []string) {
	for n, values := range h {
		if strings.EqualFold(n, name) {
			all = append(all, values...)
		}
	}
	return all
}

// origin is which event of the source a message says that it is.
func origin(source string, h nats.Header) (seq uint64, ok bool) {
	values := headerValues(h, enrich.HeaderSource)
	if len(values) != 1 {
		return 0, false
	}
	number, ok := strings.CutPrefix(values[0], source+" ")
	seq, err := strconv.ParseUint(number, 10, 64)
	return seq, ok && err == nil && seq > 0 && number == strconv.FormatUint(seq, 10)
}

// arrival is an event in the target.
type arrival struct {
	streamread.Message
	origin uint64   // its sequence in the source
	ids    []string // what its header says
	id     int64    // 0 if that is not one valid ID
}

func newArrival(msg streamread.Message, origin uint64) arrival {
	a := arrival{Message: msg, origin: origin, ids: headerValues(msg.Header, enrich.HeaderID)}
	if len(a.ids) != 1 {
		return a
	}
	if id, err := strconv.ParseInt(a.ids[0], 10, 64); err == nil && id > 0 && strconv.FormatInt(id, 10) == a.ids[0] {
		a.id = id
	}
	return a
}

func (a arrival) finding(kind Kind, format string, args ...any) Finding {
	return Finding{
		Kind: kind, Source: a.origin, Target: a.Sequence, Subject: a.Subject, IDs: a.ids,
		Detail: fmt.Sprintf(format, args...),
	}
}

// checker compares events with their originals.
type checker struct {
	template template
	subjects bool   // whether the target keeps subjects as they were published
	json     string // path
	number   bool   // the ID is a JSON number
}

// checkID finds out whether an event has one valid ID.
func (c checker) checkID(a arrival) (f Finding, wrong bool) {
	switch {
	case len(a.ids) == 0:
		return a.finding(BadID, "it has no header %s", enrich.HeaderID), true
	case a.id == 0:
		return a.finding(BadID, "the header %s is not one ID, decimal, from 1 to 2^63-1", enrich.HeaderID), true
	}
	return f, false
}

// compare finds the first difference between an event in the target, whose ID is valid, and
// what should be there.
func (c checker) compare(original streamread.Message, a arrival) (f Finding, wrong bool) {
	kept := headerValues(original.Header, enrich.HeaderID)
	if len(kept) > 0 && !slices.Equal(kept, a.ids) {
		return a.finding(BadID, "the event came with the ID %.100q", kept), true
	}
	if want := c.template.subject(original.Subject); c.subjects && a.Subject != want {
		return a.finding(Changed, "its subject should be %q", want), true
	}
	if f, wrong := c.compareBodies(original, a, len(kept) > 0); wrong {
		return f, true
	}
	if name, differs := firstDifference(ownHeaders(original.Header), ownHeaders(a.Header)); differs {
		return a.finding(Changed, "its header %.100q is not that of the event", name), true
	}
	return f, false
}

func (c checker) compareBodies(original streamread.Message, a arrival, kept bool) (f Finding, wrong bool) {
	want := original.Data
	if c.json != "" && !kept {
		value := a.ids[0]
		if !c.number {
			value = strconv.Quote(value)
		}
		if raw := gjson.GetBytes(a.Data, c.json).Raw; raw != value {
			return a.finding(BadID, "the JSON has %.100q at %s, not %s", raw, c.json, value), true
		}
		var err error
		if want, err = sjson.SetRawBytes(original.Data, c.json, []byte(value)); err != nil {
			return a.finding(Changed, "the event has no place for an ID: %v", err), true
		}
	}
	if !bytes.Equal(want, a.Data) {
		return a.finding(Changed, "its body is not that of the event"), true
	}
	return f, false
}

// onOneLine is what clients do with a value that they send.
var onOneLine = strings.NewReplacer("\r", " ", "\n", " ")

// ownHeaders are the headers of an event that enriching leaves alone.
func ownHeaders(h nats.Header) nats.Header {
	var own nats.Header
	for name, values := range h {
		lower := strings.ToLower(strings.TrimSpace(name))
		if strings.HasPrefix(lower, "nats-") || slices.Contains(enrichHeaders, lower) {
			continue
		}
		if own == nil {
			own = make(nats.Header, len(h))
		}
		for _, v := range values {
			own[name] = append(own[name], strings.TrimSpace(onOneLine.Replace(v)))
		}
	}
	return own
}

var enrichHeaders = []string{
	strings.ToLower(enrich.HeaderID), strings.ToLower(enrich.HeaderSource), strings.ToLower(enrich.HeaderChain), strings.ToLower(enrich.HeaderError), strings.ToLower(enrich.HeaderSubject),
}

// firstDifference is the first header, by name, whose values differ.
func firstDifference(a, b nats.Header) (name string, differs bool) {
	if len(a) == 0 && len(b) == 0 {
		return "", false
	}
	names := slices.Sorted(maps.Keys(a))
	for name := range b {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !slices.Equal(a[name], b[name]) {
			return name, true
		}
	}
	return "", false
}
