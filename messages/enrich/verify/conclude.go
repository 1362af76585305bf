package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/streamread"
)

// conclude makes findings of what is missing and of IDs that are shared, and names the second
// of two events.
func (w *walk) conclude(ctx context.Context) error {
	w.report.Gone = w.gone.count()
	w.findMissing(ctx)
	shared := w.ids.shared()
	if len(shared.ranges) > 0 || w.report.Faults[Doubled] > 0 {
		if err := w.findPairs(ctx, shared); err != nil {
			return err
		}
	}
	w.report.sort()
	return nil
}

// findMissing makes findings of the missing events.
func (w *walk) findMissing(ctx context.Context) {
	for _, s := range w.missing {
		for seq := s.first; seq <= s.last; seq++ {
			if w.report.Faults[Missing] == MaxFindings {
				break
			}
			f := Finding{Kind: Missing, Source: seq, Target: s.before, Detail: "it is neither before that message nor among the dead letters"}
			if msg, err := streamread.At(ctx, w.js, w.v.enrichment.From, seq); err == nil {
				f.Subject = msg.Subject
			}
			w.report.add(f)
		}
	}
	if n := w.missing.count(); n > 0 {
		w.report.Faults[Missing] = n
	}
}

// findPairs reads the target again, for the first of two events.
func (w *walk) findPairs(ctx context.Context, shared sharedIDs) error {
	again := w.v.read(w.v.target, "", 1, w.end)
	defer again.Close()
	p := pairs{walk: w, shared: shared, first: make(map[idOfTag]place), doubled: make(map[uint64][]int)}
	for i, f := range w.report.Findings {
		if f.Kind == Doubled {
			p.doubled[f.Source] = append(p.doubled[f.Source], i)
		}
	}
	for {
		msg, err := again.Next(ctx)
		if errors.Is(err, io.EOF) {
			p.countUnseen()
			p.acquit()
			return nil
		}
		if err != nil {
			return err
		}
		if seq, ok := origin(w.v.enrichment.From, msg.Header); ok && seq <= w.report.Point {
			if err := p.receive(ctx, newArrival(msg, seq)); err != nil {
				return err
			}
		}
	}
}

// pairs looks for the first of two events.
type pairs struct {
	*walk
	shared  sharedIDs
	first   map[idOfTag]place // where the shared IDs are
	again   uint64            // how many of them were seen a second time
	doubled map[uint64][]int  // source sequences, and which findings are about them
}

type idOfTag struct {
	tag string
	id  int64
}

type place struct {
	target, origin uint64
	again          bool // it was seen a second time
}

func (p *pairs) receive(ctx context.Context, a arrival) error {
	for _, i := range p.doubled[a.origin] {
		if f := &p.report.Findings[i]; f.Other == 0 && a.Sequence < f.Target {
			f.Other, f.IDs = a.Sequence, slices.Concat(a.ids, f.IDs)
			f.Detail = fmt.Sprintf("it is at %d of the target already", a.Sequence)
		}
	}
	if a.id == 0 {
		return nil
	}
	tag, known, err := p.tagOf(ctx, a)
	if err != nil || !known || !p.shared.has(tag, a.id) {
		return err
	}
	p.receiveShared(idOfTag{tag, a.id}, a)
	return nil
}

// tagOf is the tag of an event, by its subject in the target or else in the source. Only
// events that may share their ID are looked up there.
func (p *pairs) tagOf(ctx context.Context, a arrival) (tag string, known bool, err error) {
	if tag, known = p.v.checker.template.tagOf(a.Subject); known || !p.shared.hasOfAny(a.id) {
		return tag, known, nil
	}
	msg, err := streamread.At(ctx, p.js, p.v.enrichment.From, a.origin)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return "", false, nil
	}
	return p.v.checker.template.tagFor(msg.Subject), err == nil, err
}

// receiveShared takes an event that shares its ID.
func (p *pairs) receiveShared(key idOfTag, a arrival) {
	first, seen := p.first[key]
	if !seen {
		p.first[key] = place{target: a.Sequence, origin: a.origin}
		return
	}
	if !first.again {
		p.again++
		first.again = true
		p.first[key] = first
	}
	if first.origin == a.origin { // the same event again, which is another finding
		return
	}
	f := a.finding(SharedID, "event %d of the source, at %d of the target, has the same ID", first.origin, first.target)
	f.Other = first.target
	p.report.add(f)
}

// acquit corrects findings of events that are in the target once: their originals are gone from
// the source, so that nobody missed them where they belong.
func (p *pairs) acquit() {
	faults := p.report.Faults
	for i := range p.report.Findings {
		if f := &p.report.Findings[i]; f.Kind == Doubled && f.Other == 0 {
			f.Kind, f.Detail = Order, "an event that follows it in the source is before it"
			faults[Doubled]--
			faults[Order]++
		}
	}
	if faults[Doubled] == 0 {
		delete(faults, Doubled)
	}
}

// countUnseen makes a finding of shared IDs whose events cannot be named any more.
func (p *pairs) countUnseen() {
	if n := p.shared.count(); n > p.again {
		p.report.add(Finding{Kind: SharedID, Detail: fmt.Sprintf("%d IDs are on two events each, of which the target has removed one meanwhile", n-p.again)})
	}
}
