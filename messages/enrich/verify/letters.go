package verify

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages/enrich"
)

// letter is the evidence of a dead letter: which event of the source it is about, and when the
// source stored that one, in nanoseconds. The time is 0 if an older version wrote the letter.
type letter struct {
	origin uint64
	stored int64
}

// letters are the dead letters of an enrichment, read so far.
type letters struct {
	subject string
	source  string
	target  string
	stream  jetstream.Stream   // nil if there are none
	reader  *streamread.Reader // nil before the first reading
	open    func(first, last uint64) *streamread.Reader
	all     []letter // ascending
	removed removedLetters
}

// removedLetters are messages that the stream of dead letters no longer has. If that is the
// target, they are among its gaps, and not here.
type removedLetters struct {
	first    uint64    // before the first one that it has
	between  uint64    // behind that
	used     uint64    // how many of them explain an event
	behind   uint64    // the event of the first letter that it has, 0 if there is none
	storedAt time.Time // of that letter
}

// read reads dead letters through the end of their stream as it is now.
func (l *letters) read(ctx context.Context) error {
	if l.stream == nil {
		return nil
	}
	info, err := l.stream.Info(ctx)
	if err != nil {
		return err
	}
	if !l.inTarget() {
		l.removed.first, l.removed.between = max(info.State.FirstSeq, 1)-1, uint64(info.State.NumDeleted)
	}
	if l.reader == nil {
		l.reader = l.open(info.State.FirstSeq, info.State.LastSeq)
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
		l.add(msg)
	}
	slices.SortFunc(l.all, func(a, b letter) int {
		return cmp.Or(cmp.Compare(a.origin, b.origin), cmp.Compare(a.stored, b.stored))
	})
	l.all = slices.Compact(l.all)
	return nil
}

func (l *letters) add(msg streamread.Message) {
	seq, ok := l.origin(msg)
	if !ok {
		return
	}
	if l.removed.behind == 0 {
		l.removed.behind, l.removed.storedAt = seq, msg.Time
	}
	e, _ := readEvidence(msg.Header) // origin has looked at it
	l.all = append(l.all, letter{seq, e.stored})
}

// origin is which event of the source a message is a dead letter of. That of an enrichment with
// another target proves nothing here.
func (l *letters) origin(msg streamread.Message) (seq uint64, ok bool) {
	if l.subject == "" || msg.Subject != l.subject || len(headerValues(msg.Header, enrich.HeaderError)) == 0 {
		return 0, false
	}
	if e, ok := readEvidence(msg.Header); !ok || !e.isOf(l.target) {
		return 0, false
	}
	return origin(l.source, msg.Header)
}

// has reports whether an event of the source is a dead letter. One about an event that was
// stored at another time is of another source of that name.
func (l *letters) has(e streamread.Message) bool {
	i, _ := slices.BinarySearchFunc(l.all, e.Sequence, func(l letter, seq uint64) int { return cmp.Compare(l.origin, seq) })
	for ; i < len(l.all) && l.all[i].origin == e.Sequence; i++ {
		if at := l.all[i].stored; at == 0 || at == e.Time.UnixNano() {
			return true
		}
	}
	return false
}

// mayHaveBeen reports whether a letter about an event may have been among those before the
// first one that is there. Letters come in the order of their events, and no letter is older
// than its event. Either rule has exceptions, after a crash or if a server's clock is off, but
// not both for one event.
func (r removedLetters) mayHaveBeen(e streamread.Message) bool {
	return r.behind == 0 || e.Sequence <= r.behind || !e.Time.After(r.storedAt)
}

// left is how many of them may have been about events at one place, so many of which may have
// had their letters before the first one that is there.
func (r removedLetters) left(early uint64) uint64 {
	all := r.first + r.between
	return min(min(early, r.first)+r.between, all-min(all, r.used))
}

// inTarget reports whether dead letters are in the target too.
func (l *letters) inTarget() bool {
	return l.stream != nil && l.stream.CachedInfo().Config.Name == l.target
}

func (l *letters) close() {
	if l.reader != nil {
		l.reader.Close()
	}
}
