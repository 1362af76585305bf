package e2e

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
)

// TestTwoTablesOfTheSameName has two loaders count in two different tables that cannot be told
// apart by their names.
func TestTwoTablesOfTheSameName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		d      database
		tables func(testing.TB, database) (dsns []string)
	}{
		"two servers": {databases[0], twoServers},
		"two schemas": {databases[1], twoSchemas},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testTwoTables(t, c.tables(t, c.d))
		})
	}
}

const twiceTag = "order"

// twoServers has a database of the same name on each.
func twoServers(t testing.TB, d database) (dsns []string) {
	t.Helper()
	one := d.with(t, "'"+twiceTag+"', 1, 10")
	other := d.start(t).Beside(one)
	other.Exec(t, d.Shapes["official"])
	insert(t, other, "'"+twiceTag+"', 1, 10")
	return []string{one.DSN(), other.DSN()}
}

// twoSchemas has a user for each, who finds the table on his search path.
func twoSchemas(t testing.TB, d database) (dsns []string) {
	t.Helper()
	srv := d.start(t)
	for _, user := range []string{"staging", "production"} {
		srv.Exec(t,
			"CREATE ROLE "+user+" LOGIN PASSWORD 'secret'",
			"CREATE SCHEMA "+user,
			strings.Replace(d.Shapes["official"], "leaf_alloc", user+".leaf_alloc", 1),
			"INSERT INTO "+user+".leaf_alloc (biz_tag, max_id, step) VALUES ('"+twiceTag+"', 1, 10)",
			"GRANT USAGE ON SCHEMA "+user+" TO "+user,
			"GRANT SELECT, INSERT, UPDATE ON "+user+".leaf_alloc TO "+user)
		dsns = append(dsns, srv.DSNFor(user, "secret"))
	}
	return dsns
}

func testTwoTables(t *testing.T, dsns []string) {
	ns := natstest.Start(t)
	granted := listen(t, ns.URL())
	args := []string{"--max-step", "10", "--max-batch", "10"}
	var loaders, all []*process
	for _, dsn := range dsns {
		loaders = append(loaders, on(dsn).startWorker(t, ns.URL(), append(args, "--role", "loader")...))
	}
	all = append(all, loaders...)
	for range 2 {
		all = append(all, startWorker(t, ns.URL(), append(args, "--role", "worker")...))
	}
	knownToAll(t, ns.URL(), twiceTag, 2)

	begin := time.Now()
	c := startCallers(t, ns.URL(), load{callers: 4, tags: []string{twiceTag}, maxBatch: 10, timeout: 5 * time.Second, retry: unavailable})
	natstest.Eventually(t, soak.Pick(time.Minute, 10*time.Minute), "IDs are handed out", func() bool {
		return c.ledgers.ids() >= soak.Pick[int64](5_000, 100_000) || t.Failed()
	})
	replies := c.finish()
	took := time.Since(begin)
	for _, p := range all {
		p.stop(syscall.SIGTERM)
	}

	c.ledgers.check(t)
	if !t.Failed() {
		checkOrder(t, granted, replies)
	}
	var lines []string
	for _, l := range loaders {
		own := l.errorsWith(wentBack, fmt.Sprintf("%q: %q", "tag", twiceTag))
		if len(own) > 1 {
			t.Errorf("a loader logged %d times that the store went back", len(own))
		}
		lines = append(lines, own...)
	}
	if !slices.ContainsFunc(lines, namesBoth) {
		t.Errorf("loaders logged %q, want an error that names both tables, what one gave and what was granted", lines)
	}
	t.Logf("%d IDs in %v, %d grants, %d requests asked again; %s",
		c.ledgers.ids(), took.Round(time.Millisecond), granted.count(), c.lost.Load(), strings.Join(lines, "; "))
}

var twoNumbers = regexp.MustCompile(`"returned": "\[\d+, ?\d+\)", "returned_by": "(\S+)", "granted_below": \d+, "granted_from": "(\S+)"`)

// namesBoth reports whether a line says what one table returned and below what everything was
// granted, and names the servers and users of both.
func namesBoth(line string) bool {
	found := twoNumbers.FindStringSubmatch(line)
	return found != nil && found[1] != found[2]
}

// unavailable reports whether an error is one after which to ask again.
func unavailable(err error) bool { return lost(err) || errors.Is(err, messages.ErrUnavailable) }
