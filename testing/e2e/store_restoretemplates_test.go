package e2e

import (
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/testing/natstest"
)

// TestRestoreWithTemplates: a tag that came of a template after the backup was taken is not in what is
// restored. After the restore of docs/operations.md none of its IDs comes again.
func TestRestoreWithTemplates(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t).URL()
	as := settings{env: []string{"NATS_URL=" + url}}
	w := startWorker(t, url)
	as.mustRun(t, "tag", "create", "order", "--step", "10")
	as.mustRun(t, "tag", "create", "chat.*", "--template", "--step", "10")
	as.mustRun(t, "tag", "create", "day.*", "--template", "--step", "10")
	c := dial(t, url)
	had := make(map[int64]bool)
	for _, tag := range []string{"order", "chat.before", "chat.after", "chat.after", "day.after"} {
		id, err := c.Next(t.Context(), tag)
		if err != nil {
			t.Fatal(err)
		}
		had[id] = true
	}
	as.mustRun(t, "tag", "rm", "day.*", "--yes")
	w.stop(syscall.SIGTERM)
	js, err := jetstream.New(connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	bucket := jetstreamstore.BucketName(messages.DefaultPrefix)
	stream, err := js.Stream(t.Context(), "KV_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"chat.after", "day.after"} {
		if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV."+bucket+"."+tag)); err != nil {
			t.Fatal(err)
		}
	}
	as.mustRun(t, "tag", "raise", "--all", "--by", "1000000")
	as.mustRun(t, "tag", "create", "day.*", "--template", "--step", "10")
	startWorker(t, url)
	for _, tag := range []string{"order", "chat.before", "chat.after", "day.after", "chat.new"} {
		id, err := c.Next(t.Context(), tag)
		if err != nil || id <= 1_000_000 {
			t.Errorf("%s: %d, %v after a raise by a million", tag, id, err)
		}
		if had[id] {
			t.Errorf("%s: the ID %d was handed out before the restore", tag, id)
		}
	}
}
