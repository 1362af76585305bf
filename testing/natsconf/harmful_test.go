package natsconf_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/roles"
)

// streams are those of nats.conf.
var streams = []string{
	"IDS_LOAD", "KV_ids_config", "KV_ids_workers", "KV_ids_clock", "KV_ids_register", "KV_ids_enrich",
	"ORDERS", "ORDERS_READY", "OTHER",
}

// harmful are subjects with which a user could take others' IDs, delete
// counters, or stop servers. Two users need some: see isPurpose.
func harmful() []string {
	all := []string{
		"$KV.>", "$JS.API.>", "$JS.ACK.>", "$JS.>", "$JSC.>", "$SYS.>", "$SYS.REQ.>", ">",
		"$JS.API.SERVER.REMOVE", "$JS.API.META.LEADER.STEPDOWN", "$JS.API.ACCOUNT.PURGE.IDS", "$SYS.REQ.SERVER.X.RELOAD", "$SYS.REQ.CLAIMS.UPDATE",
	}
	for _, stream := range streams {
		for _, request := range []string{"STREAM.DELETE.", "STREAM.PURGE.", "STREAM.MSG.DELETE.", "STREAM.SNAPSHOT.", "STREAM.RESTORE."} {
			all = append(all, rights.API(request+stream))
		}
	}
	return all
}

// isPurpose reports whether a user is there for a harmful request: two users
// back up and replace the counters.
func isPurpose(user, subject string) bool {
	request, stream, _ := strings.Cut(strings.TrimPrefix(subject, rights.API("STREAM.")), ".")
	switch user {
	case "backup":
		return request == "SNAPSHOT"
	case "restore":
		return slices.Contains([]string{"KV_ids_config", "KV_ids_clock", "KV_ids_register"}, stream) &&
			slices.Contains([]string{"SNAPSHOT", "DELETE", "RESTORE"}, request)
	}
	return false
}

// TestNobodyNeedsWhatIsHarmful: a right stated too broadly would pass every
// other test.
func TestNobodyNeedsWhatIsHarmful(t *testing.T) {
	states := func(list []string, subject string) bool {
		return slices.ContainsFunc(list, func(right string) bool {
			pattern, group, inGroup := strings.Cut(right, " ")
			return (!inGroup || group == "spy") && rights.Covers(pattern, subject)
		})
	}
	for _, u := range roles.Users() {
		for _, subject := range harmful() {
			if states(u.Rights.Publish, subject) && !isPurpose(u.Name, subject) {
				t.Errorf("%s states that it publishes to %s", u.Name, subject)
			}
		}
		for _, subject := range []string{"ids.segment.>", "ids.snowflake", "ids.>", ">", "_INBOX.>"} {
			if states(u.Rights.Subscribe, subject) {
				t.Errorf("%s states that it listens to %s", u.Name, subject)
			}
		}
	}
}
