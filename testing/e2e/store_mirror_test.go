package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// TestTableIsMirrored changes Leaf's table as a DBA does: it takes effect within a
// refresh, and idworker's own commands at once.
func TestTableIsMirrored(t *testing.T) {
	t.Parallel()
	eachDatabase(t, testTableIsMirrored)
}

func testTableIsMirrored(t *testing.T, d database) {
	t.Parallel()
	db := d.with(t, "'order', 1, 100")
	ns := natstest.Start(t)
	w := on(db.DSN()).startWorker(t, ns.URL(), "--tag-refresh", "1s")
	client, conn := dial(t, ns.URL()), connect(t, ns.URL())
	next := func(tag string) (int64, error) {
		ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
		defer cancel()
		return client.Next(ctx, tag)
	}
	step := func(tag string) int64 {
		for _, s := range stats(t, conn, 1)[w.instance()].Tags {
			if s.Tag == tag {
				return s.Step
			}
		}
		return 0
	}
	served := func(tag string) func() bool {
		return func() bool { _, err := next(tag); return err == nil }
	}
	after := func(what string, cond func() bool) {
		t.Helper()
		begin := time.Now()
		natstest.Eventually(t, what, cond)
		t.Logf("%s after %v", what, time.Since(begin).Round(10*time.Millisecond))
	}

	after("what was there is served", served("order"))
	insert(t, db, "'invoice', 500, 100")
	after("an inserted row is served", served("invoice"))
	if id, err := next("invoice"); err != nil || id < 500 || id > 700 {
		t.Errorf("an ID of the inserted row: %d, %v, want one from 500 on", id, err)
	}

	// A step takes effect with the next load.
	db.Exec(t, "UPDATE leaf_alloc SET step = 5000 WHERE biz_tag = 'invoice'")
	after("a raised step is used", func() bool { _, _ = next("invoice"); return step("invoice") >= 5000 })

	db.Exec(t, "DELETE FROM leaf_alloc WHERE biz_tag = 'invoice'")
	after("a deleted row is refused", func() bool { _, err := next("invoice"); return errors.Is(err, messages.ErrNoTag) })
	if _, err := next("order"); err != nil {
		t.Errorf("the other tag: %v", err)
	}

	// What idworker changes itself does not wait for the refresh.
	slow := natstest.Start(t)
	s := on(db.DSN())
	s.startWorker(t, slow.URL(), "--tag-refresh", "1h")
	client = dial(t, slow.URL())
	after("a second worker serves", served("order"))
	if r := s.run(t, "tag", "create", "--server", slow.URL(), "basket", "--step", "70", "--first", "1000"); r.code != exitOK {
		t.Fatalf("tag create: %+v", r)
	}
	after("a created tag is served", served("basket"))
	if r := s.run(t, "tag", "set", "--server", slow.URL(), "basket", "--step", "80"); r.code != exitOK {
		t.Fatalf("tag set: %+v", r)
	}
	if r := s.run(t, "tag", "ls", "--server", slow.URL()); !strings.Contains(r.stdout, "basket  80") {
		t.Errorf("tag ls: %+v", r)
	}
	if n := maxID(t, db, "basket"); n < 1070 {
		t.Errorf("max_id of a tag from 1000 on in steps of 70 is %d", n)
	}
}

// TestRowsThatCannotBeServed has rows in the table that cannot be tags: they are refused,
// listed and logged once, and the others are served.
func TestRowsThatCannotBeServed(t *testing.T) {
	t.Parallel()
	eachDatabase(t, testRowsThatCannotBeServed)
}

func testRowsThatCannotBeServed(t *testing.T, d database) {
	t.Parallel()
	db := d.with(t, "'order', 1, 100", "'leaf segment test', 1, 100", "'shop.*', 1, 100", "'größe', 1, 100", "'a..b', 1, 100",
		"'zero', 1, 0", "'negative', 1, -5", "'below', -7, 100", "'end', 9223372036854775800, 100")
	ns := natstest.Start(t)
	s := on(db.DSN())
	w := s.startWorker(t, ns.URL(), "--tag-refresh", "1s")
	get := func(tag string) result { return s.run(t, "get", "--server", ns.URL(), tag) }
	natstest.Eventually(t, "the good row is served", func() bool { return get("order").code == exitOK })
	for _, tag := range []string{"zero", "negative", "below"} {
		if r := get(tag); r.code != exitNoTag {
			t.Errorf("get %s: %+v, want exit code %d", tag, r, exitNoTag)
		}
	}
	if r := get("end"); r.code != exitExhausted || !strings.Contains(r.stderr, "exhausted") {
		t.Errorf("get end: %+v, want exit code %d", r, exitExhausted)
	}

	list := s.run(t, "tag", "ls", "--server", ns.URL())
	if list.code != exitOK {
		t.Errorf("tag ls: %+v", list)
	}
	unusable := 0
	for _, line := range list.lines() {
		if strings.Contains(line, "unusable: ") {
			unusable++
		}
	}
	if unusable != 7 || len(list.lines()) != 10 {
		t.Errorf("tag ls shows %d unusable rows, want 7 of 9:\n%s", unusable, list.stdout)
	}
	t.Logf("tag ls:\n%s", list.stdout)

	// By the time the mirror finds the last one, it has read the table several times.
	for _, tag := range []string{"second", "third"} {
		insert(t, db, "'"+tag+"', 1, 100")
		natstest.Eventually(t, "one more row is served", func() bool { return get(tag).code == exitOK })
	}
	if n := w.says("tag in the store cannot be served"); n != 7 {
		t.Errorf("%d rows were logged, want each of 7 once", n)
	}
}
