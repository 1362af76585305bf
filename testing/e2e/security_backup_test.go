package e2e

import (
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// TestUserForBackups: the user for backups can back up both buckets.
func TestUserForBackups(t *testing.T) {
	t.Parallel()
	server := startProduction(t, natsConf)
	server.must("admin", "provision", "--part", "ids")
	server.must("admin", "tag", "create", "order")
	conn := server.connect("backup")
	for _, stream := range []string{"KV_ids_register", "KV_ids_config"} {
		if _, err := natstest.TrySnapshot(conn, stream); err != nil {
			t.Errorf("back up %s: %v", stream, err)
		}
	}
}
