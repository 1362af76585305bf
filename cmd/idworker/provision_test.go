package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

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

// TestProvisionLost: while processes of a lost installation run, provision makes
// no register, whose IDs would repeat theirs, before the raise that it names.
func TestProvisionLost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	at, js := func(args ...string) result { return s.at(strings.Join(args, " ")) }, natstest.JetStream(t, s.nats.Connect(t))
	for name := range js.StreamNames(t.Context()).Name() {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"ids", "all"} {
		r := at("provision", "--part", part)
		if r.code != exitFailure || !strings.Contains(r.stderr, "idworker restore DIR") || !strings.Contains(r.stderr, "idworker tag raise --all") {
			t.Errorf("--part %s: %+v", part, r)
		}
		if _, err := js.KeyValue(t.Context(), "ids_register"); !errors.Is(err, jetstream.ErrBucketNotFound) {
			t.Errorf("--part %s made a register: %v", part, err)
		}
	}
	if r := at("tag", "raise", "--all"); r.code != exitOK {
		t.Errorf("raise: %+v", r)
	}
	if r := at("provision"); r.code != exitOK {
		t.Errorf("after the raise: %+v", r)
	}
	if r := at("tag", "create", "order"); r.code != exitOK || strings.Contains(r.stdout, "first ID 1\n") {
		t.Errorf("create: %+v", r)
	}
}
