package verify

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages/enrich"
)

// headerValues returns all values of a header, whatever the case of its name.
func headerValues(h nats.Header, name string) (all []string) {
	for n, values := range h {
		if strings.EqualFold(n, name) {
			all = append(all, values...)
		}
	}
	return all
}

// origin returns the source sequence that a message claims.
func origin(source string, h nats.Header) (seq uint64, ok bool) {
	values := headerValues(h, enrich.HeaderSource)
	if len(values) != 1 {
		return 0, false
	}
	number, ok := strings.CutPrefix(values[0], source+" ")
	seq, err := strconv.ParseUint(number, 10, 64)
	return seq, ok && err == nil && seq > 0 && number == strconv.FormatUint(seq, 10)
}

// evidence is a message's claim about its publisher and its event.
type evidence struct {
	target string
	chain  string
	// When the source stored the event, in nanoseconds.
	stored int64
}

// readEvidence reads the evidence in a message's header Ids-Chain.
func readEvidence(h nats.Header) (e evidence, ok bool) {
	values := headerValues(h, enrich.HeaderChain)
	if len(values) != 1 {
		return e, false
	}
	words := strings.Split(values[0], " ")
	if len(words) != 3 || words[0] == "" || words[1] == "" {
		return e, false
	}
	stored, err := strconv.ParseInt(words[2], 10, 64)
	return evidence{words[0], words[1], stored}, err == nil
}

// arrival is a message in the target that claims an event.
type arrival struct {
	streamread.Message
	origin uint64   // the event's sequence in the source
	ids    []string // the values of its header
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

func (a arrival) finding(kind FaultKind, format string, args ...any) *Finding {
	return &Finding{
		Kind: kind, Source: a.origin, Target: a.Sequence, Subject: a.Subject, IDs: a.ids,
		Detail: fmt.Sprintf(format, args...),
	}
}

// checker compares events with their originals.
type checker struct {
	target     string
	filter, to []string // tokens
	tags       []string // tokens of the tag; nil: all events share a space of IDs
	subjects   bool     // the target keeps subjects as published
	json       string   // path
	number     bool     // the ID is a JSON number
}

// newChecker takes checked settings.
func newChecker(e enrich.Config, target jetstream.StreamConfig) checker {
	c := checker{
		target: target.Name, filter: strings.Split(e.Filter, "."), to: strings.Split(e.To, "."),
		subjects: target.SubjectTransform == nil, json: e.JSON, number: e.JSONNumber,
	}
	if tag, ok := strings.CutPrefix(e.ID, "segment:"); ok && strings.Contains(tag, "{{") {
		c.tags = strings.Split(tag, ".")
	}
	return c
}

// compare returns the first difference between a message and the result of this
// enrichment for its event. The original is nil if the source has removed it.
func (c checker) compare(original *streamread.Message, a arrival) *Finding {
	e, ok := readEvidence(a.Header)
	switch {
	case !ok:
		return a.finding(Foreign, "no header %s from an enricher", enrich.HeaderChain)
	case e.target != c.target:
		return a.finding(Foreign, "published for another target: %.100q", e.target)
	case original == nil:
		return c.checkID(a)
	case e.stored != original.Time.UnixNano():
		return a.finding(Unknown, "its event was stored at %s, the source's at %s",
			time.Unix(0, e.stored).UTC().Format(time.RFC3339Nano), original.Time.UTC().Format(time.RFC3339Nano))
	}
	if _, matches := matched(c.filter, original.Subject); !matches {
		return a.finding(Foreign, "event %d of the source is on %q, outside the filter", a.origin, original.Subject)
	}
	if f := c.checkID(a); f != nil {
		return f
	}
	kept := headerValues(original.Header, enrich.HeaderID)
	if len(kept) > 0 && !slices.Equal(kept, a.ids) {
		return a.finding(BadID, "the event already had ID %.100q", kept)
	}
	if want := c.subject(original.Subject); c.subjects && a.Subject != want {
		return a.finding(Changed, "subject should be %q", want)
	}
	if f := c.compareBodies(*original, a, len(kept) > 0); f != nil {
		return f
	}
	if name, differs := firstDifference(ownHeaders(original.Header), ownHeaders(a.Header)); differs {
		return a.finding(Changed, "header %.100q differs from the event's", name)
	}
	return nil
}

// checkID checks that an event has one valid ID.
func (c checker) checkID(a arrival) *Finding {
	switch {
	case len(a.ids) == 0:
		return a.finding(BadID, "no header %s", enrich.HeaderID)
	case a.id == 0:
		return a.finding(BadID, "header %s is not a single decimal ID from 1 to 2^63-1", enrich.HeaderID)
	}
	return nil
}

func (c checker) compareBodies(original streamread.Message, a arrival, kept bool) *Finding {
	want := original.Data
	if c.json != "" && !kept {
		value := a.ids[0]
		if !c.number {
			value = strconv.Quote(value)
		}
		if raw := gjson.GetBytes(a.Data, c.json).Raw; raw != value {
			return a.finding(BadID, "JSON has %.100q at %s, want %s", raw, c.json, value)
		}
		var err error
		if want, err = sjson.SetRawBytes(original.Data, c.json, []byte(value)); err != nil {
			return a.finding(Changed, "the event has no room for an ID: %v", err)
		}
	}
	if !bytes.Equal(want, a.Data) {
		return a.finding(Changed, "body differs from the event's")
	}
	return nil
}

// onOneLine is the change that clients make to a value that they send.
var onOneLine = strings.NewReplacer("\r", " ", "\n", " ")

// enrichHeaders are the headers, in lower case, that enrichers write.
var enrichHeaders = strings.Fields(strings.ToLower(strings.Join(
	[]string{enrich.HeaderID, enrich.HeaderSource, enrich.HeaderChain, enrich.HeaderError, enrich.HeaderSubject}, " ")))

// ownHeaders are the headers of an event that enrichers preserve.
func ownHeaders(h nats.Header) nats.Header {
	own := nats.Header{}
	for name, values := range h {
		lower := strings.ToLower(strings.TrimSpace(name))
		if strings.HasPrefix(lower, "nats-") || slices.Contains(enrichHeaders, lower) {
			continue
		}
		for _, v := range values {
			own[name] = append(own[name], strings.TrimSpace(onOneLine.Replace(v)))
		}
	}
	return own
}

// firstDifference returns the first header, by name, whose values differ.
func firstDifference(a, b nats.Header) (name string, differs bool) {
	names := slices.Sorted(maps.Keys(a))
	names = slices.AppendSeq(names, maps.Keys(b))
	slices.Sort(names)
	i := slices.IndexFunc(names, func(name string) bool { return !slices.Equal(a[name], b[name]) })
	if i < 0 {
		return "", false
	}
	return names[i], true
}

// matched lists the match of each wildcard of a pattern in a subject, the rest
// for >. ok is false if the subject does not match.
func matched(pattern []string, subject string) (found []string, ok bool) {
	tokens := strings.Split(subject, ".")
	for i, p := range pattern {
		switch {
		case i >= len(tokens):
			return nil, false
		case p == ">":
			return append(found, strings.Join(tokens[i:], ".")), true
		case p == "*":
			found = append(found, tokens[i])
		case p != tokens[i]:
			return nil, false
		}
	}
	return found, len(tokens) == len(pattern)
}

// subject returns the target subject of an event on a subject of the source.
func (c checker) subject(source string) string {
	found, _ := matched(c.filter, source)
	out := slices.Clone(c.to)
	for i, token := range out {
		if (token == "*" || token == ">") && len(found) > 0 {
			out[i], found = found[0], found[1:]
		}
	}
	return strings.Join(out, ".")
}

// takes reports whether events go to a subject of the target.
func (c checker) takes(target string) bool {
	_, ok := matched(c.to, target)
	return ok || !c.subjects
}

// tag returns the tag of an event, by its original or else by its subject in
// the target. known is false if neither determines it.
func (c checker) tag(a arrival, original *streamread.Message) (tag string, known bool) {
	pattern, subject := c.to, a.Subject
	if original != nil {
		pattern, subject = c.filter, original.Subject
	}
	found, ok := matched(pattern, subject)
	out := slices.Clone(c.tags)
	for i, part := range out {
		inner, isWildcard := strings.CutPrefix(part, "{{wildcard(")
		if !isWildcard {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSuffix(inner, ")}}"))
		if !ok || err != nil || n < 1 || n > len(found) {
			return "", false
		}
		out[i] = found[n-1]
	}
	return strings.Join(out, "."), true
}
