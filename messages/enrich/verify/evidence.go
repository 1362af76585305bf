package verify

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages/enrich"
)

// evidence is what a message says about the event that it was made of.
type evidence struct {
	chain  string // with the name of the target
	stored int64  // when the source stored the event, in nanoseconds
}

// readEvidence is that of a message. Older versions wrote none. ok is false if it is none.
func readEvidence(h nats.Header) (e evidence, ok bool) {
	values := headerValues(h, enrich.HeaderChain)
	if len(values) == 0 {
		return evidence{}, true
	}
	i := strings.LastIndexByte(values[0], ' ')
	if i <= 0 || len(values) > 1 {
		return evidence{}, false
	}
	ns, err := strconv.ParseInt(values[0][i+1:], 10, 64)
	return evidence{values[0][:i], ns}, err == nil && ns != 0
}

// isOf reports whether an enrichment with that target may have published the message.
func (e evidence) isOf(target string) bool {
	return e.chain == "" || strings.HasPrefix(e.chain, target+" ")
}

// fits reports whether the message may have been made of an event.
func (e evidence) fits(original streamread.Message) bool {
	return e.stored == 0 || e.stored == original.Time.UnixNano()
}

// chains are the chains that have published to the target. There is one at a time: it has
// another one after an operator decided how far the enrichment is.
type chains struct {
	latest string
	ended  map[string]bool
}

// next takes the chain of the next event in order, and reports whether it may be there.
func (c *chains) next(chain string) bool {
	switch {
	case chain == "" || chain == c.latest:
		return true
	case c.ended[chain]:
		return false
	}
	c.ended[c.latest], c.latest = true, chain
	return true
}

// checkEvidence makes findings of events that this enrichment did not publish.
func (w *walk) checkEvidence(a arrival) {
	e, ok := readEvidence(a.Header)
	switch {
	case !ok:
		w.report.add(a.finding(Foreign, "its header %s is not one that an enricher writes", enrich.HeaderChain))
	case !e.isOf(w.report.Target):
		w.report.add(a.finding(Foreign, "it was published for another target: %.100q", e.chain))
	case !w.chains.next(e.chain):
		w.report.add(a.finding(Foreign, "two enrichments write to this target: %q had ended when %q began", e.chain, w.chains.latest))
	}
}

// isStrange makes a finding of an event that was made of another one than the source has at
// its sequence. Whether the source has one there is known without asking if it is the next.
func (w *walk) isStrange(ctx context.Context, a arrival) (bool, error) {
	e, ok := readEvidence(a.Header)
	if !ok || e.stored == 0 {
		return false, nil
	}
	original := w.ahead
	if original == nil || original.Sequence != a.origin {
		msg, err := leader.At(ctx, w.js, w.v.enrichment.From, a.origin)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		original = &msg
	}
	if e.fits(*original) {
		return false, nil
	}
	w.addID(a)
	w.report.add(a.finding(Unknown, "it was made of an event that was stored at %s, the source's was at %s",
		time.Unix(0, e.stored).UTC().Format(time.RFC3339Nano), original.Time.UTC().Format(time.RFC3339Nano)))
	return true, nil
}
