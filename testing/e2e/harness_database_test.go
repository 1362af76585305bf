package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
)

// database is one sort of database, with Leaf's table in it.
type database struct {
	leaftest.Dialect
	name  string
	find  func(testing.TB) *dbtest.DB     // empty, on a shared server
	start func(testing.TB) *dbtest.Server // the test's own
	raise string                          // part of the statement that reserves
	local func(testing.TB) *dbtest.Local  // the test's own, on this machine
	pair  func(testing.TB) *dbtest.Pair   // two of them, one of which is the other's replica
}

var databases = []database{
	{leaftest.MySQL, "MySQL", dbtest.MySQL, dbtest.StartMySQL, "LAST_INSERT_ID(max_id + ", dbtest.StartLocalMySQL, dbtest.StartMariaDBPair},
	{leaftest.Postgres, "PostgreSQL", dbtest.Postgres, dbtest.StartPostgres, "SET max_id = max_id + $2", dbtest.StartLocalPostgres, dbtest.StartPostgresPair},
}

// eachDatabase runs a test on all of them, one after the other.
func eachDatabase(t *testing.T, test func(*testing.T, database)) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) { test(t, d) })
	}
}

// with returns an empty Leaf table with some rows.
func (d database) with(t testing.TB, rows ...string) *dbtest.DB {
	t.Helper()
	db := d.find(t)
	db.Exec(t, d.Shapes["official"])
	insert(t, db, rows...)
	return db
}

// insert adds rows as a DBA does: "'order', 1, 1000".
func insert(t testing.TB, db *dbtest.DB, rows ...string) {
	t.Helper()
	for _, row := range rows {
		db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ("+row+")")
	}
}

// maxID is what the table has for a tag.
func maxID(t testing.TB, db *dbtest.DB, tag string) (n int64) {
	t.Helper()
	query := fmt.Sprintf("SELECT max_id FROM leaf_alloc WHERE biz_tag = '%s'", tag)
	if err := db.SQL().QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// on is the environment that tells a process its database.
func on(dsn string) settings { return settings{env: []string{"IDWORKER_STORE=" + dsn}} }

// leafServers take segments with Leaf's own statements, until stopped.
type leafServers struct {
	ledger   *ledger
	segments atomic.Int64
	ids      atomic.Int64
	pause    atomic.Int64 // time.Duration, after each segment
	stop     func()       // waits until they have
}

// startLeaf starts Leaf's servers, and marks in the ledger what they take. A call that
// fails, whatever its outcome, is repeated.
func (d database) startLeaf(t testing.TB, db *sql.DB, tag string, servers int, pause time.Duration, into *ledger) *leafServers {
	l := &leafServers{ledger: into}
	l.pause.Store(int64(pause))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range servers {
		wg.Go(func() {
			for ctx.Err() == nil {
				// stop does not cancel the call: the outcome of a commit would be unknown.
				call, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
				seg, _, err := d.Segment(call, db, tag)
				done()
				if err == nil {
					into.add([]messages.Range{{First: seg.First, Last: seg.End - 1}})
					l.segments.Add(1)
					l.ids.Add(seg.Len())
				}
				time.Sleep(time.Duration(l.pause.Load()))
			}
		})
	}
	l.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(l.stop)
	return l
}

// logLine is a line of a process's log.
var logLine = regexp.MustCompile(`(?m)^\S+\t(debug|info|warn|error)\t([^\t\n]*)`)

// logged counts the lines that a process logged after the first skip bytes, by
// message.
func (p *process) logged(skip int) map[string]int {
	lines := make(map[string]int)
	for _, line := range logLine.FindAllStringSubmatch(p.stderr.String()[skip:], -1) {
		lines[line[2]]++
	}
	return lines
}

// unsafeTestDatabase is how the warning begins that most databases of tests deserve: dbtest
// tells them not to sync.
const unsafeTestDatabase = "the database acknowledges commits before they are on disk"

// complaints counts the warnings and errors that a process logged, by message.
func (p *process) complaints() map[string]int {
	lines := make(map[string]int)
	for _, line := range logLine.FindAllStringSubmatch(p.stderr.String(), -1) {
		if line[1] == "warn" || line[1] == "error" {
			lines[line[2]]++
		}
	}
	return lines
}

// after reports whether the process logged one message, if it ever did, before the
// latest of another.
func (p *process) after(message, other string) bool {
	text := p.stderr.String()
	return strings.LastIndex(text, "\t"+message) <= strings.LastIndex(text, "\t"+other)
}

// says counts the log lines with a message.
func (p *process) says(message string) int {
	return strings.Count(p.stderr.String(), "\t"+message)
}
