// Package roles composes what a NATS user of each role may do: from the rights
// that idworker's packages state, and a few that it gives a reason for. It is
// the one source of idworker rights and of nats.conf.
package roles

import (
	"fmt"
	"strings"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// User is a user of a NATS server.
type User struct {
	Role, Name, Account string
	Inbox               string // the prefix of its inboxes
	Rights              rights.Rights
}

// PasswordVariable is the environment variable with the user's password.
func (u User) PasswordVariable() string {
	return "IDS_" + strings.ToUpper(strings.ReplaceAll(u.Name, "-", "_")) + "_PASSWORD"
}

// Users are all users of nats.conf but that of the system account.
func Users() []User { return UsersOf(messages.DefaultPrefix) }

// UsersOf are the users of nats.conf with another prefix of idworker's subjects.
func UsersOf(p messages.Prefix) (all []User) {
	orders := func(name string, to ...string) Scope {
		return Scope{Prefix: p, Name: name, Source: "ORDERS", Target: "ORDERS_READY", To: to}
	}
	for _, u := range []struct {
		role  string
		scope Scope
	}{
		{"worker", Scope{Prefix: p}},
		{"generator", Scope{Prefix: p}},
		{"loader", Scope{Prefix: p}},
		{"admin", Scope{Prefix: p}},
		{"monitor", Scope{Prefix: p}},
		{"backup", Scope{Prefix: p}},
		{"restore", Scope{Prefix: p}},
		{"caller", Scope{Prefix: p}},
		{"caller", Scope{Prefix: p, Name: "order", Tags: []string{"order"}}},
		{"enricher", orders("enricher", "orders.ready.>", "orders.dead")},
		{"auditor", orders("orders-auditor")},
		{"enrich-admin", orders("orders-admin", "orders.raw.>")},
	} {
		user, err := Of(u.role, u.scope)
		if err != nil {
			panic(err) // the table above is wrong
		}
		all = append(all, user)
	}
	return all
}

// UserNamed is a user of nats.conf, or one whom no server lets in.
func UserNamed(name string) User {
	for _, u := range Users() {
		if u.Name == name {
			return u
		}
	}
	return User{Name: name}
}

// Scope is the part of an installation that a user's rights are about.
type Scope struct {
	Prefix messages.Prefix
	Name   string   // the user's; empty is the role
	Tags   []string // all that a caller may request; none is every tag, and snowflake IDs

	// The streams of an enrichment, and the subjects that its enricher or
	// administrator publishes to.
	Source, Target string
	To             []string
}

// Of is the user of a role. The error names what is missing.
func Of(role string, s Scope) (User, error) {
	for _, k := range kinds {
		if k.name != role {
			continue
		}
		if k.enriches && (s.Source == "" || s.Target == "") {
			return User{}, fmt.Errorf("role %s: its streams are missing", role)
		}
		u := User{Role: role, Name: role, Account: k.account, Inbox: k.inbox}
		if s.Name != "" {
			u.Name = s.Name
		}
		switch {
		case role == "caller" && u.Name == role:
			u.Inbox = "_INBOX_caller.any"
		case u.Inbox == "":
			u.Inbox = "_INBOX_" + u.Name
		case strings.HasSuffix(u.Inbox, "."):
			u.Inbox += u.Name
		}
		u.Rights = rights.Join(k.rights(s, u.Inbox), rights.Subscribe(u.Inbox+".>"))
		return u, nil
	}
	return User{}, fmt.Errorf("role %s: must be one of %s", role, strings.Join(Names(), ", "))
}

// Names are the names of all roles.
func Names() (all []string) {
	for _, k := range kinds {
		all = append(all, k.name)
	}
	return all
}

// About describes a role in a line.
func About(role string) string {
	for _, k := range kinds {
		if k.name == role {
			return k.about
		}
	}
	return ""
}
