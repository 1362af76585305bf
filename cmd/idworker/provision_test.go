package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/agreement"
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

// TestProvisionOutage: a new installation makes snowflake IDs for an hour without
// JetStream. Of an existing one, only --outage changes that, and the longest ever
// declared stays known.
func TestProvisionOutage(t *testing.T) {
	t.Parallel()
	ns := natstest.Start(t)
	js := natstest.JetStream(t, ns.Connect(t))
	declared := func() string {
		t.Helper()
		text, _, err := agreement.Lookup(t.Context(), js, messages.DefaultPrefix, lease.OutageKey)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	provision := func(flags ...string) result {
		return command(t, append([]string{"provision", "--server", ns.URL()}, flags...)...)
	}
	for _, c := range []struct{ flag, printed, declared string }{
		{"", "outage: 1h0m0s\n", "1h0m0s"},
		{"", "outage: 1h0m0s\n", "1h0m0s"},
		{"--outage=10m", "outage: 10m0s, longest 1h0m0s\n", "10m0s, longest 1h0m0s"},
		{"", "outage: 10m0s, longest 1h0m0s\n", "10m0s, longest 1h0m0s"},
		{"--outage=0", "outage: 0s, longest 1h0m0s\n", "0s, longest 1h0m0s"},
		{"--outage=168h", "outage: 168h0m0s\n", "168h0m0s"},
	} {
		r := provision(slices.DeleteFunc([]string{c.flag}, func(flag string) bool { return flag == "" })...)
		if r.code != exitOK || !strings.Contains(r.stdout, c.printed) || declared() != c.declared {
			t.Errorf("provision %s: %+v, declared %q, want %q", c.flag, r, declared(), c.declared)
		}
	}
	for flags, named := range map[string]string{
		"--outage=59s":                 "allowed is 0, or 1m0s to 168h0m0s",
		"--outage=169h":                "allowed is 0, or 1m0s to 168h0m0s",
		"--outage=90.5s":               "in whole seconds",
		"--outage=-1h":                 "allowed is 0, or 1m0s to 168h0m0s",
		"--outage=1h --part=enrich":    "--outage needs --part all, ids or snowflake",
		"--outage=an-hour --part=all":  "--outage",
		"--outage=1h --part=snowflake": "", // accepted
	} {
		r := provision(strings.Fields(flags)...)
		if want := map[bool]int{true: exitOK, false: exitUsage}[named == ""]; r.code != want || !strings.Contains(r.stderr, named) {
			t.Errorf("provision %s: %+v, want exit code %d, and %q", flags, r, want, named)
		}
	}
}

// TestUndeclaredOutage: provision without a flag leaves an installation of version
// 0.2.0 as it is, whose workers wait too short for a long outage, and doctor names
// the command for later.
func TestUndeclaredOutage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	js := natstest.JetStream(t, s.nats.Connect(t))
	config, err := js.KeyValue(t.Context(), agreement.BucketName(messages.DefaultPrefix))
	if err == nil {
		err = config.Delete(t.Context(), lease.OutageKey)
	}
	if err != nil {
		t.Fatal(err)
	}
	doctor := func() string { return s.at("doctor --allow-unsynced").stdout }
	if r := s.at("provision"); r.code != exitOK || strings.Contains(r.stdout, "outage") {
		t.Errorf("provision: %+v", r)
	}
	if found := doctor(); !strings.Contains(found, "ok    outage: not declared: ") || !strings.Contains(found, "idworker provision --outage 1h ") {
		t.Errorf("doctor:\n%s", found)
	}
	if r := s.at("provision --outage 1h"); r.code != exitOK || !strings.Contains(r.stdout, "outage: 1h0m0s\n") {
		t.Errorf("provision --outage 1h: %+v", r)
	}
	if found := doctor(); !strings.Contains(found, "ok    outage: snowflake IDs for 1h without JetStream\n") {
		t.Errorf("doctor:\n%s", found)
	}
}
