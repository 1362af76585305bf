package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/streamread"
)

// walk is a reading of both streams, side by side.
type walk struct {
	v      *Verifier
	report *Verification

	source, target *streamread.Reader
	// Event of the source that was read, but not passed.
	ahead *streamread.Message
	// Sequence of the target read last.
	last uint64

	// The state of the streams when last looked up.
	sourceCreated, targetCreated time.Time
	sourceLast, targetLast       uint64

	// Source sequence of the latest event in order.
	at uint64
	// Messages that the target has removed after that; nil if none.
	gap   *gap
	holes []*hole // ascending
	// The chain of the latest event in order.
	chain string
	// Chains that another chain followed, and whether a finding reports them.
	ended map[string]bool
	// Events that arrived after a later event.
	late map[uint64]bool
	// Events with a fault, and whether they were passed.
	spoilt map[uint64]bool
	// The latest orphan that arrived before an event that the source has.
	early   *arrival
	letters letters
	ids     idSet
}

func newWalk(v *Verifier) *walk {
	w := &walk{
		v: v, late: map[uint64]bool{}, spoilt: map[uint64]bool{}, letters: newLetters(v), ids: newIDSet(), ended: map[string]bool{},
		report: &Verification{Source: v.enrichment.From, Target: v.targetName(), Began: time.Now(), Faults: map[FaultKind]uint64{}, Findings: []Finding{}},
	}
	if v.dead != nil {
		w.report.DeadLetters = v.dead.CachedInfo().Config.Name
	}
	return w
}

func (w *walk) close() {
	for _, r := range []*streamread.Reader{w.source, w.target, w.letters.reader} {
		if r != nil {
			r.Close()
		}
	}
}

// run reads through the point, and then gives the absent events their verdicts.
func (w *walk) run(ctx context.Context) error {
	if err := w.look(ctx); err != nil {
		return err
	}
	w.report.Point = w.sourceLast
	w.v.point.Store(w.report.Point)
	w.source = w.v.read(w.v.source, w.v.enrichment.Filter, w.v.cfg.After+1, w.report.Point)
	w.target = w.v.read(w.v.target, "", 1, w.targetLast)
	for deadline := w.report.Began.Add(w.v.cfg.Wait); ; {
		if err := w.letters.read(ctx); err != nil {
			return err
		}
		if err := w.readTarget(ctx); err != nil {
			return err
		}
		next, err := w.next(ctx)
		if err != nil {
			return err
		}
		if next == nil || time.Now().After(deadline) {
			break
		}
		pause.For(ctx, 100*time.Millisecond)
		if err := w.look(ctx); err != nil {
			return err
		}
	}
	if err := w.conclude(ctx); err != nil {
		return err
	}
	return w.look(ctx)
}

// look fixes the ends of both streams. The target first: the source has then
// stored the events of all its messages. An error wraps [ErrReplaced] if either
// stream was replaced.
func (w *walk) look(ctx context.Context) error {
	target, err := w.v.target.Info(ctx)
	if err != nil {
		return fmt.Errorf("target stream: %w", err)
	}
	source, err := w.v.source.Info(ctx)
	if err != nil {
		return fmt.Errorf("source stream: %w", err)
	}
	if w.sourceCreated.IsZero() {
		w.sourceCreated, w.targetCreated = source.Created, target.Created
	}
	for name, same := range map[string]bool{w.report.Source: source.Created.Equal(w.sourceCreated), w.report.Target: target.Created.Equal(w.targetCreated)} {
		if !same {
			return fmt.Errorf("%w: %s", ErrReplaced, name)
		}
	}
	w.sourceLast, w.targetLast = max(w.sourceLast, source.State.LastSeq), max(w.targetLast, target.State.LastSeq)
	return nil
}

// readTarget reads the target through its end in look.
func (w *walk) readTarget(ctx context.Context) error {
	w.target.Extend(w.targetLast)
	for {
		msg, err := w.target.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.receive(ctx, msg); err != nil {
			return err
		}
	}
}

// receive handles the next message of the target.
func (w *walk) receive(ctx context.Context, msg streamread.Message) error {
	seq, ok := origin(w.v.enrichment.From, msg.Header)
	if n := msg.Sequence - w.last - 1; n > 0 {
		of, _ := w.v.origin(msg)
		w.widenGap(n, msg.Time, of.origin)
	}
	w.last = msg.Sequence
	if w.letters.has(msg) {
		return nil
	}
	a, takes := newArrival(msg, seq), w.v.checker.takes(msg.Subject)
	switch {
	case !takes && ok && seq > w.v.cfg.After && !isLetter(msg):
		w.report.add(a.finding(Foreign, "event of this source on a subject that these settings do not use"))
	case !takes, !ok && isMarker(msg):
		w.report.Others++
	case !ok:
		w.report.add(a.finding(Foreign, "not from an enricher of this source"))
	case seq > w.sourceLast:
		w.report.add(a.finding(Unknown, "the source ends at %d", w.sourceLast))
	case seq <= w.v.cfg.After:
		w.report.Before++
		w.report.add(w.v.checker.checkID(a))
		w.report.add(w.addID(a, nil))
	default:
		return w.receiveEvent(ctx, a)
	}
	return nil
}

// receiveEvent handles a message that claims an event. Only an exact result of
// its original passes over other events.
func (w *walk) receiveEvent(ctx context.Context, a arrival) error {
	original, err := w.original(ctx, a.origin)
	if err != nil {
		return err
	}
	f := w.v.checker.compare(original, a)
	// It proves only that the events before it should have arrived.
	if a.origin > w.report.Point {
		if f != nil || original == nil {
			return nil
		}
		err = w.passOver(ctx, a.origin, a.Sequence)
		w.at, w.gap = w.report.Point, nil
		return err
	}
	if f != nil {
		w.report.add(f)
		if _, known := w.spoilt[a.origin]; !known && a.origin > w.at && (f.Kind == Changed || f.Kind == BadID) {
			w.spoilt[a.origin] = false
		}
		return nil
	}
	if a.origin > w.at {
		w.report.add(w.addID(a, original))
		return w.receiveNext(ctx, original, a)
	}
	w.receiveLate(original, a)
	return nil
}

// receiveNext handles an event after the latest event in order. If its original
// was removed, it passes over no event that the source has.
func (w *walk) receiveNext(ctx context.Context, original *streamread.Message, a arrival) error {
	if w.early != nil && w.early.origin >= a.origin {
		if w.early.origin == a.origin {
			w.report.add(a.finding(Doubled, "second copy"))
			return nil
		}
		w.report.add(w.early.finding(Order, "event %d comes after it", a.origin))
		w.early = nil
	}
	w.count(original)
	if original == nil {
		if w.ahead == nil || w.ahead.Sequence > a.origin {
			w.passEvent(a)
		} else {
			w.early = &a
		}
		return nil
	}
	if err := w.passOver(ctx, a.origin, a.Sequence); err != nil {
		return err
	}
	w.passEvent(a)
	if w.ahead != nil && w.ahead.Sequence == a.origin {
		w.ahead = nil
	} else {
		w.unsettle(*original)
	}
	w.account(*original)
	return nil
}

// count counts an event that is in the target.
func (w *walk) count(original *streamread.Message) {
	if original == nil {
		w.report.Orphans++
	} else {
		w.report.Events++
	}
}

// receiveLate handles an event that is not after the latest event in order. If
// its original was removed, only its ID shows whether it was there before.
func (w *walk) receiveLate(original *streamread.Message, a arrival) {
	shared := w.addID(a, original)
	switch {
	case original == nil && (shared != nil || a.origin == w.at):
		w.report.add(a.finding(Doubled, "already there, or another event has its ID"))
		return
	case original != nil && (w.late[a.origin] || !w.unsettle(*original) && !w.fill(a.origin)):
		w.report.add(a.finding(Doubled, "second copy"))
		return
	}
	w.report.add(shared)
	w.report.add(a.finding(Order, "event %d comes before it", w.at))
	w.count(original)
	w.late[a.origin] = true
}

// original returns the event of the source with that sequence, or nil if the
// source has removed it.
func (w *walk) original(ctx context.Context, seq uint64) (*streamread.Message, error) {
	if next, err := w.next(ctx); err != nil || next != nil && next.Sequence == seq {
		return next, err
	}
	msg, err := streamread.At(ctx, w.v.cfg.JetStream, w.v.enrichment.From, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return &msg, err
}

// fill removes an event from its hole, if any.
func (w *walk) fill(seq uint64) bool {
	i := sort.Search(len(w.holes), func(i int) bool { return w.holes[i].last >= seq })
	if i == len(w.holes) || w.holes[i].first > seq {
		return false
	}
	w.holes[i].absent--
	return true
}

// next returns the next event of the source that is not settled, or nil at the
// point.
func (w *walk) next(ctx context.Context) (*streamread.Message, error) {
	for w.ahead == nil || w.settle(*w.ahead) {
		w.ahead = nil
		msg, err := w.source.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		w.ahead = &msg
	}
	return w.ahead, nil
}

// settle counts an event of the source if it is a dead letter, or already has a
// finding.
func (w *walk) settle(e streamread.Message) bool {
	l := letter{e.Sequence, e.Time.UnixNano()}
	if _, dead := w.letters.settled[l]; dead {
		w.letters.settled[l] = true
		w.report.Dead++
	} else if _, spoilt := w.spoilt[e.Sequence]; spoilt {
		w.spoilt[e.Sequence] = true
		w.report.Events++
	} else {
		return false
	}
	w.account(e)
	return true
}

// unsettle reverses settle: the event is in the target. It reports whether it
// was settled.
func (w *walk) unsettle(e streamread.Message) bool {
	l := letter{e.Sequence, e.Time.UnixNano()}
	switch {
	case w.letters.settled[l]:
		w.letters.settled[l] = false
		w.report.Dead--
		w.report.Both++
	case w.spoilt[e.Sequence]:
		w.spoilt[e.Sequence] = false
		w.report.Events--
	default:
		return false
	}
	return true
}

// passOver passes the events of the source before an event, which is at a place
// in the target, or belongs there. They should have been there before.
func (w *walk) passOver(ctx context.Context, before, place uint64) error {
	h := &hole{before: place}
	for {
		e, err := w.next(ctx)
		if err != nil {
			return err
		}
		if e == nil || e.Sequence >= before {
			break
		}
		if h.absent++; h.absent == 1 {
			h.first, h.stored = e.Sequence, e.Time
		}
		h.last = e.Sequence
		if w.at == 0 && e.Time.Before(w.targetCreated) {
			// It may have been in an earlier stream of that name.
			w.widenGap(1, time.Time{}, 0)
		}
		w.ahead = nil
	}
	if h.absent > 0 {
		h.gap = w.gap
		w.holes = append(w.holes, h)
	}
	return nil
}

// widenGap records that the target has removed messages before another.
func (w *walk) widenGap(n uint64, stored time.Time, origin uint64) {
	if w.gap == nil {
		w.gap = &gap{}
		if w.letters.inTarget {
			w.letters.gaps = append(w.letters.gaps, w.gap)
		}
	}
	w.gap.widen(n, stored, origin)
}

// passEvent records that an event is in order in the target. There is one chain
// at a time: an operator's decision about the position begins another.
func (w *walk) passEvent(a arrival) {
	e, _ := readEvidence(a.Header)
	reported, ended := w.ended[e.chain]
	switch {
	case ended && !reported:
		w.ended[e.chain] = true
		w.report.add(a.finding(Foreign, "two enrichments write to this target: %q ended when %q began", e.chain, w.chain))
	case !ended && e.chain != w.chain:
		w.ended[w.chain], w.chain = false, e.chain
	}
	w.at, w.gap = a.origin, nil
	w.v.passed.Store(w.at)
}

// account records that an event of the source has its verdict.
func (w *walk) account(e streamread.Message) {
	if w.report.From == 0 {
		w.report.From = e.Sequence
	}
	if e.Sequence > w.report.Through {
		w.report.Through, w.report.Stored = e.Sequence, e.Time
		w.v.passed.Store(e.Sequence)
	}
}

// addID records the ID of an event, whose original may be nil. If the target
// already has the ID, it returns a finding.
func (w *walk) addID(a arrival, original *streamread.Message) *Finding {
	tag, known := w.v.checker.tag(a, original)
	if !known || a.id == 0 {
		return nil
	}
	behind, taken := w.ids.add(tag, a.id, a.Sequence)
	if !taken {
		return nil
	}
	return a.finding(SharedID, "its ID is already at %d of the target, or after it", behind)
}

// conclude gives the absent events their verdicts. After the last event that
// has arrived they are waiting.
func (w *walk) conclude(ctx context.Context) error {
	if n := w.targetLast - w.last; n > 0 {
		w.widenGap(n, time.Time{}, math.MaxUint64)
	}
	through, stored, proven := w.report.Through, w.report.Stored, len(w.holes)
	if err := w.passOver(ctx, math.MaxUint64, w.targetLast+1); err != nil {
		return err
	}
	w.report.Through, w.report.Stored = through, stored
	for _, h := range w.holes { // removed at this place
		h.gone = h.gap.explain(h.absent)
	}
	for i, h := range w.holes { // removed dead letters
		for _, g := range w.letters.gaps {
			if h.gone < h.absent && h.mayHaveBeen(g) {
				h.gone += g.explain(h.absent - h.gone)
			}
		}
		w.report.Gone += h.gone
		if n := h.absent - h.gone; i >= proven {
			w.report.Waiting += n
		} else if n > 0 {
			missing := w.report.Faults[Missing] + n
			if err := w.name(ctx, *h); err != nil {
				return err
			}
			w.report.Faults[Missing] = missing
		}
	}
	w.report.sort()
	return nil
}

// name makes findings of missing events, up to MaxFindings.
func (w *walk) name(ctx context.Context, h hole) error {
	reader := w.v.read(w.v.source, w.v.enrichment.Filter, h.first, h.last)
	defer reader.Close()
	for left := h.absent; left > 0 && w.report.Faults[Missing] < MaxFindings; {
		e, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		_, dead := w.letters.settled[letter{e.Sequence, e.Time.UnixNano()}]
		_, spoilt := w.spoilt[e.Sequence]
		if dead || spoilt || w.late[e.Sequence] {
			continue
		}
		if left--; left < h.absent-h.gone {
			w.report.add(&Finding{
				Kind: Missing, Source: e.Sequence, Target: h.before, Subject: e.Subject,
				Detail: "neither before that message nor among the dead letters",
			})
		}
	}
	return nil
}
