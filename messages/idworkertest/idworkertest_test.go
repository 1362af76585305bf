package idworkertest_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/idworkertest"
	"github.com/idworker/idworker/store"
)

// TestStart: a test gets IDs of tags that it named, and others, and the errors of
// production.
func TestStart(t *testing.T) {
	t.Parallel()
	ids := idworkertest.Start(t, "order")
	client := ids.Client()
	for last := int64(0); last < 3; { // a request that is sent again leaves a gap
		id, err := client.Next(t.Context(), "order")
		if err != nil || id <= last {
			t.Fatalf("ID %d, %v, want above %d", id, err, last)
		}
		last = id
	}
	if id, err := client.Snowflake(t.Context()); err != nil || id < 1 {
		t.Errorf("snowflake ID %d, %v", id, err)
	}
	if _, err := client.Next(t.Context(), "nosuch"); !errors.Is(err, messages.ErrNoTag) {
		t.Errorf("an unknown tag: %v, want %v", err, messages.ErrNoTag)
	}
	ids.CreateTag(store.Tag{Name: "bill", Step: 10, Next: 500, Order: store.Strict})
	if id, err := client.Next(t.Context(), "bill"); err != nil || id < 500 {
		t.Errorf("ID %d, %v of a strict tag, want 500 or above", id, err)
	}
	conn, err := nats.Connect(ids.URL())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// TestTwo: two installations of a test share nothing.
func TestTwo(t *testing.T) {
	t.Parallel()
	for range 2 {
		if id, err := idworkertest.Start(t, "order").Client().Next(t.Context(), "order"); err != nil || id < 1 {
			t.Errorf("ID %d, %v", id, err)
		}
	}
}
