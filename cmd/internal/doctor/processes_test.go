package doctor

import (
	"errors"
	"testing"

	"github.com/idworker/idworker/worker"
)

// TestProcesses: doctor warns of a role without a process, and fails if a loader
// grants nothing; other troubles that processes report are warnings.
func TestProcesses(t *testing.T) {
	w, l := worker.Report{Role: worker.RoleWorker}, worker.Report{Role: worker.RoleLoader}
	degraded, failing, stopped := w, l, l
	degraded.Degraded = "no loader answers"
	failing.Outages = &worker.OutageStats{Now: true, Error: "refused"}
	stopped.Stopped = "the register went back"
	for _, c := range []struct {
		reports []worker.Report
		err     error // of what is found
		warning bool
	}{
		{[]worker.Report{w, l}, nil, false},
		{[]worker.Report{{Role: worker.RoleAll}}, nil, false},
		{[]worker.Report{w}, ErrNone, true},
		{[]worker.Report{l}, ErrNone, true},
		{[]worker.Report{degraded, l}, ErrTroubled, true},
		{[]worker.Report{degraded, failing, w}, ErrOutage, false},
		{[]worker.Report{w, stopped, degraded}, ErrStopped, false},
	} {
		var wrong []Finding
		findProcesses(c.reports, func(f Finding) {
			if f.Err != nil {
				wrong = append(wrong, f)
			}
		})
		switch {
		case c.err == nil && len(wrong) > 0, c.err != nil && len(wrong) != 1:
			t.Errorf("%+v: found %v, want %v", c.reports, wrong, c.err)
		case c.err != nil && (!errors.Is(wrong[0].Err, c.err) || wrong[0].Warning != c.warning):
			t.Errorf("%+v: found %+v, want %v, a warning: %t", c.reports, wrong[0], c.err, c.warning)
		}
	}
}
