package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
)

// forgetRefresh is --tag-refresh in this test: tags that are missing are held for five of these.
const forgetRefresh = 2 * time.Second

// TestTableIsRestoredUnderLoad empties the table, drops it, and restores an old dump of it, while
// requests keep coming: tags with IDs in memory get IDs and nothing else, and each thing that
// happens is one error line.
func TestTableIsRestoredUnderLoad(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			testTableIsRestored(t, d)
		})
	}
}

// forgetting is a table that forgets, and the load meanwhile.
type forgetting struct {
	*testing.T
	database
	db     *dbtest.DB
	worker *process
	loads  []*steady
	dump   []string // rows, as at the start
}

func testTableIsRestored(t *testing.T, d database) {
	const step = 500
	tags := []string{"order", "invoice", "parcel", "basket"}
	var dump []string
	for _, tag := range tags {
		dump = append(dump, fmt.Sprintf("'%s', 1, %d", tag, step))
	}
	f := &forgetting{T: t, database: d, db: d.with(t, dump...), dump: dump}
	ns := natstest.Start(t)
	// Every segment has 500 IDs. That is more than a minute's worth of two of the tags, and a few
	// seconds' of the others, so that loads are under way all the time.
	f.worker = on(f.db.DSN()).startWorker(t, ns.URL(), "--tag-refresh", forgetRefresh.String(), "--max-step", "500", "--max-batch", "500")
	for i, tag := range tags {
		knownToAll(t, ns.URL(), tag, 1)
		f.loads = append(f.loads, startSteady(t, ns.URL(), tag, []int{150, 5}[i%2]))
	}
	f.noErrorsFor(2*time.Second, func(int) bool { return true })

	// Memory is empty at times for the tags with many requests: these get 503, which callers
	// try again. The others always have IDs.
	hasIDs := func(tag int) bool { return tag%2 == 1 }
	f.through("truncated", "TRUNCATE TABLE leaf_alloc", "tags are missing from the store", hasIDs)
	f.db.Exec(t, "DROP TABLE leaf_alloc")
	f.waitFor("the missing table is logged", func() bool { return f.worker.says("store fails") == 1 })
	f.noErrorsFor(2*forgetRefresh, hasIDs)
	f.db.Exec(t, f.Shapes["official"])
	insert(t, f.db, f.dump...)
	f.served("after the table was dropped and restored")

	for i, load := range f.loads {
		load.finish()
		load.ledger.check(t)
		for _, a := range load.since(0) {
			if a.err != nil && (!errors.Is(a.err, messages.ErrUnavailable) || i%2 == 1) {
				t.Fatalf("%s: %v", tags[i], a.err)
			}
		}
		ids, errs := split(load.since(0))
		t.Logf("%s: %d IDs, %d errors", tags[i], ids, errs)
	}
	for line, n := range f.worker.errorLines() {
		t.Logf("logged as error %d times: %s", n, line)
		most := 2 // two dumps were restored
		if strings.Contains(line, "gone back") || strings.Contains(line, "went back") {
			most *= len(tags)
		}
		if n > most {
			t.Errorf("%q was logged %d times, want %d at most", line, n, most)
		}
	}
}

// through has the table forget all, and brings the dump back before that is believed.
func (f *forgetting) through(name, forget, logged string, hasIDs func(tag int) bool) {
	f.Helper()
	f.db.Exec(f, forget)
	f.waitFor(name+" is logged", func() bool { return f.worker.says(logged) == 1 })
	f.noErrorsFor(2*forgetRefresh, hasIDs)
	insert(f, f.db, f.dump...)
	f.waitFor(name+": the tags are back", func() bool { return f.worker.says("no tags are held any more") == 1 })
	f.served(name)
}

func (f *forgetting) waitFor(what string, cond func() bool) {
	f.Helper()
	natstest.Eventually(f, readyWithin, what, cond)
}

// noErrorsFor lets requests come for some time. None gets 404, and tags that have IDs get
// nothing else.
func (f *forgetting) noErrorsFor(d time.Duration, hasIDs func(tag int) bool) {
	f.Helper()
	time.Sleep(d) // what must not happen
	for i, load := range f.loads {
		for _, a := range load.since(0) {
			if errors.Is(a.err, messages.ErrNoTag) || a.err != nil && hasIDs(i) {
				f.Fatalf("%s: %v", load.ledger.tag, a.err)
			}
		}
	}
}

// served waits until every tag has IDs again, after the store has been raised above what it had
// given away before.
func (f *forgetting) served(when string) {
	f.Helper()
	for _, load := range f.loads {
		from := load.count()
		f.waitFor(when+": "+load.ledger.tag+" is served", func() bool {
			answers := load.since(from)
			return len(answers) >= 20 && firstError(answers[len(answers)-20:]) < 0
		})
	}
}

// errorLines counts the messages that the process logged as errors.
func (p *process) errorLines() map[string]int {
	lines := make(map[string]int)
	for _, line := range logLine.FindAllStringSubmatch(p.stderr.String(), -1) {
		if line[1] == "error" {
			lines[line[2]]++
		}
	}
	return lines
}
