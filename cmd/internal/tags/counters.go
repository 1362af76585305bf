package tags

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/loadmsg"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// Change is the change of a tag or a template.
type Change struct {
	// Or a template's pattern.
	Tag string `json:"tag"`
	// The first ID that was not issued.
	Next int64 `json:"next,string"`
	// Next before the change; missing if the tag was created.
	Before   int64       `json:"before,string,omitempty"`
	Order    store.Order `json:"order,omitempty"`    // of an import
	Template bool        `json:"template,omitempty"` // a created template
	// The tag does not exist; if created, it would begin at Next.
	Removed bool `json:"removed,omitempty"`

	moved bool // to another store, not created
}

// String formats the change as a line.
func (c Change) String() string {
	order, created := "", "created"
	if c.Order == store.Strict {
		order = ", strict"
	}
	if c.moved {
		created = "moved"
	}
	switch {
	case c.Template:
		return fmt.Sprintf("created template %s%s", c.Tag, order)
	case c.Removed:
		return fmt.Sprintf("removed tag %s: can be created again with --first %d or above", c.Tag, c.Next)
	case c.Before == 0:
		return fmt.Sprintf("%s tag %s: next ID %d%s", created, c.Tag, c.Next, order)
	case c.Next == c.Before:
		return fmt.Sprintf("tag %s: next ID %d, unchanged%s", c.Tag, c.Next, order)
	}
	return fmt.Sprintf("tag %s: next ID %d, was %d%s", c.Tag, c.Next, c.Before, order)
}

// ErrLoadersRun means that a loader is connected, which would continue with the
// old store.
var ErrLoadersRun = problem.New(problem.LoadersRun, "loaders are running with the old store")

// SwitchStore imports a list of tags into another store, and makes it the
// installation's. Workers may run on, on their buffers. Loaders must not run; a
// loader that starts with the old store afterwards is refused. The list must be
// exported after the last loader ended.
func SwitchStore(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, to backend.Backend, list Listing, report func(Change)) error {
	agreed, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return err
	}
	runs, err := loaderRuns(ctx, js, prefix)
	switch {
	case err != nil:
		return fmt.Errorf("look for loaders: %w", err)
	case runs:
		return ErrLoadersRun
	}
	segments, err := to.Open(ctx, register.Config{JetStream: js, Prefix: prefix})
	if err != nil {
		return err
	}
	t := Tags{js, prefix, segments}
	defer t.Close()
	err = t.Import(ctx, list, func(c Change) {
		c.moved = true
		report(c)
	})
	if err != nil {
		return err
	}
	return agreed.SwitchStore(ctx, to.Name())
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
func loaderRuns(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (bool, error) {
	listens, err := worker.LoaderListens(ctx, js.Conn(), prefix)
	if err != nil || listens {
		return listens, err
	}
	consumer, err := js.Consumer(ctx, loadmsg.StreamName(prefix), worker.LoaderConsumer)
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
