package verify

import (
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
	events  []uint64 // source sequences, ascending
	removed uint64   // messages that the stream no longer has
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
		if seq, ok := l.origin(msg); ok {
			l.events = append(l.events, seq)
		}
	}
	slices.Sort(l.events)
	l.events = slices.Compact(l.events)
	return nil
}

// origin is which event of the source a message is a dead letter of.
func (l *letters) origin(msg streamread.Message) (seq uint64, ok bool) {
	if l.subject == "" || msg.Subject != l.subject || len(headerValues(msg.Header, enrich.HeaderError)) == 0 {
		return 0, false
	}
	return origin(l.source, msg.Header)
}

// has reports whether an event of the source is a dead letter.
func (l *letters) has(seq uint64) bool {
	_, found := slices.BinarySearch(l.events, seq)
	return found
}

func (l *letters) close() {
	if l.reader != nil {
		l.reader.Close()
	}
}
