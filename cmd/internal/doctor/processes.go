package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
)

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

// examineProcesses reports which processes run, what is wrong with them, and
// which limits they come near to. If the user lacks the right to list them, it
// reports nothing of them.
func (d *Doctor) examineProcesses(ctx context.Context, find func(Finding)) {
	if !d.Processes {
		return
	}
	now := time.Now()
	d.examineLayoutEnd(ctx, now, find)
	if d.allowed.check(worker.AskReportsRights()) != nil {
		return
	}
	var reports []worker.Report
	err := d.ask(ctx, func(ctx context.Context) (err error) {
		reports, err = worker.AskReports(ctx, d.Conn, d.Prefix, nil)
		return err
	})
	if errors.Is(err, worker.ErrNoReports) {
		find(Finding{What: "processes", Err: err, Warning: true})
	}
	if err != nil {
		return // a right that is missing
	}
	findProcesses(reports, find)
	findRunningOut(usesOf(reports), now, find)
	for _, r := range reports {
		if unlisted := r.Stats.Active - len(r.Stats.Tags); unlisted > 0 {
			find(Finding{What: "numbers of tags", Good: fmt.Sprintf("each worker reports its %d busiest tags; %s has %d more", worker.MaxReportTags, r.Instance, unlisted)})
			return
		}
	}
}

// findProcesses reports how many processes run. A kind without a process may be
// about to be started.
func findProcesses(reports []worker.Report, find func(Finding)) {
	var workers, loaders int
	for _, r := range reports {
		if r.Answers() {
			workers++
		}
		if r.Loads() {
			loaders++
		}
	}
	for _, kind := range []struct {
		name, none string
		running    int
	}{
		{"workers", "nobody answers requests", workers},
		{"loaders", "nobody reserves segments", loaders},
	} {
		var err error
		if kind.running == 0 {
			err = fmt.Errorf("%w: %s", ErrNone, kind.none)
		}
		find(Finding{What: kind.name, Err: err, Warning: true, Good: fmt.Sprintf("%d running", kind.running)})
	}
	if err := worstTrouble(reports); err != nil {
		find(Finding{What: "loaders", Err: err, Warning: errors.Is(err, ErrTroubled)})
	}
}

// worstTrouble returns what keeps a loader from granting, else what any process
// reports as wrong.
func worstTrouble(reports []worker.Report) (err error) {
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
