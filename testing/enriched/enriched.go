// Package enriched checks an enrichment by brute force: it reads both streams into memory and
// compares them, one question after the other. It shares no code with what enriches, nor with
// package messages/enrich/verify, which it is there to be compared with.
package enriched

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Enrichment says what should be where.
type Enrichment struct {
	JetStream    jetstream.JetStream
	From, Filter string              // stream, and its subjects
	To           string              // stream
	Subject      func(string) string // of an event in the target; anything else there is foreign
	Tag          func(string) string // by the subject in the source; nil: one tag
	JSON         string              // top-level key of the ID; may be empty
	DeadLetters  string              // stream that has them; may be empty
}

// Problem is one thing that is wrong.
type Problem struct {
	Kind   string
	Source uint64 // of the event; 0 for a foreign message
}

func (p Problem) String() string { return fmt.Sprintf("%s %d", p.Kind, p.Source) }

// read reads a whole stream.
func (e Enrichment) read(t testing.TB, stream, filter string) (all []jetstream.Msg) {
	t.Helper()
	c, err := e.JetStream.OrderedConsumer(t.Context(), stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	messages, err := c.Messages(jetstream.PullMaxMessages(5000))
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for range info.NumPending {
		msg, err := messages.Next(jetstream.NextMaxWait(30 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, msg)
	}
	return all
}

func sequence(t testing.TB, msg jetstream.Msg) uint64 {
	t.Helper()
	meta, err := msg.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return meta.Sequence.Stream
}

// Problems lists what is wrong, in the order of the target, missing events first. Events
// behind the last one that arrived are not counted as missing: waiting is how many they are.
func (e Enrichment) Problems(t testing.TB) (found []Problem, events, waiting int) {
	t.Helper()
	source, target, dead := e.read(t, e.From, e.Filter), e.read(t, e.To, ">"), map[string]bool{}
	if e.DeadLetters != "" {
		for _, msg := range e.read(t, e.DeadLetters, ">") {
			if msg.Headers().Get("Ids-Error") != "" {
				dead[msg.Headers().Get("Ids-Source")] = true
			}
		}
	}
	originals, arrived, last := map[string]jetstream.Msg{}, map[string]bool{}, uint64(0)
	for _, msg := range source {
		originals[e.name(sequence(t, msg))] = msg
	}
	for _, msg := range target {
		name := msg.Headers().Get("Ids-Source")
		if original, ok := originals[name]; ok && msg.Headers().Get("Ids-Error") == "" {
			arrived[name] = true
			last = max(last, sequence(t, original))
		}
	}
	for _, msg := range source {
		switch seq := sequence(t, msg); {
		case arrived[e.name(seq)] || dead[e.name(seq)]:
		case seq < last:
			found = append(found, Problem{"missing", seq})
		default:
			waiting++
		}
	}
	return append(found, e.wrongInTarget(t, target, originals)...), len(arrived), waiting
}

func (e Enrichment) name(seq uint64) string { return e.From + " " + strconv.FormatUint(seq, 10) }

// wrongInTarget asks of each message what is wrong with it.
func (e Enrichment) wrongInTarget(t testing.TB, target []jetstream.Msg, originals map[string]jetstream.Msg) (found []Problem) {
	t.Helper()
	seen, ids, highest := map[string]bool{}, map[string]string{}, uint64(0)
	for _, msg := range target {
		if msg.Headers().Get("Ids-Error") != "" {
			continue
		}
		name := msg.Headers().Get("Ids-Source")
		original, ok := originals[name]
		if !ok {
			found = append(found, Problem{"foreign", 0})
			continue
		}
		seq := sequence(t, original)
		id := msg.Headers().Get("Ids-Id")
		if n, err := strconv.ParseInt(id, 10, 64); err != nil || n < 1 || !e.sameID(original, msg, id) {
			found = append(found, Problem{"bad-id", seq})
		} else if msg.Subject() != e.Subject(original.Subject()) || !e.sameBody(original, msg) || !sameHeaders(original, msg) {
			found = append(found, Problem{"changed", seq})
		}
		if e.Tag != nil {
			id = e.Tag(original.Subject()) + "/" + id
		}
		if other, taken := ids[id]; taken && other != name {
			found = append(found, Problem{"shared-id", seq})
		} else if !taken {
			ids[id] = name
		}
		switch {
		case seen[name]:
			found = append(found, Problem{"doubled", seq})
		case seq < highest:
			found = append(found, Problem{"out-of-order", seq})
		}
		seen[name], highest = true, max(highest, seq)
	}
	return found
}

// sameID reports whether the ID is the one that the event came with, and the one in the JSON.
func (e Enrichment) sameID(original, msg jetstream.Msg, id string) bool {
	if kept := original.Headers().Get("Ids-Id"); kept != "" {
		return kept == id
	}
	var object map[string]any
	return e.JSON == "" || json.Unmarshal(msg.Data(), &object) == nil && object[e.JSON] == id
}

func (e Enrichment) sameBody(original, msg jetstream.Msg) bool {
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
