package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/testing/natstest"
)

// TestDoctorOfUserWithoutRights: doctor lists the rights that a caller lacks
// for another role. A denied request is not reported as a problem of its inbox.
func TestDoctorOfUserWithoutRights(t *testing.T) {
	ns := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "caller", Password: "secret", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"ids.segment.>", "ids.snowflake"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_caller.>"}},
		}}}
	})
	t.Setenv("NATS_PASSWORD", "secret")
	r := command(t, "doctor", "--server", ns.URL(), "--user", "caller", "--inbox-prefix", "_INBOX_caller.any")
	for _, want := range []string{"warn  sync: ", "warn  rights: ", "FAIL  stream IDS_LOAD: ", "FAIL  bucket ids_register: ", "FAIL  store: "} {
		_, line, found := strings.Cut(r.stdout, want)
		if line, _, _ = strings.Cut(line, "\n"); !found || !strings.Contains(line, "Permissions Violation for Publish") {
			t.Errorf("no right is named after %q in\n%s", want, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "inbox:") {
		t.Errorf("the inbox is all right:\n%s", r.stdout)
	}
}
