// Package enriched checks an enrichment by brute force: it reads both streams
// into memory and compares them, check by check. It shares no code with the
// enricher, nor with package messages/enrich/verify, whose results are compared
// with it.
package enriched

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// Streams describes the expected content of both streams.
type Streams struct {
	JetStream    jetstream.JetStream
	From, Filter string              // stream, and its subjects
	To           string              // stream
	Subject      func(string) string // of an event in the target; anything else there is foreign
	Tag          func(string) string // by the subject in the source; nil: one tag
	JSON         string              // top-level key of the ID; may be empty
	Elsewhere    func(string) bool   // subjects of the target without events; may be nil
	DeadLetters  string              // stream that has them; may be empty
}

// Flaw is a fault of an enrichment.
type Flaw struct {
	Kind   string
	Source uint64 // of the event; 0 for a foreign message
}

func (p Flaw) String() string { return fmt.Sprintf("%s %d", p.Kind, p.Source) }

func sequence(t testing.TB, msg jetstream.Msg) uint64 {
	t.Helper()
	meta, err := msg.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return meta.Sequence.Stream
}

// Problems lists the faults, in the order of the target, missing events first.
// Events behind the last event that arrived are not missing: waiting is their
// number.
func (e Streams) Problems(t testing.TB) (found []Flaw, events, waiting int) {
	t.Helper()
	source, target, dead := natstest.ReadStream(t, e.JetStream, e.From, 1, e.Filter), natstest.ReadStream(t, e.JetStream, e.To, 1, ">"), map[string]bool{}
	if e.DeadLetters != "" {
		for _, msg := range natstest.ReadStream(t, e.JetStream, e.DeadLetters, 1, ">") {
			if msg.Headers().Get("Ids-Error") != "" && e.isOurs(msg) {
				dead[msg.Headers().Get("Ids-Source")+storedAt(msg)] = true
			}
		}
	}
	originals, arrived, last := map[string]jetstream.Msg{}, map[string]bool{}, uint64(0)
	for _, msg := range source {
		originals[e.name(sequence(t, msg))] = msg
	}
	for _, msg := range target {
		name := msg.Headers().Get("Ids-Source")
		if original, ok := originals[name]; ok && msg.Headers().Get("Ids-Error") == "" && !e.elsewhere(msg) && e.isOurs(msg) && isOf(t, original, msg) {
			arrived[name] = true
			last = max(last, sequence(t, original))
		}
	}
	for _, msg := range source {
		switch seq := sequence(t, msg); {
		case arrived[e.name(seq)] || dead[e.name(seq)+" "+stored(t, msg)]:
		case seq < last:
			found = append(found, Flaw{"missing", seq})
		default:
			waiting++
		}
	}
	return append(found, e.wrongInTarget(t, target, originals)...), len(arrived), waiting
}

func (e Streams) name(seq uint64) string { return e.From + " " + strconv.FormatUint(seq, 10) }

// isOurs reports whether an enrichment with this target published a message.
func (e Streams) isOurs(msg jetstream.Msg) bool {
	words := strings.Split(msg.Headers().Get("Ids-Chain"), " ")
	return len(words) == 3 && words[0] == e.To
}

// storedAt is the time at which the source stored an event, which a message
// carries as its last field, behind a space.
func storedAt(msg jetstream.Msg) string {
	if words := strings.Split(msg.Headers().Get("Ids-Chain"), " "); len(words) == 3 {
		return " " + words[2]
	}
	return ""
}

func stored(t testing.TB, original jetstream.Msg) string {
	t.Helper()
	meta, err := original.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatInt(meta.Timestamp.UnixNano(), 10)
}

// isOf reports whether a message may have been made of an event.
func isOf(t testing.TB, original, msg jetstream.Msg) bool {
	t.Helper()
	return storedAt(msg) == " "+stored(t, original)
}

func (e Streams) elsewhere(msg jetstream.Msg) bool {
	return e.Elsewhere != nil && e.Elsewhere(msg.Subject())
}

// foreign counts, by sequence, the target's messages that this enrichment did
// not publish: messages for another target, or of a superseded chain.
func (e Streams) foreign(target []jetstream.Msg) map[int]bool {
	found, latest, ended := map[int]bool{}, "", map[string]bool{}
	for i, msg := range target {
		words := strings.Split(msg.Headers().Get("Ids-Chain"), " ")
		switch {
		case msg.Headers().Get("Ids-Error") != "":
		case !e.isOurs(msg) || ended[words[1]]:
			found[i] = true
		case words[1] != latest:
			ended[latest], latest = true, words[1]
		}
	}
	return found
}

// wrongInTarget lists the faults of each message.
func (e Streams) wrongInTarget(t testing.TB, target []jetstream.Msg, originals map[string]jetstream.Msg) (found []Flaw) {
	t.Helper()
	seen, ids, highest := map[string]bool{}, map[string]string{}, uint64(0)
	foreign := e.foreign(target)
	for i, msg := range target {
		if msg.Headers().Get("Ids-Error") != "" || msg.Headers().Get("Nats-Marker-Reason") != "" {
			continue
		}
		name := msg.Headers().Get("Ids-Source")
		original, ok := originals[name]
		if !ok {
			if !e.elsewhere(msg) {
				found = append(found, Flaw{"foreign", 0})
			}
			continue
		}
		seq := sequence(t, original)
		switch {
		case e.elsewhere(msg):
			found = append(found, Flaw{"foreign", seq})
			continue
		case !e.isOurs(msg):
			found = append(found, Flaw{"foreign", seq})
			continue
		case !isOf(t, original, msg):
			found = append(found, Flaw{"unknown", seq})
			continue
		case foreign[i]:
			found = append(found, Flaw{"foreign", seq})
		}
		id := msg.Headers().Get("Ids-Id")
		if n, err := strconv.ParseInt(id, 10, 64); err != nil || n < 1 || !e.sameID(original, msg, id) {
			found = append(found, Flaw{"bad-id", seq})
		} else if msg.Subject() != e.Subject(original.Subject()) || !e.sameBody(original, msg) || !sameHeaders(original, msg) {
			found = append(found, Flaw{"changed", seq})
		}
		if e.Tag != nil {
			id = e.Tag(original.Subject()) + "/" + id
		}
		if other, taken := ids[id]; taken && other != name {
			found = append(found, Flaw{"shared-id", seq})
		} else if !taken {
			ids[id] = name
		}
		switch {
		case seen[name]:
			found = append(found, Flaw{"doubled", seq})
		case seq < highest:
			found = append(found, Flaw{"out-of-order", seq})
		}
		seen[name], highest = true, max(highest, seq)
	}
	return found
}

// sameID reports whether header, original event and JSON carry the same ID.
func (e Streams) sameID(original, msg jetstream.Msg, id string) bool {
	if kept := original.Headers().Get("Ids-Id"); kept != "" {
		return kept == id
	}
	var object map[string]any
	return e.JSON == "" || json.Unmarshal(msg.Data(), &object) == nil && object[e.JSON] == id
}

func (e Streams) sameBody(original, msg jetstream.Msg) bool {
	if e.JSON == "" || original.Headers().Get("Ids-Id") != "" {
		return string(original.Data()) == string(msg.Data())
	}
	var before, after map[string]any
	if json.Unmarshal(original.Data(), &before) != nil || json.Unmarshal(msg.Data(), &after) != nil {
		return false
	}
	delete(before, e.JSON)
	delete(after, e.JSON)
	return reflect.DeepEqual(before, after)
}

// sameHeaders reports whether an event still has its own headers.
func sameHeaders(original, msg jetstream.Msg) bool {
	var own [2][]string
	for i, m := range []jetstream.Msg{original, msg} {
		for name, values := range m.Headers() {
			if !strings.HasPrefix(strings.ToLower(name), "nats-") && !strings.HasPrefix(name, "Ids-") {
				own[i] = append(own[i], fmt.Sprintf("%s: %q", name, values))
			}
		}
		slices.Sort(own[i])
	}
	return slices.Equal(own[0], own[1])
}
