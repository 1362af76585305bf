package e2e

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// TestNoDuplicateFromTableThatWentBack puts the row of a tag back while it is in use, as a
// failover that lost commits does, and once more while no loader lives. No ID comes twice, the
// row is raised, and each loader has at most one error line.
func TestNoDuplicateFromTableThatWentBack(t *testing.T) {
	t.Parallel()
	eachDatabase(t, testTableThatWentBack)
}

func testTableThatWentBack(t *testing.T, d database) {
	t.Parallel()
	const tag = "order"
	db := d.with(t, "'"+tag+"', 1, 50")
	ns := natstest.Start(t)
	args := []string{"--max-batch", "1000", "--max-step", "1000"} // so that there are many loads
	workers := []*process{on(db.DSN()).startWorker(t, ns.URL(), args...), on(db.DSN()).startWorker(t, ns.URL(), args...)}
	knownToAll(t, ns.URL(), tag, 2)
	c := startCallers(t, ns.URL(), load{
		callers: 8, tags: []string{tag}, maxBatch: 1000, timeout: 10 * time.Second,
		retry: func(err error) bool { return errors.Is(err, nats.ErrNoResponders) || lost(err) }, // while nobody serves
	})
	more := func(n int64) {
		t.Helper()
		target := c.ledgers.ids() + n
		natstest.Eventually(t, time.Minute, "IDs", func() bool { return c.ledgers.ids() >= target || t.Failed() })
	}
	for range 5 {
		more(10_000)
		db.Exec(t, "UPDATE leaf_alloc SET max_id = 1")
	}
	more(20_000)
	said := 0
	for _, w := range workers {
		w.stop(syscall.SIGTERM)
		n := w.says("the store went back")
		if said += n; n > 1 {
			t.Errorf("%d lines say that the store went back, want at most 1", n)
		}
	}
	if said == 0 {
		t.Error("nobody noticed that the store went back")
	}

	high := maxID(t, db, tag)
	db.Exec(t, "UPDATE leaf_alloc SET max_id = 1")
	on(db.DSN()).startWorker(t, ns.URL(), args...) // it remembers nothing
	more(10_000)
	c.finish()
	c.ledgers.check(t)
	if end := maxID(t, db, tag); end <= high {
		t.Errorf("max_id is %d, and was %d", end, high)
	}
}

// TestLostLedgerIsRefused: without its ledger a process that loads from a database does not
// start, and says what decides.
func TestLostLedgerIsRefused(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.with(t, "'order', 1, 50")
		ns := natstest.Start(t)
		w := on(db.DSN()).startWorker(t, ns.URL())
		js, err := jetstream.New(connect(t, ns.URL()))
		if err != nil {
			t.Fatal(err)
		}
		config, err := js.KeyValue(t.Context(), "ids_config")
		if err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, readyWithin, "the ledger to be complete", func() bool {
			_, err := config.Get(t.Context(), "ledger")
			return err == nil
		})
		w.stop(syscall.SIGTERM)
		if err := js.DeleteKeyValue(t.Context(), "ids_ledger"); err != nil {
			t.Fatal(err)
		}
		for _, command := range [][]string{{"serve"}, {"doctor"}, {"tag", "create", "other"}} {
			r := on(db.DSN()).run(t, append(command, "--server", ns.URL())...)
			if text := r.stdout + r.stderr; r.code != 1 || !strings.Contains(text, "the ledger is lost") || !strings.Contains(text, "delete the key ledger of the bucket ids_config") {
				t.Errorf("%v: exit code %d, %s", command, r.code, text)
			}
		}
		if err := config.Delete(t.Context(), "ledger"); err != nil {
			t.Fatal(err)
		}
		on(db.DSN()).startWorker(t, ns.URL())
		knownToAll(t, ns.URL(), "order", 1)
	})
}
