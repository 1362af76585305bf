package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// TestNoDuplicateWhileLeavingLeaf takes the five steps from Leaf to NATS, on a table that Leaf's
// servers use until the last one. Nobody gets an ID that anybody had before.
func TestNoDuplicateWhileLeavingLeaf(t *testing.T) {
	t.Parallel()
	d := databases[0] // Leaf's own
	db := d.with(t)
	db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES"+
		" ('leaf-segment-test', 1, 2000, 'Test leaf Segment Mode Get Id'), ('order', 18400001, 1000, 'orders'), ('invoice', 90001, 500, 'invoices')")
	all := newLedgers([]string{"order", "invoice"})
	leaf := map[string]*leafServers{}
	for tag, l := range all {
		leaf[tag] = d.startLeaf(t, db.SQL(), tag, 2, 5*time.Millisecond, l)
	}
	busy := func(tag string) {
		t.Helper()
		target := leaf[tag].segments.Load() + 20
		natstest.Eventually(t, "Leaf works on "+tag, func() bool { return leaf[tag].segments.Load() >= target })
	}

	// 1. Point idworker at Leaf's table.
	address := freeAddress(t)
	env := settings{env: []string{"IDWORKER_STORE=" + db.DSN(), "IDWORKER_LISTEN=" + address, "IDWORKER_SERVER=", "NATS_URL=nats://" + address}}
	serve := env.launch(t, "serve", "--server=", "--data", t.TempDir())
	serve.serving()
	env.env[2] = "IDWORKER_SERVER=nats://" + address
	busy("order")

	// 2. Leaf's tags are there.
	ls := env.run(t, "tag", "ls")
	for _, tag := range []string{"invoice  ", "leaf-segment-test  2000  1", "order  "} {
		if ls.code != exitOK || !strings.Contains(strings.Join(strings.Fields(ls.stdout), "  "), tag) {
			t.Errorf("tag ls: %+v, want %s", ls, tag)
		}
	}

	// 3. IDs, while Leaf runs.
	for tag, l := range all {
		for _, n := range []string{"1", "100"} {
			r := env.run(t, "get", "--ranges", tag, n)
			ranges, err := rangesOf([]byte(strings.TrimSpace(r.stdout)))
			if r.code != exitOK || err != nil {
				t.Fatalf("get %s: %+v, %v", tag, r, err)
			}
			l.add(ranges)
		}
		busy(tag)
	}

	// 4. Callers come over, one tag after the other.
	var over []*callers
	for tag := range all {
		over = append(over, startCallers(t, "nats://"+address, load{callers: 4, tags: []string{tag}, maxBatch: 100, timeout: 10 * time.Second}))
		busy(tag)
	}
	more := func(n int64) {
		t.Helper()
		for _, c := range over {
			target := c.ledgers.ids() + n
			natstest.Eventually(t, "IDs of ours", func() bool { return c.ledgers.ids() >= target || t.Failed() })
		}
	}
	more(20_000)

	// 5. Stop Leaf.
	for _, l := range leaf {
		l.stop()
	}
	more(20_000)
	for _, c := range over {
		for _, r := range c.finish() {
			all[r.tag].add(r.ranges)
		}
	}
	serve.stop(syscall.SIGTERM)
	all.check(t)
	for tag, l := range all {
		end := maxID(t, db, tag)
		l.add([]messages.Range{{First: end, Last: end}})
		if l.twice.Load() > 0 {
			t.Errorf("the ID %d of %s was handed out, and max_id is there only now", end, tag)
		}
		t.Logf("%s: %d IDs, %d of them in %d segments of Leaf's, max_id %d", tag, l.ids.Load()-1, leaf[tag].ids.Load(), leaf[tag].segments.Load(), end)
	}
	for message := range serve.complaints() {
		if !strings.HasPrefix(message, unsafeTestDatabase) && !strings.HasPrefix(message, "new installation in ") {
			t.Errorf("serve complained of %s:\n%s", message, serve.stderr.Tail())
		}
	}
	serve.showsNoPassword()
}
