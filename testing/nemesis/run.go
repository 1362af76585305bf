package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
)

// Run is a run of the nemesis.
type Run struct {
	Seed     uint64
	Store    string
	Duration time.Duration
	Outage   time.Duration  // declared; if set, the schedule is [Outages]
	Only     *regexp.Regexp // kinds of faults by name
	Sync     string         // sync_interval of the servers
	Product  string         // folder of another version's source; empty: this one's
	T        testing.TB     // whose databases they are
	Say      func(format string, args ...any)

	began  time.Time
	work   string // removed at the end
	folder string // kept after a violation
	cast
	trail
	loss
}

// errSelected: no fault is selected that begins by itself.
var errSelected = errors.New("FAULTS selects no fault that begins by itself")

// now is the time since the run began.
func (r *Run) now() time.Duration { return time.Since(r.began) }

// Execute runs everything. The error is about the run; the checker has the
// violations.
func (r *Run) Execute(ctx context.Context) error {
	if r.Outage == 0 && len(kindsFor(r.Store, r.Only)) == 0 {
		return fmt.Errorf("%w: %s", errSelected, r.Only)
	}
	r.figures.awaited = recovering
	if r.lazy() {
		r.figures.awaited = slices.DeleteFunc(slices.Clone(recovering), func(k Kind) bool { return k == Event })
	}
	r.Say("building")
	r.build()
	r.startDatabase()
	defer r.close()
	r.Say("starting")
	r.start()
	asking, stopAsking := context.WithCancel(ctx)
	defer stopAsking()
	checking, stopChecking := context.WithCancel(context.Background())
	defer stopChecking()
	events := r.startEvents(asking)
	r.startEnrichers()
	var background sync.WaitGroup
	background.Go(func() { r.checkAll(checking) })
	background.Go(func() { r.cluster.watch(checking) })
	reading, stopReading := context.WithCancel(context.Background())
	defer stopReading()
	if !r.lazy() {
		background.Go(func() { events.read(reading) })
	}
	callers := r.startCallers(asking)
	events.start()
	err := natstest.Await(patient, "all kinds of callers to be answered", r.served)
	if err == nil {
		err = errors.Join(r.cluster.flush(), r.inject(ctx))
	}
	stopAsking()
	callers.finish()
	events.wg.Wait()
	cutShort := ctx.Err() != nil && r.lost.Load() // in a loss, about which nobody has decided
	if !r.lazy() && !cutShort {
		events.finish()
	}
	stopReading()
	stopChecking()
	background.Wait()
	if err == nil && !cutShort {
		r.inTheEnd(events)
	}
	return errors.Join(err, r.history.Close())
}

// lazy reports whether the servers confirm writes before they are on disk. Then
// a power cut loses events as well, which nothing here protects.
func (r *Run) lazy() bool { return r.Sync != "always" }

// served returns nil when each kind of caller was answered.
func (r *Run) served() error {
	r.figures.mu.Lock()
	defer r.figures.mu.Unlock()
	for _, k := range r.figures.awaited {
		if t := r.figures.kinds[k]; t == nil || t.calls == t.failed {
			return fmt.Errorf("%w: %s", errUnserved, k)
		}
	}
	return nil
}

var errUnserved = errors.New("not answered")

// inTheEnd compares the final states.
func (r *Run) inTheEnd(e *eventCheck) {
	if !r.lazy() {
		if _, err := r.idworker("enrich", "verify", "--from", sourceStream, "--filter", "orders.raw.*", "--to", "orders.ready.*", "--json", "id"); err != nil {
			r.checker.Violation("enrich verify: %v", err)
		}
	}
	r.compareStore()
	for name := range r.programs {
		text, _ := os.ReadFile(filepath.Join(r.folder, name+".log"))
		for _, bad := range []string{"DATA RACE", "\npanic: ", "\nfatal error: "} {
			if strings.Contains(string(text), bad) {
				r.checker.Violation("%s: %s in its log", strings.TrimSpace(bad), name)
			}
		}
	}
	r.checker.events = int64(e.seen())
}

// rowLost is the error about a tag whose row a failover has lost, because it was
// inserted shortly before. Nothing is granted of such a tag until an operator
// decides, so it breaks no promise.
const rowLost = "row missing from the table"

// compareStore checks that the store goes on above every ID of every tag that it
// lists.
func (r *Run) compareStore() {
	var list string
	err := natstest.Await(patient, "tag export", func() (err error) {
		list, err = r.idworker("tag", "export")
		if err != nil && strings.Contains(err.Error(), lagging) {
			r.emptyStray(context.Background())
		}
		if err != nil && strings.Contains(err.Error(), rowLost) {
			return nil
		}
		return err
	})
	if err != nil {
		r.checker.Violation("%v", err)
		return
	}
	found := 0
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		next, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			continue
		}
		found++
		if highest := r.checker.Highest(fields[0]); highest >= next {
			r.checker.Violation("STORE: ID %d of %s was handed out, but the store begins at %d", highest, fields[0], next)
		}
	}
	if found == 0 {
		r.checker.Violation("tag export lists nothing:\n%s", list)
	}
}
