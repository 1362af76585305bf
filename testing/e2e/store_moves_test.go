package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// TestDatabaseMoves: the primary becomes read-only and lives on, and its name
// leads to the promoted replica. Loads go on there, no ID comes twice, and
// status names the server.
func TestDatabaseMoves(t *testing.T) {
	tier.All(t)
	t.Parallel()
	for _, b := range []struct {
		database
		pair *leaftest.Backend
	}{{databases[0], &leaftest.MySQLBackend}, {databases[1], &leaftest.PostgresBackend}} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			pair := b.pair.Pair(t)
			pair.Exec(t, b.Shapes["official"])
			var tags []string
			for n := range 20 {
				tags = append(tags, fmt.Sprint("tag", n))
				insert(t, pair.DB, "'"+tags[n]+"', 1, 10")
			}
			grant := b.pair.User("loader", canary, "SELECT, INSERT, UPDATE")
			pair.Exec(t, grant[:len(grant)-1]...)
			pair.Follow()
			name := dbtest.StartProxy(t, pair.Addr())
			url := natstest.Start(t).URL()
			as := settings{env: []string{"IDWORKER_STORE=" + pair.DSNForVia("loader", canary, name), "NATS_URL=" + url}}
			w := as.startWorker(t, url)
			at := func(server string) bool {
				_, port, _ := net.SplitHostPort(server)
				return strings.Contains(as.run(t, "status").stdout, ":"+port+"\n")
			}
			c := startCallers(t, url, load{callers: 16, tags: tags, maxBatch: 20, timeout: askAgain, retry: func(error) bool { return true }})
			c.more(20_000)
			natstest.Eventually(t, "status names the primary", func() bool { return at(pair.Addr()) })
			pair.SwitchOver()
			natstest.Eventually(t, "loads fail at the old primary", func() bool { return w.says("store fails") > 0 })
			name.Turn(pair.Addr())
			turned := time.Now()
			c.more(20_000)
			t.Logf("20,000 IDs within %v of the turn", time.Since(turned))
			natstest.Eventually(t, "status names the new primary", func() bool { return at(pair.Addr()) })
			c.finish()
			c.ledgers.check(t)
			w.showsNoPassword()
		})
	}
}

// TestOutageEndsUnasked: the database is away while requests for a strict tag
// fail, and comes back. All that showed the outage shows its end, although no
// further request comes.
func TestOutageEndsUnasked(t *testing.T) {
	tier.All(t)
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db := d.with(t)
			name := dbtest.StartProxy(t, db.Addr())
			url, address := natstest.Start(t).URL(), freeAddress(t)
			as := settings{env: []string{"IDWORKER_STORE=" + db.DSNVia(name), "NATS_URL=" + url}}
			w := as.startWorker(t, url, "--http", address, "--wait", "200ms")
			as.mustRun(t, "tag", "create", "strict", "--order", "strict")
			as.mustRun(t, "get", "strict")
			shown := func() (all []string) {
				if _, body := fetch(t, address, "/readyz"); strings.HasPrefix(body, "ready, but ") {
					all = append(all, "readyz")
				}
				if _, body := fetch(t, address, "/metrics"); strings.Contains(body, "idworker_store_outage{") && !strings.Contains(body, "\nidworker_store_outage{installation=\""+installationOf(body)+"\"} 0") {
					all = append(all, "metrics")
				}
				for _, command := range []string{"status", "doctor"} {
					if r := as.run(t, command); strings.Contains(r.stdout, "has failed for") {
						all = append(all, command)
					}
				}
				return all
			}
			name.Refuse()
			for range 3 {
				as.run(t, "get", "strict", "--timeout", "1s")
			}
			natstest.Eventually(t, "readyz, metrics, status and doctor show the outage", func() bool { return len(shown()) == 4 })
			name.Accept()
			back := time.Now()
			natstest.Eventually(t, "none shows it", func() bool { return len(shown()) == 0 })
			t.Logf("shown no more after %v", time.Since(back))
			if n := w.says("store works again"); n != 1 {
				t.Errorf("the log says %d times that the store works again", n)
			}
		})
	}
}

// installationOf returns the installation in a page of metrics.
func installationOf(metrics string) string {
	_, rest, _ := strings.Cut(metrics, `installation="`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// TestNumbersEnd: a tag at the end of its column gives all its numbers, then
// 507. tag ls, status, doctor, the log and the metrics show it. A wider column
// heals that without a restart.
func TestNumbersEnd(t *testing.T) {
	tier.All(t)
	t.Parallel()
	for _, b := range []struct {
		database
		*leaftest.Backend
	}{{databases[0], &leaftest.MySQLBackend}, {databases[1], &leaftest.PostgresBackend}} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			db := b.find(t)
			db.Exec(t, b.Narrow)
			const end, left = 1<<31 - 1, 3000
			insert(t, db, fmt.Sprintf("'order', %d, 1000", end-left))
			insert(t, db, "'other', 1, 1000")
			url, address := natstest.Start(t).URL(), freeAddress(t)
			as := settings{env: []string{"IDWORKER_STORE=" + db.DSN(), "NATS_URL=" + url}}
			w := as.startWorker(t, url, "--http", address)
			numbersEnd(t, as, w, url, address, end, left)
			db.Exec(t, b.Widen)
			natstest.Eventually(t, "a wider column gives numbers", func() bool { return as.run(t, "get", "order").code == exitOK })
			natstest.Eventually(t, "nothing says that a tag ends", func() bool {
				return !strings.Contains(as.run(t, "status").stdout+as.run(t, "doctor").stdout+as.run(t, "tag", "ls").stdout, "exhausted")
			})
		})
	}
	t.Run("JetStream", func(t *testing.T) {
		t.Parallel()
		url, address := natstest.Start(t).URL(), freeAddress(t)
		as := settings{env: []string{"NATS_URL=" + url}}
		w := as.startWorker(t, url, "--http", address)
		const end, left = 1<<63 - 1, 3000
		as.mustRun(t, "tag", "create", "other")
		as.mustRun(t, "tag", "create", "order", "--first", fmt.Sprint(end-left))
		numbersEnd(t, as, w, url, address, end, left)
	})
}

func numbersEnd(t *testing.T, as settings, w *process, url, address string, end, left int64) {
	client, seen := dial(t, url), int64(0)
	for next := end - left; next < end; next++ {
		if id := client.next(t, "order"); id != next {
			t.Fatalf("%d after %d", id, next-1)
		}
		seen++
	}
	if r := as.run(t, "get", "order"); r.code != exitExhausted {
		t.Errorf("get after all %d numbers: %+v", seen, r)
	}
	for _, command := range [][]string{{"tag", "ls"}, {"status"}, {"doctor"}} {
		r := as.run(t, command...)
		if !strings.Contains(r.stdout, "order") || !strings.Contains(r.stdout, "exhausted") {
			t.Errorf("%v does not name the exhausted tag:\n%s%s", command, r.stdout, r.stderr)
		}
	}
	if code, body := fetch(t, address, "/metrics"); code != http.StatusOK || !strings.Contains(body, `state="exhausted"} 1`) {
		t.Errorf("metrics have no exhausted tag: %d", code)
	}
	for _, message := range []string{"tag will soon be exhausted", "tag is exhausted"} {
		if n := w.says(message); n != 1 {
			t.Errorf("logged %q %d times, want once", message, n)
		}
	}
	if r := as.run(t, "get", "other"); r.code != exitOK {
		t.Errorf("another tag: %+v", r)
	}
}

// TestTagFails: a tag that cannot be granted although the store works, because
// its row is gone or a trigger skips it, is named by status, doctor and the log
// until it is granted again.
func TestTagFails(t *testing.T) {
	tier.All(t)
	t.Parallel()
	for _, d := range []struct {
		database
		harm, mend []string
	}{
		{databases[0], []string{"DELETE FROM leaf_alloc WHERE biz_tag = 'order'"}, []string{"INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)"}},
		{databases[1], []string{
			"CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
			"CREATE TRIGGER skip BEFORE UPDATE ON leaf_alloc FOR EACH ROW WHEN (old.biz_tag = 'order') EXECUTE FUNCTION skip()",
		}, []string{"DROP TRIGGER skip ON leaf_alloc"}},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			db := d.with(t)
			insert(t, db, "'order', 1, 10", "'other', 1, 10")
			url := natstest.Start(t).URL()
			as := settings{env: []string{"IDWORKER_STORE=" + db.DSN(), "NATS_URL=" + url}}
			w := as.startWorker(t, url, "--wait", "300ms")
			as.mustRun(t, "get", "order")
			db.Exec(t, d.harm...)
			named := func() (n int) {
				_ = as.run(t, "get", "order", "--timeout", "500ms")
				as.mustRun(t, "get", "other")
				for _, command := range []string{"status", "doctor"} {
					if strings.Contains(as.run(t, command).stdout, "tag order: cannot be granted") {
						n++
					}
				}
				return n
			}
			natstest.Eventually(t, "status and doctor name the tag", func() bool { return named() == 2 })
			if n := w.says("cannot grant tag"); n != 1 {
				t.Errorf("the log names the tag %d times, want once", n)
			}
			db.Exec(t, d.mend...)
			natstest.Eventually(t, "they name it no more", func() bool { return named() == 0 })
			as.mustRun(t, "get", "order")
		})
	}
}
