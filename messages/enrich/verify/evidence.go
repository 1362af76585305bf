package verify

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

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

// compare finds the first thing in an event that this enrichment did not publish. The original is nil if
// the source has removed it.
func (w *walk) compare(original *streamread.Message, a arrival) (f Finding, wrong bool) {
	e, ok := readEvidence(a.Header)
	switch {
	case !ok:
		return a.finding(Foreign, "its header %s is not one that an enricher writes", enrich.HeaderChain), true
	case !e.isOf(w.report.Target):
		return a.finding(Foreign, "it was published for another target: %.100q", e.chain), true
	case original == nil:
		return w.v.checker.checkID(a)
	case !e.fits(*original):
		return a.finding(Unknown, "it was made of an event that was stored at %s, the source's was at %s",
			time.Unix(0, e.stored).UTC().Format(time.RFC3339Nano), original.Time.UTC().Format(time.RFC3339Nano)), true
	}
	if _, matches := matched(w.v.checker.template.filter, original.Subject); !matches {
		return a.finding(Foreign, "event %d of the source is on %q, which the filter does not match", a.origin, original.Subject), true
	}
	if f, wrong := w.v.checker.checkID(a); wrong {
		return f, true
	}
	return w.v.checker.compare(*original, a)
}
