package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idworker/idworker/worker"
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
	findProcesses(now, reports, find)
	findRunningOut(usesOf(reports), now, find)
	for _, r := range reports {
		if unlisted := r.Stats.Active - len(r.Stats.Tags); unlisted > 0 {
			find(Finding{What: "numbers of tags", Good: fmt.Sprintf("each worker reports its %d busiest tags; %s has %d more", worker.MaxReportTags, r.Instance, unlisted)})
			return
		}
	}
}

// findProcesses reports how many processes of each role run, and what [Judge]
// finds wrong with them.
func findProcesses(now time.Time, reports []worker.Report, find func(Finding)) {
	workers, loaders := count(reports)
	if workers > 0 {
		find(Finding{What: "workers", Good: fmt.Sprintf("%d running", workers)})
	}
	if loaders > 0 {
		find(Finding{What: "loaders", Good: fmt.Sprintf("%d running", loaders)})
	}
	for _, t := range Judge(now, reports) {
		find(Finding{What: t.What, Err: errors.New(t.Text), Warning: t.Severity == Warning})
	}
}
