package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// TestUsersForBackups: the user for backups can back up, and the user for
// restores can do all that the page about restores says, beside processes that
// run. The server refuses nothing.
func TestUsersForBackups(t *testing.T) {
	t.Parallel()
	server := startProduction(t, natsConf)
	server.must("admin", "provision", "--part", "ids")
	server.must("admin", "tag", "create", "order")
	server.serve("loader", "--role", "loader")
	worker := server.serve("worker", "--role", "worker")
	natstest.Eventually(t, "there is a worker ID", func() bool {
		return strings.Contains(server.must("admin", "workers").stdout, worker.instance())
	})
	dir := filepath.Join(t.TempDir(), "backup")
	server.must("backup", "backup", dir)
	conn := server.connect("backup")
	for _, stream := range []string{registerBucket, configBucket} {
		if _, err := natstest.TrySnapshot(conn, stream); err != nil {
			t.Errorf("back up %s: %v", stream, err)
		}
	}

	conn = server.connect("restore")
	for _, stream := range []string{registerBucket, configBucket, clockBucket} {
		natstest.TakeSnapshot(t, conn, stream).Restore(t, conn)
	}
	for _, user := range []string{"restore", "admin"} { // a restore raises all tags, too
		if r := server.must(user, "restore", dir, "--yes"); strings.Contains(r.stdout, "snowflake") {
			t.Errorf("%s is told of a lost clock bucket:\n%s", user, r.stdout)
		}
	}
	if v := server.violations(); len(v) > 0 {
		t.Errorf("the server refused:\n%s", strings.Join(v, ""))
	}
	config, err := natstest.JetStream(t, conn).KeyValue(t.Context(), "ids_config")
	if err == nil {
		err = config.Delete(t.Context(), "clock_id")
	}
	if err != nil {
		t.Fatal(err)
	}
}
