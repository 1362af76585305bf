package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/testing/natstest"
)

// TestProvisionAPart: a user with the rights for one part creates that, and the
// error names the command for it, which works.
func TestProvisionAPart(t *testing.T) {
	lacks := map[string]string{"ids": "KV_ids_enrich", "enrich": "IDS_LOAD", "": "*"}
	var users []*server.User
	for part, stream := range lacks {
		denied := &server.SubjectPermission{Deny: []string{rights.API("STREAM.INFO." + stream)}}
		users = append(users, &server.User{Username: "u" + part, Password: "secret", Permissions: &server.Permissions{Publish: denied}})
	}
	ns := natstest.Start(t, func(o *server.Options) { o.Users = users })
	t.Setenv("NATS_PASSWORD", "secret")
	for part := range lacks {
		login := []string{"provision", "--server", ns.URL(), "--user", "u" + part}
		r := command(t, login...)
		named := "idworker provision --part " + part
		if r.code != exitFailure || strings.Contains(r.stderr, named) != (part != "") || strings.Contains(r.stdout, "created") != (part != "") {
			t.Errorf("%s: %+v", part, r)
		}
		if part == "" {
			continue
		}
		if again := command(t, append(login, strings.Fields(named)[2:]...)...); again.code != exitOK {
			t.Errorf("%s: %+v", named, again)
		}
	}
}
