package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/loadmsg"
)

// An import brings the tags and then the templates of a list into the store. It
// creates missing tags, no lower than the store allows. It raises existing tags
// but never lowers them, and keeps their steps. Of an existing template it only
// raises the first ID.
//
// A list with a floor says that names which it does not have may have been used
// below, until the time of its decision. If the floor here is lower, or decided
// earlier, such an import is a raise: no loader grants until the floor is
// decided.

// decides reports whether the list has a floor that is to be decided here.
func (w Wish) decides(here register.Summary) bool {
	later := w.List.Floor > 1 && !here.Decided.IsZero() && w.List.Decided.After(here.Decided)
	return w.List.Floor > here.Floor || later
}

// decideImport decides whether an import is a raise, and refuses one that would let
// loaders go on without a raise of all tags.
func (p *Plan) decideImport() error {
	e := p.evidence
	if !p.wish.decides(e.state) {
		return nil
	}
	e.addTime("the latest decision in the list", p.wish.List.Decided)
	if err := e.checkClocks(); err != nil {
		return err
	}
	if fault := e.fault(); fault != "" {
		return fmt.Errorf("%w: %s", ErrRaiseFirst, fault)
	}
	p.Target = max(p.wish.List.Floor, store.Beyond(e.state.Floor, 1))
	return nil
}

// checkImport checks that the templates of a list fit those here, and that the
// register has no tags besides if the import is a raise: they may lack grants.
func (p *Plan) checkImport(ctx context.Context, i *Site, segments *backend.Segments) error {
	made, err := p.newTemplates(ctx, i)
	if err == nil && len(made) > 0 {
		err = segments.CheckFirst(ctx)
	}
	if err != nil || p.Target == 0 {
		return err
	}
	unlisted, err := segments.Unlisted(ctx, p.wish.List.Tags)
	if err == nil && unlisted > 0 {
		err = fmt.Errorf("%w: %d tags here are not in the list", ErrRaiseFirst, unlisted)
	}
	return err
}

// newTemplates returns the templates of the list that an import creates.
func (p *Plan) newTemplates(ctx context.Context, i *Site) (made templates.List, err error) {
	here, err := templates.Read(ctx, i.js, i.prefix)
	if err == nil {
		_, made, err = here.Join(p.wish.List.Templates)
	}
	return made, err
}

// importTemplates adds the templates of a list, once all its tags are there: until
// then none makes a tag that begins at 1.
func (p *Plan) importTemplates(ctx context.Context, i *Site, report func(tags.Change)) error {
	made, err := templates.Import(ctx, i.js, i.prefix, p.wish.List.Templates)
	reportTemplates(made, report)
	return err
}

func reportTemplates(made templates.List, report func(tags.Change)) {
	for _, template := range made {
		report(tags.Change{Tag: template.Pattern, Order: template.Order, Template: true})
	}
}

// Import imports a list: Ask, Make, Look and Apply in one, because it prompts for
// nothing. With dry it writes nothing, and reports what it would do.
func Import(ctx context.Context, i *Site, list tags.Listing, dry bool, report func(tags.Change)) error {
	wish := Wish{List: &list}
	evidence, err := Ask(ctx, i, wish)
	if err != nil {
		return err
	}
	plan, err := Make(evidence, wish)
	if err == nil {
		err = plan.Look(ctx, i)
	}
	if err != nil {
		return err
	}
	if dry {
		return plan.Changes(ctx, i, report)
	}
	_, err = Apply(ctx, i, plan, report)
	return err
}

// ErrLoadersRun means that a loader is connected, which would continue with the
// old store.
var ErrLoadersRun = problem.New(problem.LoadersRun, "loaders are running with the old store")

// SwitchStore imports a list of tags into another store, and makes it the
// installation's. Workers may run on, on their buffers. Loaders must not run; a
// loader that starts with the old store afterwards is refused. The list must be
// exported after the last loader ended.
func SwitchStore(ctx context.Context, i *Site, list tags.Listing, dry bool, report func(tags.Change)) error {
	agreed, err := agreement.Open(ctx, i.js, i.prefix)
	if err != nil {
		return err
	}
	runs, err := i.loaderRuns(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("look for loaders: %w", err)
	case runs:
		return ErrLoadersRun
	}
	moving := *i
	moving.moves = true
	if err := Import(ctx, &moving, list, dry, func(c tags.Change) {
		c.Moved = true
		report(c)
	}); err != nil || dry {
		return err
	}
	return agreed.SwitchStore(ctx, i.source.Name())
}

// A running loader is between two pulls for less than betweenPulls looks. In
// another JetStream domain, the stream may be the server's only way to a
// loader.
const (
	betweenPulls = 5
	lookAgain    = 200 * time.Millisecond
)

// loaderRuns reports whether a loader is connected, or the stream of load
// events has a loader. A paused loader is connected.
//
// A loader that has lost its connection may hold an event. It writes nothing
// for an event that it has held for AckWait, so loaderRuns waits until the last
// delivery is older. The number of unacknowledged events proves nothing: an
// event of a dead loader remains until it expires.
func (i *Site) loaderRuns(ctx context.Context) (bool, error) {
	listens, err := worker.LoaderListens(ctx, i.js.Conn(), i.prefix)
	if err != nil || listens {
		return listens, err
	}
	consumer, err := i.js.Consumer(ctx, loadmsg.StreamName(i.prefix), worker.LoaderConsumer)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for quiet := 0; quiet < betweenPulls; quiet++ {
		info, err := consumer.Info(ctx)
		if err != nil {
			return false, err
		}
		if info.NumWaiting > 0 {
			return true, nil
		}
		if last := info.Delivered.Last; info.NumAckPending > 0 && last != nil && info.TimeStamp.Sub(*last) < info.Config.AckWait {
			quiet = 0
		}
		pause.For(ctx, lookAgain)
	}
	return false, nil
}
