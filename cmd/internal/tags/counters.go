package tags

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// Change is what became of one tag, or of a template.
type Change struct {
	Tag      string      `json:"tag"`                     // or the pattern of a template
	Next     int64       `json:"next,string"`             // the first ID that is not handed out
	Before   int64       `json:"before,string,omitempty"` // the same before; missing if it was made
	Order    store.Order `json:"order,omitempty"`         // if it was imported
	Template bool        `json:"template,omitempty"`      // it was made
	Removed  bool        `json:"removed,omitempty"`       // there is no such tag, but one that is created begins there

	moved bool // to another store, rather than made
}

// String is a line for people.
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
		return fmt.Sprintf("tag %s: next ID %d, as it was%s", c.Tag, c.Next, order)
	}
	return fmt.Sprintf("tag %s: next ID %d, was %d%s", c.Tag, c.Next, c.Before, order)
}

// MaxRaiseAll bounds by how much all tags may be raised at once, so that a slip
// of the keyboard does not use up tags that are not half used.
const MaxRaiseAll = 1 << 62

// RaiseAll skips the next n IDs of every tag, 1 to [MaxRaiseAll], and of every
// removed one, and reports each; see [register.Store.RaiseAll]. It is the end
// of each restore: loaders that had stopped go on. A register that is missing
// is created.
func RaiseAll(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend, n int64, report func(Change)) error {
	replicas := 1
	agreed, err := agreement.Open(ctx, js, prefix)
	if err == nil {
		replicas, err = agreed.Replicas(), agreed.CheckStore(ctx, source.Name())
	}
	if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	segments, err := source.Decide(ctx, register.Config{JetStream: js, Prefix: prefix}, replicas)
	if err != nil {
		return err
	}
	defer func() { _ = segments.Close() }() // all answers are in
	return segments.RaiseAll(ctx, n, func(tag store.Tag, before int64) {
		report(Change{Tag: tag.Name, Before: before, Next: tag.Next, Removed: tag.Step == 0})
	})
}

// RaiseFolder is [RaiseAll] for the data folder of an embedded server that does
// not run. The witness then takes the folder for what it is now. It returns the
// folder's path.
func RaiseFolder(ctx context.Context, at embedded.Config, prefix messages.Prefix, source backend.Backend, n int64, report func(Change)) (string, error) {
	at.Recover = true
	server, err := embedded.Start(ctx, at)
	if err != nil {
		return "", err
	}
	defer server.Stop()
	conn, js, err := server.Connect()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := checkPrefix(ctx, js, prefix); err != nil {
		return "", err
	}
	err = RaiseAll(ctx, js, prefix, source, n, report)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return "", err
	}
	return server.Folder(), errors.Join(err, server.Witness().Accept(ctx, js, prefix, backend.Beside(prefix)...))
}

// checkPrefix refuses a folder that holds registers of other prefixes only.
func checkPrefix(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) error {
	var others []string
	names := js.StreamNames(ctx)
	for name := range names.Name() {
		bucket, isBucket := strings.CutPrefix(name, kv.StreamName(""))
		other, isRegister := strings.CutSuffix(bucket, register.BucketName(""))
		switch {
		case bucket == register.BucketName(prefix) && isBucket:
			return nil
		case isBucket && isRegister:
			others = append(others, other)
		}
	}
	if err := names.Err(); err != nil || len(others) == 0 {
		return err
	}
	return fmt.Errorf("%w: the folder has no register of %s, but of %s", messages.ErrPrefix, prefix, strings.Join(others, ", "))
}

// ErrLoadersRun is the error if a loader is connected: it would continue with
// the old store.
var ErrLoadersRun = problem.New(problem.LoadersRun, "loaders are running, and would go on with the old store")

// SwitchStore imports a list of tags into another store than the installation
// counts in, and has it count there from then on. Workers may continue, and live
// on memory; loaders must not run, and those that are started with the old store
// afterwards are refused. The list must be an export that was made after the
// last loader had ended.
func SwitchStore(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, to backend.Backend, list List, report func(Change)) error {
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

// A loader that runs is between two pulls for less than betweenPulls looks. The
// server may have no way to a loader in another JetStream domain but the stream.
const (
	betweenPulls = 5
	lookAgain    = 200 * time.Millisecond
)

// loaderRuns reports whether a loader is connected, or the stream of load events
// has one. A paused loader is connected.
//
// A loader that has lost its connection may hold an event. It writes nothing for
// an event that it has held for AckWait, so loaderRuns waits until the last
// delivery is older. The number of unacknowledged events is no evidence: an
// event of a dead loader remains until it expires.
func loaderRuns(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (bool, error) {
	listens, err := worker.LoaderListens(ctx, js.Conn(), prefix)
	if err != nil || listens {
		return listens, err
	}
	consumer, err := js.Consumer(ctx, loads.StreamName(prefix), worker.LoaderConsumer)
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
