package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestRaisedFolder: an older copy of a data folder takes its place, and all tags
// are raised. The server grants IDs of tags at once. It refuses requests for
// snowflake IDs, and /readyz tells why, until the time of those that the lost
// entries had reserved is past.
func TestRaisedFolder(t *testing.T) {
	t.Parallel()
	data, older := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "older")
	status, api := freeport.Address(t), freeport.Address(t)
	client, layout := newHTTPClient(t), snowflake.Default()
	serve := func() *host { return startServer(t, data, "--http", status, "--api", api) }
	snowflakeID := func() (id int64) {
		t.Helper()
		natstest.Eventually(t, "a snowflake ID", func() bool {
			var err error
			id, err = snowflakeByHTTP(t, client, api)
			return err == nil
		})
		return id
	}
	server := serve()
	createTag(t, server.url, "order")
	snowflakeID()
	server.stop(syscall.SIGTERM)
	if err := os.CopyFS(older, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	server = serve()
	tags := dial(t, server.url)
	before, last := tags.next(t, "order"), snowflakeID()
	js := natstest.JetStream(t, tags.conn)
	noted(t, js, data+".witness")
	clock, err := js.Stream(t.Context(), clockBucket)
	if err != nil {
		t.Fatal(err)
	}
	at := clock.CachedInfo().State.LastSeq
	natstest.Eventually(t, "the witness notes the claim of the worker ID", func() bool {
		var seen map[string]struct{ Seen uint64 }
		text, err := os.ReadFile(data + ".witness")
		return err == nil && json.Unmarshal(text, &seen) == nil && seen["ids_clock"].Seen >= at
	})
	server.kill()
	if err := errors.Join(os.RemoveAll(data), os.Rename(older, data)); err != nil {
		t.Fatal(err)
	}
	raiseAll(t, "--data", data)
	server = serve()
	if id := dial(t, server.url).next(t, "order"); id <= before {
		t.Errorf("DUPLICATE: ID %d of a tag, after %d", id, before)
	}
	refused := 0 // not once, if the machine is slow
	natstest.Eventually(t, "a snowflake ID after the reserved time", func() bool {
		_, ready := fetch(t, status, "/readyz")
		id, err := snowflakeByHTTP(t, client, api)
		if err != nil {
			refused++
			for _, text := range []string{ready, err.Error()} {
				if !strings.Contains(text, "no worker ID") {
					t.Errorf("does not say that there is no worker ID: %s", text)
				}
			}
			return false
		}
		issued, earlier := layout.TimeAt(layout.Timestamp(snowflake.ID(id))), layout.TimeAt(layout.Timestamp(snowflake.ID(last)))
		if reserved := 30 * time.Second; issued.Sub(earlier) < reserved {
			t.Errorf("snowflake ID of %v, only %v after one of a holder that had reserved %v", issued, issued.Sub(earlier), reserved)
		}
		return true
	})
	t.Logf("refused %d times", refused)
	server.stop(syscall.SIGTERM)
}
