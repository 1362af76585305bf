package main

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// TestPermits: what a server's list of permissions allows, as the server itself reads it.
func TestPermits(t *testing.T) {
	type list = server.SubjectPermission
	allow := func(patterns ...string) *list { return &list{Allow: patterns} }
	for _, test := range []struct {
		list    *list
		subject string
		want    bool
	}{
		{nil, "a.b", true},
		{&list{}, "a.b", true},
		{allow("a.b"), "a.b", true},
		{allow("a.b"), "A.b", false},
		{allow("a.b"), "a.c", false},
		{allow("a.b"), "a.b.c", false},
		{allow("a.b", "c"), "c", true},
		{allow("a.*"), "a.b", true},
		{allow("a.*"), "a.*", true},
		{allow("a.*"), "a", false},
		{allow("a.*"), "a.b.c", false},
		{allow("a.*"), "a.>", false}, // part of what it matches is not enough
		{allow("a.b"), "a.*", false},
		{allow("a.>"), "a.b.c", true},
		{allow("a.>"), "a.>", true},
		{allow("a.>"), "a.*", true},
		{allow("a.>"), "a", false},
		{allow("a.>"), ">", false},
		{allow(">"), "$JS.API.INFO", true},

		{allow("a.> q"), "a.> q", true},
		{allow("a.> q"), "a.b q", true},
		{allow("a.> q"), "a.> other", false},
		{allow("a.> q"), "a.>", false},
		{allow("a.>"), "a.> q", true}, // without a group, any group

		{&list{Deny: []string{"a.b"}}, "a.c", true},
		{&list{Deny: []string{"a.b"}}, "a.b", false},
		{&list{Deny: []string{"a.b"}}, "a.*", false}, // some of it is denied
		{&list{Deny: []string{"a.*"}}, "a.b", false},
		{&list{Deny: []string{"a.b q"}}, "a.b q", false},
		{&list{Allow: []string{">"}, Deny: []string{"a.>"}}, "a.b.c", false},
		{&list{Allow: []string{">"}, Deny: []string{"a.>"}}, "b", true},
		{&list{Allow: []string{"b"}, Deny: []string{"a"}}, "c", false},
	} {
		if got := permits(test.list, test.subject); got != test.want {
			t.Errorf("%+v permits %q: %v, want %v", test.list, test.subject, got, test.want)
		}
	}
}
