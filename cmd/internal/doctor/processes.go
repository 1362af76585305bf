package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
)

// Kind is a kind of process that is counted.
type Kind struct {
	Name  string        // singular
	Takes rights.Rights // to count them; if the user lacks them, they are not counted
	Count func(context.Context) (int, error)
	None  string // what follows if there is none

	// Wrong, where it is set, says what is wrong with those that run.
	Wrong func(context.Context) error
}

// Processes are the kinds of processes of an installation.
func Processes(conn *nats.Conn, js jetstream.JetStream, prefix messages.Prefix) []Kind {
	return []Kind{{
		Name: "worker", Takes: worker.CountWorkersRights(), None: "nobody answers requests",
		Count: func(ctx context.Context) (int, error) { return worker.CountWorkers(ctx, conn, prefix) },
	}, {
		Name: "loader", Takes: worker.CountLoadersRights(prefix), None: "nobody reserves segments",
		Count: func(ctx context.Context) (int, error) { return worker.CountLoaders(ctx, js, prefix) },
		Wrong: func(ctx context.Context) error { return findTroubled(ctx, conn, prefix) },
	}}
}

// ErrNone is wrapped by the warning that no process of a kind runs.
var ErrNone = errors.New("none is running")

var (
	// ErrStopped is wrapped by the finding that a loader grants nothing.
	ErrStopped = fmt.Errorf("it grants nothing: %w", store.ErrRegressed)

	// ErrOutage is wrapped by the finding that the store of a loader fails.
	ErrOutage = errors.New("its store fails")

	// ErrTroubled is wrapped by the warning that a process reports something wrong.
	ErrTroubled = errors.New("it reports")
)

// findTroubled asks processes what is wrong with them.
func findTroubled(ctx context.Context, conn *nats.Conn, prefix messages.Prefix) error {
	ctx, cancel := context.WithTimeout(ctx, reportsWithin)
	defer cancel()
	reports, err := worker.AskReports(ctx, conn, prefix, 0, nil)
	for _, r := range reports {
		who := fmt.Sprintf("%s %s (%s)", r.Role, r.Host, r.Instance)
		if r.Stopped != "" {
			return fmt.Errorf("%s: %w: %s", who, ErrStopped, strings.TrimPrefix(r.Stopped, store.ErrRegressed.Error()+": "))
		}
		if o := r.Outages; o != nil && o.Now {
			return fmt.Errorf("%s: %w: %s", who, ErrOutage, o.Error)
		}
		if text := cmp.Or(r.NotReady, r.Degraded); text != "" {
			err = fmt.Errorf("%s: %w: %s", who, ErrTroubled, text)
		}
	}
	return err
}

// examineProcesses counts what runs. A kind of which there is none may be about to be started.
// What the user may do is not known in every case; a question that is refused says nothing.
func (d *Doctor) examineProcesses(ctx context.Context, find func(Finding)) {
	for _, k := range d.Kinds {
		if d.allowed.check(k.Takes) != nil {
			continue
		}
		var n int
		err := d.ask(ctx, func(ctx context.Context) (err error) {
			n, err = k.Count(ctx)
			return err
		})
		if err != nil {
			continue // what is missing for it is a resource, or a right, and was reported
		}
		if n == 0 {
			err = fmt.Errorf("%w: %s", ErrNone, k.None)
		}
		find(Finding{What: k.Name + "s", Err: err, Warning: true, Good: fmt.Sprintf("%d running", n)})
		if k.Wrong == nil {
			continue
		}
		err = d.ask(ctx, k.Wrong)
		if outage := errors.Is(err, ErrOutage) || errors.Is(err, ErrStopped); outage || errors.Is(err, ErrTroubled) { // what is missing to ask was reported
			find(Finding{What: k.Name + "s", Err: err, Warning: !outage})
		}
	}
}
