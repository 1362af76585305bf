package e2e

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/natstest"
)

// TestUserForBackups checks that a user with the rights that the page about
// backups lists can back up both buckets.
func TestUserForBackups(t *testing.T) {
	t.Parallel()
	var rights []string
	for _, m := range regexp.MustCompile("`([$]JS[.][^`]+)`").FindAllStringSubmatch(document(t, "backup-restore.md"), -1) {
		rights = append(rights, m[1], strings.Replace(m[1], "KV_ids_register", "KV_ids_config", 1))
	}
	admins := "subscribe: [\"_INBOX_admin.>\"]\n      } }\n"
	server := startProduction(t, confWith(t, admins, admins+`
      { user: backup, password: secret-of-backup, permissions: {
        publish: ["`+strings.Join(rights, `", "`)+`"], subscribe: ["_INBOX_backup.>"]
      } }`))
	server.must("admin", "provision", "--part", "ids")
	server.must("admin", "tag", "create", "order")
	conn := connect(t, "nats://"+server.address, nats.UserInfo("backup", "secret-of-backup"), nats.CustomInboxPrefix("_INBOX_backup"))
	for _, stream := range []string{"KV_ids_register", "KV_ids_config"} {
		if _, err := natstest.TrySnapshot(conn, stream); err != nil {
			t.Errorf("back up %s as a user with %q: %v", stream, rights, err)
		}
	}
}
