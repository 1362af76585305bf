package recovery

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
)

// Survey is what will become of the tags.
type Survey struct {
	Tags, Removed int

	Past31    Named    // tags raised from below 2^31 to above
	Past53    Named    // tags raised above 2^53
	Above     Named    // tags at or above the target before the raise
	UsedUp    Named    // tags without IDs left
	Forgotten Named    // tags that workers hold, and that the register lacks
	Claimed   Named    // tags far above all that is stored, by a process alone, which is named
	Others    Named    // rows whose names are not those of tags, quoted
	Unmatched []string // patterns without a tag

	// Of a restore: tags of the backup without an entry, without a row, with an
	// entry below the backup, and those that will be strict again. Trend are tags
	// that are strict here, and were not: they stay so.
	Missing, Rowless, Lower, Strict Named
	Trend                           []string

	narrow Named // tags that the table's column cannot hold
}

// Named counts tags, and names the first of them.
type Named struct {
	Count int
	Names []string
}

// maxNamed bounds the names of [Named].
const maxNamed = 3

// Add counts a tag.
func (n *Named) Add(tag string) {
	if n.Count++; len(n.Names) < maxNamed {
		n.Names = append(n.Names, strings.Clone(tag))
	}
}

// NamedOf counts the names of a list.
func NamedOf(list []string) (n Named) {
	for _, name := range list {
		n.Add(name)
	}
	return n
}

// String lists the tags.
func (n Named) String() string {
	text := strings.Join(n.Names, ", ")
	if more := n.Count - len(n.Names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Look visits the tags, and counts what will become of them. It writes nothing.
// Errors: [ErrTooNarrow], and durability.ErrUnsafe if the register cannot be
// opened; of an import also store.ErrOrder, [ErrRaiseFirst] and those of templates.
func (p *Plan) Look(ctx context.Context, i *Site) error {
	segments, err := p.survey(ctx, i)
	if err != nil {
		return err
	}
	defer func() { _ = segments.Close() }() // nothing was written
	limit := int64(0)
	if segments.Database != nil {
		if limit, err = segments.Database.Limit(ctx); err != nil {
			return err
		}
	}
	p.Survey = Survey{}
	matched := make([]bool, len(p.wish.Lifts))
	err = segments.Preview(ctx, p.rule(p.Target), func(c register.Effect) {
		p.count(c, limit)
		for i, l := range p.wish.Lifts {
			matched[i] = matched[i] || subject.Covers(l.Pattern, c.Name)
		}
	})
	if order, ok := errors.AsType[*store.OrderError](err); ok {
		return order // names the tag
	}
	if err != nil && (p.wish.List != nil || !errors.Is(err, store.ErrCorrupt)) {
		return err
	}
	others, err := segments.Others(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	for _, row := range others {
		p.Survey.Others.Add(fmt.Sprintf("%.140q", row.Name))
	}
	for i, l := range p.wish.Lifts {
		if !matched[i] {
			p.Survey.Unmatched = append(p.Survey.Unmatched, l.Pattern)
		}
	}
	if narrow := p.Survey.narrow; narrow.Count > 0 {
		remedy := "make it BIGINT"
		if p.wish.List == nil {
			remedy += ", or raise those tags by a number: idworker tag raise --all 'PATTERN=N'"
		}
		return fmt.Errorf("%w: it ends at %d, and %s would pass that; %s", ErrTooNarrow, limit, narrow, remedy)
	}
	if p.wish.List != nil {
		return p.checkImport(ctx, i, segments)
	}
	return nil
}

// survey opens the store to read. Nothing may be written to one that the
// installation does not have, and nothing is imported into a register that
// grants nothing.
func (p *Plan) survey(ctx context.Context, i *Site) (*backend.Segments, error) {
	agreed, err := agreement.Open(ctx, i.js, i.prefix)
	if err == nil && !i.moves {
		err = agreed.CheckStore(ctx, i.source.Name())
	}
	if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, err
	}
	config := register.Config{JetStream: i.js, Prefix: i.prefix}
	if p.wish.List == nil {
		return i.source.Survey(ctx, config)
	}
	segments, err := i.source.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := segments.Stopped(); err != nil {
		return nil, errors.Join(err, segments.Close())
	}
	return segments, nil
}

// count counts a tag. The limit is that of a table's column, or 0.
func (p *Plan) count(c register.Effect, limit int64) {
	s, before := &p.Survey, beforeOf(c)
	if c.Step == 0 {
		s.Removed++
	} else {
		s.Tags++
	}
	if before < 1<<31 && c.Next > 1<<31 {
		s.Past31.Add(c.Name)
	}
	if before < 1<<53 && c.Next > 1<<53 {
		s.Past53.Add(c.Name)
	}
	stored, held := before, p.raise.Held[c.Name]
	if c.Listed != nil {
		stored = max(stored, c.Listed.Next)
	}
	if held > 0 && held > p.evidence.plausible(stored) {
		s.Claimed.Add(fmt.Sprintf("%s up to %d by %s", c.Name, held, p.evidence.held[c.Name].of))
	}
	known := max(stored, held)
	if !p.counts() && known >= p.Target {
		s.Above.Add(c.Name)
	}
	if c.Next == store.Beyond(c.Next, 1) {
		s.UsedUp.Add(c.Name)
	}
	if limit > 0 && c.Next > limit && c.Step > 0 {
		s.narrow.Add(c.Name)
	}
	if c.Forgotten {
		s.Forgotten.Add(c.Name)
	}
	switch {
	case c.Listed == nil:
		return
	case c.Entry == 0:
		s.Missing.Add(c.Name)
	}
	if c.Rowless {
		s.Rowless.Add(c.Name)
	}
	if c.Entry > 0 && c.Entry < c.Listed.Next {
		s.Lower.Add(c.Name)
	}
	switch {
	case c.Entry == 0 || c.WasOrder == c.Listed.Order:
	case c.Listed.Order == store.Strict:
		s.Strict.Add(c.Name)
	default:
		s.Trend = append(s.Trend, strings.Clone(c.Name))
	}
}

// beforeOf returns the next ID of a tag before: of one that is put back, that of
// the list.
func beforeOf(c register.Effect) int64 {
	if c.Before == 0 && c.Listed != nil {
		return c.Listed.Next
	}
	return c.Before
}

// Changes passes what Apply would report to visit, if it began now.
func (p *Plan) Changes(ctx context.Context, i *Site, visit func(tags.Change)) error {
	segments, err := p.survey(ctx, i)
	if err != nil {
		return err
	}
	defer func() { _ = segments.Close() }() // nothing was written
	err = segments.Preview(ctx, p.rule(p.Target), func(c register.Effect) {
		c.Name = strings.Clone(c.Name)
		visit(p.changeOf(c))
	})
	if err != nil || p.wish.List == nil {
		return err
	}
	made, err := p.newTemplates(ctx, i)
	reportTemplates(made, visit)
	return err
}

// changeOf returns the report about a tag.
func (p *Plan) changeOf(c register.Effect) tags.Change {
	change := tags.Change{Tag: c.Name, Before: c.Before, Next: c.Next, Removed: c.Step == 0}
	if p.wish.List != nil {
		change.Order = c.Order
	} else {
		change.Before = beforeOf(c)
	}
	return change
}
