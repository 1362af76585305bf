package verify

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages/enrich"
)

// letters are the dead letters of an enrichment, read so far.
type letters struct {
	subject string
	source  string
	stream  jetstream.Stream // nil if there are none
	reader  *streamread.Reader
	target  string   // name of the stream; letters of other enrichments name another one
	events  []letter // ascending
	removed uint64   // messages that the stream no longer has
}

// letter is the event of a dead letter: its sequence in the source, and when that stored it, Unix
// time in nanoseconds, 0 if the letter does not say.
type letter struct {
	seq uint64
	at  int64
}

func (l letter) compare(m letter) int {
	return cmp.Or(cmp.Compare(l.seq, m.seq), cmp.Compare(l.at, m.at))
}

// read reads dead letters through the end of their stream as it is now.
func (l *letters) read(ctx context.Context, js jetstream.JetStream) error {
	if l.stream == nil {
		return nil
	}
	info, err := l.stream.Info(ctx)
	if err != nil {
		return err
	}
	l.removed = max(info.State.FirstSeq, 1) - 1 + uint64(info.State.NumDeleted)
	if l.reader == nil {
		l.reader = streamread.Open(js, l.stream, l.subject, info.State.FirstSeq, info.State.LastSeq)
	}
	l.reader.Extend(info.State.LastSeq)
	for {
		msg, err := l.reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if event, ok := l.origin(msg); ok {
			l.events = append(l.events, event)
		}
	}
	slices.SortFunc(l.events, letter.compare)
	l.events = slices.Compact(l.events)
	return nil
}

// origin is which event of the source a message is a dead letter of.
func (l *letters) origin(msg streamread.Message) (event letter, ok bool) {
	if l.subject == "" || msg.Subject != l.subject || len(headerValues(msg.Header, enrich.HeaderError)) == 0 {
		return letter{}, false
	}
	target, at, ok := chain(msg.Header)
	if !ok || target != "" && target != l.target {
		return letter{}, false
	}
	if target != "" {
		event.at = at.UnixNano()
	}
	event.seq, ok = origin(l.source, msg.Header)
	return event, ok
}

// has reports whether an event of the source is a dead letter.
func (l *letters) has(event streamread.Message) bool {
	for _, at := range []int64{0, event.Time.UnixNano()} {
		if _, found := slices.BinarySearchFunc(l.events, letter{event.Sequence, at}, letter.compare); found {
			return true
		}
	}
	return false
}

func (l *letters) close() {
	if l.reader != nil {
		l.reader.Close()
	}
}
