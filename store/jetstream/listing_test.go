package jetstream

import (
	"fmt"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// TestListingReadsChangesOnly: a second listing costs messages for what has changed, and shows it.
func TestListingReadsChangesOnly(t *testing.T) {
	t.Parallel()
	const n = 500
	c := single{natstest.Start(t)}
	s := fresh(t, c, "ids", 1)
	for i := range n {
		newTag(t, s, fmt.Sprintf("tag%d", i))
	}
	l := open(t, c, "ids").OpenListing(nil)
	defer l.Close()
	list := func(want int) int {
		t.Helper()
		conn := l.(*listing).store.js.Conn()
		before := conn.Stats().InMsgs
		tags, err := l.Tags(t.Context())
		if err != nil || len(tags) != want {
			t.Fatalf("%d tags, %v; want %d", len(tags), err, want)
		}
		return int(conn.Stats().InMsgs - before)
	}
	if got := list(n); got < n {
		t.Fatalf("%d messages for the first listing of %d tags", got, n)
	}
	writer := open(t, c, "ids")
	if _, err := writer.Reserve(t.Context(), "tag7", 10); err != nil {
		t.Fatal(err)
	}
	newTag(t, writer, "new")
	if err := writer.RemoveTag(t.Context(), "tag1"); err != nil {
		t.Fatal(err)
	}
	if err := writer.kv.Delete(t.Context(), "tag2"); err != nil {
		t.Fatal(err)
	}
	if got := list(n - 1); got > 50 {
		t.Errorf("%d messages for four changes", got)
	}

	// Broken off, and the bucket is another one meanwhile.
	l.Close()
	if got := list(n - 1); got > 50 {
		t.Errorf("%d messages to go on", got)
	}
	l.Close()
	if err := writer.js.DeleteKeyValue(t.Context(), BucketName("ids")); err != nil {
		t.Fatal(err)
	}
	again := fresh(t, c, "ids", 1)
	newTag(t, again, "only")
	if tags, err := l.Tags(t.Context()); err != nil || len(tags) != 1 || tags[0].Name != "only" {
		t.Errorf("of the bucket that was made again: %v, %v", tags, err)
	}
}
