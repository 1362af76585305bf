package recovery

import (
	"slices"
	"testing"
	"time"

	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// TestAsk: the floor of an earlier raise is found wherever it is left: in the
// register, in the config bucket, at a process, and in the witness of a folder,
// which also shows that the register has lost grants.
func TestAsk(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, options{alone: true, list: "order 10 1\n"})
	_, err := i.do(Wish{By: 1000})
	must(t, err)
	asks := func(at *Site, floor int64, of string) *Evidence {
		t.Helper()
		e, err := Ask(t.Context(), at, Wish{})
		must(t, err)
		if e.floor != (told[int64]{floor, of}) {
			t.Errorf("the floor is %+v, want %d of %s", e.floor, floor, of)
		}
		return e
	}
	if e := asks(i.Site, 1001, "the register"); e.wrong != "" || time.Since(e.newest.value) > time.Hour || len(e.clocks) < 2 {
		t.Errorf("%+v", e)
	}
	stop := report(t, i.js.Conn(), func() []worker.Report {
		r := process("w", worker.RoleWorker, 1005)
		r.Time, r.Stopped, r.Stats.Installation = time.Now(), "it regressed", i.id
		silent := process("v", worker.RoleWorker, 2000) // of an older version
		silent.Stats.Installation = i.id
		theirs := process("x", worker.RoleWorker, 3000)
		theirs.Time = time.Now()
		return []worker.Report{r, silent, theirs}
	})
	e := asks(i.Site, 1005, "process w on w1")
	if e.wrong != "process w on w1 grants nothing: it regressed" || !slices.Equal(e.silent, []string{"v (names no time)"}) || len(e.answered) != 2 {
		t.Errorf("beside processes: wrong %q, silent %q, %d answered", e.wrong, e.silent, len(e.answered))
	}
	stop()
	i.lose(register.BucketName(prefix))
	asks(i.Site, 1001, "bucket "+agreement.BucketName(prefix))
	i.delete(agreement.BucketName(prefix), agreement.FloorKey)
	asks(i.Site, 1, "the register")
	if e := asks(i.writer, 1001, "the witness"); e.wrong == "" || !e.found {
		t.Errorf("by the witness: %+v", e)
	}
}
