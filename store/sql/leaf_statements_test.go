package sql_test

import (
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
)

// A statement whose answer is lost is not sent again: its range is a gap.
func (b *suite) testSentOnce(t *testing.T) {
	db := b.Database(t)
	db.Exec(t, b.Shapes["official"], "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)")
	proxy := proxy.Start(t, db.Addr())
	s := leaftest.Open(t, db.DSNVia(proxy), "leaf_alloc")
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := int64(1)
	for call, change := range map[string]struct {
		statement string
		by        int64
		call      func() error
	}{
		"Reserve":   {"SET max_id", 100, func() error { _, err := s.Reserve(t.Context(), "order", 100); return err }},
		"CreateTag": {"INSERT", 0, func() error { return s.CreateTag(t.Context(), store.Tag{Name: "new", Step: 1, Next: 7}) }},
	} {
		before := proxy.Cuts()
		proxy.CutAnswers(change.statement)
		if err := change.call(); err == nil {
			t.Errorf("%s succeeded without an answer", call)
		}
		proxy.CutAnswers("")
		if n := proxy.Cuts() - before; n != 1 {
			t.Errorf("%s: %d answers were lost, want one statement and one answer", call, n)
		}
		next += change.by
	}
	direct := leaftest.Open(t, db.DSN(), "leaf_alloc")
	natstest.Eventually(t, "both statements to take effect", func() bool {
		order, _ := direct.Find(t.Context(), "order")
		created, _ := direct.Find(t.Context(), "new")
		return order.Next == next && created.Next == 7
	})
	if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != next {
		t.Errorf("Reserve after that: %v, %v, want one from %d on", seg, err, next)
	}
}

// A reservation costs a single round trip, even on a connection that was idle.
func (b *suite) testOneRoundTrip(t *testing.T) {
	db := b.Database(t)
	db.Exec(t, b.Shapes["official"], "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)")
	link := proxy.Start(t, db.Addr())
	s := leaftest.Open(t, db.DSNVia(link), "leaf_alloc")
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	const calls = 20
	before := link.Trips()
	for range calls {
		if _, err := s.Reserve(t.Context(), "order", 10); err != nil {
			t.Fatal(err)
		}
	}
	if n := link.Trips() - before; n != calls {
		t.Errorf("%d reservations cost %d round trips", calls, n)
	}
}
