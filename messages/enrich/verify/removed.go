package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages/enrich"
)

// gap is messages that a stream has removed. Each explains one absent event.
type gap struct {
	n uint64

	// The message after them: when it was stored, and its event. A dead letter
	// before it is about an event with a lower sequence, or one stored earlier.
	// Either rule has exceptions, after a crash or if a server's clock is off,
	// but not both for the same event.
	until   time.Time
	through uint64
}

// widen adds messages that were removed before another message.
func (g *gap) widen(n uint64, until time.Time, through uint64) {
	g.n += n
	if until.After(g.until) {
		g.until = until
	}
	g.through = max(g.through, through)
}

// explain makes the gap explain up to n events, and returns their number.
func (g *gap) explain(n uint64) uint64 {
	if g == nil {
		return 0
	}
	n = min(n, g.n)
	g.n -= n
	return n
}

// hole is events of the source that are absent from their place in the target,
// between two events that are there.
type hole struct {
	// Source sequences; others between them are settled.
	first, last uint64
	stored      time.Time // of the first
	absent      uint64    // their number, less late arrivals
	// The sequence in the target before which they belong.
	before uint64
	// The messages that the target has removed there; may be nil.
	gap  *gap
	gone uint64 // number of unverifiable events
}

// mayHaveBeen reports whether dead letters about the events may be in a gap.
func (h *hole) mayHaveBeen(in *gap) bool {
	return h.first <= in.through || !h.stored.After(in.until)
}

// letter is a dead letter's claim about its event: its sequence in the source,
// and when that stored it, in nanoseconds.
type letter struct {
	origin uint64
	stored int64
}

// origin returns the event of a message of this enrichment. A foreign message
// proves nothing.
func (v *Verifier) origin(msg streamread.Message) (of letter, ours bool) {
	seq, ok := origin(v.enrichment.From, msg.Header)
	if e, proves := readEvidence(msg.Header); ok && proves && e.target == v.targetName() {
		return letter{seq, e.stored}, true
	}
	return letter{}, false
}

// letters are the dead letters of the enrichment.
type letters struct {
	v        *Verifier
	inTarget bool               // they are in the target, as events are
	reader   *streamread.Reader // nil if there are no letters
	created  time.Time          // their stream; zero until read
	last     uint64             // sequence read last
	// The letters, and whether their events were counted as dead.
	settled map[letter]bool
	gaps    []*gap // of their stream
}

func newLetters(v *Verifier) letters {
	l := letters{v: v, settled: map[letter]bool{}}
	if v.dead == nil {
		return l
	}
	filter := ""
	if l.inTarget = v.dead.CachedInfo().Config.Name == v.targetName(); l.inTarget {
		filter = v.enrichment.DeadLetter // reading the target finds the gaps
	}
	l.reader = v.read(v.dead, filter, 1, 0)
	return l
}

// read reads on through the present end of the stream.
func (l *letters) read(ctx context.Context) error {
	if l.reader == nil {
		return nil
	}
	info, err := l.v.dead.Info(ctx)
	if err != nil {
		return err
	}
	if l.created.IsZero() {
		l.created = info.Created
	}
	if !info.Created.Equal(l.created) {
		return fmt.Errorf("%w: %s", ErrReplaced, info.Config.Name)
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
		of, _ := l.v.origin(msg)
		if _, known := l.settled[of]; !known && l.has(msg) {
			l.settled[of] = false
		}
		l.pass(msg.Sequence, msg.Time, of.origin)
	}
	if info.State.LastSeq > l.last {
		l.pass(info.State.LastSeq+1, time.Time{}, math.MaxUint64)
		l.last = info.State.LastSeq
	}
	return nil
}

// pass records the messages that are missing before a sequence.
func (l *letters) pass(seq uint64, stored time.Time, origin uint64) {
	if n := seq - l.last - 1; n > 0 && !l.inTarget {
		l.gaps = append(l.gaps, &gap{n, stored, origin})
	}
	l.last = seq
}

// has reports whether a message is a dead letter of this enrichment.
func (l *letters) has(msg streamread.Message) bool {
	_, ours := l.v.origin(msg)
	return ours && l.reader != nil && msg.Subject == l.v.enrichment.DeadLetter && isLetter(msg)
}

// isLetter reports whether a message is a dead letter of any enrichment.
func isLetter(msg streamread.Message) bool {
	return len(headerValues(msg.Header, enrich.HeaderError)) > 0
}

// isMarker reports whether the server put a message there in place of a removed
// message.
func isMarker(msg streamread.Message) bool {
	return len(msg.Header[jetstream.MarkerReasonHeader]) > 0 && len(msg.Data) == 0
}
