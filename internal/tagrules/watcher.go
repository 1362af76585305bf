package tagrules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
)

// Watcher follows the rules of an installation. [Watcher.Start] reads them, [Watcher.Run] goes on.
type Watcher struct {
	*Rules
	js     jetstream.JetStream
	prefix messages.Prefix
	log    *zap.Logger

	// Changed is called when rules have changed, if it is set: with the tag whose own order has, or
	// with "" if templates have. Lookup has the change already, Revision has not. It is called from
	// Start and Run, one at a time, and is to be set before.
	Changed func(tag string)

	observers []func(tag string)

	before   *tree                       // of the templates before they have changed
	latest   map[string]kvwatch.Position // of the rules that count, by key; a bucket may go back
	revision atomic.Uint64
	at       kvwatch.Position
	feed     *kvwatch.Feed // from Start to Run
}

// NewWatcher makes a watcher. Before Start there are no rules, and Revision is 0.
func NewWatcher(js jetstream.JetStream, prefix messages.Prefix, log *zap.Logger) *Watcher {
	return &Watcher{Rules: newRules(), js: js, prefix: prefix, log: log, latest: make(map[string]kvwatch.Position)}
}

// Observe has f called as Changed is, and before it. It is to be called before Start.
func (w *Watcher) Observe(f func(tag string)) { w.observers = append(w.observers, f) }

func (w *Watcher) tell(tag string) {
	for _, observe := range w.observers {
		observe(tag)
	}
	if w.Changed != nil {
		w.Changed(tag)
	}
}

// Redecided reports whether the templates' latest change has changed by which of them a tag is strict, or
// that it is: what was granted before must not be answered any more. It is for use in Changed.
func (w *Watcher) Redecided(tag string) bool {
	if _, own := w.Own(tag); own {
		return false
	}
	return !w.trees.Load().living.find(tag).decidesAs(w.before.find(tag))
}

// watchAgain is the pause before a watch that broke off is opened again.
const watchAgain = 500 * time.Millisecond

// Revision is up to which revision of the bucket the rules were read and acted upon. It goes back
// only if the bucket did.
func (w *Watcher) Revision() uint64 { return w.revision.Load() }

// Start returns when all rules are read that had been written before it was called, whichever
// replica they come from. Run has to be called next, or Close.
func (w *Watcher) Start(ctx context.Context) error {
	latest, err := latestRevision(ctx, w.js, w.prefix)
	if err == nil {
		err = w.open(ctx)
	}
	for err == nil && (!w.feed.CaughtUp() || w.Revision() < latest) {
		err = w.next(ctx)
	}
	if err != nil {
		w.Close()
		return fmt.Errorf("read the rules of tags: %w", err)
	}
	return nil
}

// CatchUp returns when all rules are acted upon that had been written before it was called. Run has to
// run meanwhile.
//
// A process does this once it can be seen that it takes part, and before it answers. Whoever writes a
// rule looks afterwards who takes part: either it finds the process and waits for it, or the process
// finds the rule.
func (w *Watcher) CatchUp(ctx context.Context) error {
	latest, err := latestRevision(ctx, w.js, w.prefix)
	for err == nil && w.Revision() < latest {
		pause.For(ctx, catchUpLook)
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("catch up with the rules of tags: %w", err)
	}
	return nil
}

// catchUpLook is how often it is looked whether rules have come.
const catchUpLook = 10 * time.Millisecond

// Close is for a watcher that was started and is not to run.
func (w *Watcher) Close() {
	if w.feed != nil {
		w.feed.Close()
		w.feed = nil
	}
}

// Run follows the rules until ctx ends. While they cannot be read, those that were read before stay.
func (w *Watcher) Run(ctx context.Context) {
	defer w.Close()
	failing := false
	for ctx.Err() == nil {
		err := w.follow(ctx, func() {
			if failing {
				w.log.Info("rules of tags are watched again")
			}
			failing = false
		})
		w.Close()
		switch {
		case errors.Is(err, kvwatch.ErrOther):
			w.at = kvwatch.Position{} // the bucket is read from its beginning
			continue
		case ctx.Err() == nil && !failing && !errors.Is(err, kvwatch.ErrEnded):
			w.log.Warn("rules of tags cannot be watched, trying again", zap.Error(err))
			failing = true
		}
		pause.For(ctx, watchAgain)
	}
}

func (w *Watcher) follow(ctx context.Context, current func()) error {
	if err := w.open(ctx); err != nil {
		return err
	}
	for {
		if w.feed.CaughtUp() {
			current()
		}
		if err := w.next(ctx); err != nil {
			return err
		}
	}
}

// open opens the feed, unless Start has.
func (w *Watcher) open(ctx context.Context) error {
	if w.feed != nil {
		return nil
	}
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	feed, err := kvwatch.OpenFeed(opening, w.js, agreement.BucketName(w.prefix), w.at)
	if err == nil {
		w.feed = feed
	}
	return err
}

// openTimeout bounds how long the server may take to begin.
const openTimeout = 5 * time.Second

// next reads the next entry and acts on it.
func (w *Watcher) next(ctx context.Context) error {
	entry, err := w.feed.Next(ctx)
	if err != nil {
		return err
	}
	w.apply(entry)
	w.at = entry.Position
	w.revision.Store(entry.Revision)
	return nil
}

// apply takes in an entry. One that cannot be read is logged, and what was known before stays.
func (w *Watcher) apply(entry kvwatch.Entry) {
	tag := orderTag(entry.Key)
	var changed bool
	var err error
	old := w.isOlder(entry)
	switch {
	case tag != "":
		changed, err = w.applyOrder(tag, entry, old)
	case entry.Key == templatesKey && !entry.Deleted:
		changed, err = true, w.applyTemplates(entry.Value, old)
	}
	if err != nil {
		w.log.Error("a rule of tags cannot be read; what was known before stays",
			zap.String("bucket", agreement.BucketName(w.prefix)), zap.String("key", strings.Clone(entry.Key)), zap.Error(err))
		return
	}
	if !old {
		w.latest[strings.Clone(entry.Key)] = entry.Position
	}
	if changed {
		w.tell(tag)
	}
}

// isOlder reports whether an entry is not later than what was read of its key: the bucket went back, as by
// a restore, and is read from its beginning. What is written there afterwards may have the same
// revisions, but has later times.
func (w *Watcher) isOlder(entry kvwatch.Entry) bool {
	have, found := w.latest[entry.Key]
	if !found || entry.Revision > have.Revision || entry.Created.After(have.Created) {
		return false
	}
	if entry.Position != have {
		w.log.Warn("a rule of tags is older than the one that was read before: the bucket went back. What was strict stays strict until it is written again",
			zap.String("bucket", agreement.BucketName(w.prefix)), zap.String("key", strings.Clone(entry.Key)))
	}
	return true
}

// applyOrder takes in the order of a tag. An old one counts only if it is strict.
func (r *Rules) applyOrder(tag string, entry kvwatch.Entry, old bool) (changed bool, err error) {
	had, _ := r.orders.Load(tag)
	order := Order(entry.Value)
	switch {
	case old && (entry.Deleted || order != Strict || had == Strict):
		return false, nil
	case entry.Deleted:
		return r.setOrder(tag, ""), nil
	}
	if err := order.Check(); err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	r.setOrder(tag, order)
	return true, nil
}

// applyTemplates takes in a list of templates.
func (w *Watcher) applyTemplates(value []byte, old bool) error {
	all, err := decodeTemplates(value)
	if err != nil {
		return err
	}
	have := w.trees.Load()
	if old {
		all = have.all.keepFrom(all)
	}
	w.before = have.living
	w.setTemplates(all)
	return nil
}

// latestRevision is that of the bucket's latest entry, as its leader has it.
func latestRevision(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (uint64, error) {
	m, err := leader.Last(ctx, js, resource.BucketStream(agreement.BucketName(prefix)), ">")
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	return m.Sequence, err
}
