package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/templates"
)

// rightsCmd prints what the NATS user of a role may do. It needs no server.
type rightsCmd struct {
	Role    *string         `help:"Role: ${enum} (default: list them)." enum:"${roles}" placeholder:"ROLE" env:"-"`
	Format  string          `help:"Format: conf for nats.conf, nsc for operator mode, or json." default:"conf" enum:"conf,nsc,json" env:"-"`
	Prefix  messages.Prefix `help:"Prefix of subjects, streams and buckets." default:"ids"`
	Name    string          `help:"User's name (default: the role)." placeholder:"USER" env:"-"`
	Account string          `help:"User's account (default: as in nats.conf)." placeholder:"ACCOUNT" env:"-"`

	Tag []string `help:"Of a caller: its only tags or patterns, without snowflake IDs." placeholder:"TAG" sep:"none" env:"-"`

	From       string   `help:"Of an enrichment: source stream." placeholder:"STREAM" env:"-"`
	Target     string   `help:"Of an enrichment: target stream." placeholder:"STREAM" env:"-"`
	To         []string `help:"Of an enricher: subjects for stamped events; of enrich-admin: for source events." placeholder:"SUBJECT" sep:"none" env:"-"`
	DeadLetter string   `help:"Of an enricher: subject for events that cannot be stamped." placeholder:"SUBJECT" env:"-"`
}

// Run prints the user in the format, or all roles.
func (c *rightsCmd) Run(out output) error {
	if err := c.check(); err != nil {
		return problem.Usage(err)
	}
	out.JSON = c.Format == "json"
	if c.Role == nil {
		list := roleList{Users: []userRights{}}
		for _, u := range roles.UsersOf(c.Prefix) {
			list.Users = append(list.Users, rightsOf(u))
		}
		return out.Print(list)
	}
	s := roles.Scope{Prefix: c.Prefix, Name: c.Name, Tags: c.Tag, Source: c.From, Target: c.Target, To: c.To}
	if c.DeadLetter != "" {
		s.To = append(s.To, c.DeadLetter)
	}
	user, err := roles.Of(*c.Role, s)
	if err != nil {
		return err
	}
	user.Account = cmp.Or(c.Account, user.Account)
	printed := rightsOf(user)
	printed.write = map[string]func(io.Writer, roles.User) error{"conf": writeConf, "nsc": writeNSC}[c.Format]
	return out.Print(printed)
}

// check checks the flags: which the role needs, which it must not have, and
// their values. A wildcard in a name would widen a right, and nsc replaces {{…}}.
func (c *rightsCmd) check() error {
	role := ""
	if c.Role != nil {
		role = *c.Role
	}
	enricher, caller := []string{"enricher"}, []string{"caller"}
	enriching := []string{"enricher", "auditor", "enrich-admin"}
	const token, stream = "letters, digits, _ and -", "a stream's name, no bucket's, without dots, wildcards, braces and spaces"
	for _, f := range []struct {
		flag   string
		values []string
		roles  []string // that may have it; nil is all
		needed bool     // by these roles
		ok     func(string) bool
		what   string // is allowed
	}{
		{"--name", optional(c.Name), nil, false, isToken, token},
		{"--account", optional(c.Account), nil, false, isToken, token},
		{"--tag", c.Tag, caller, false, isTags, "a tag, or a pattern such as order.*"},
		{"--from", optional(c.From), enriching, true, isStream, stream},
		{"--target", optional(c.Target), enriching, true, isStream, stream},
		{"--to", c.To, []string{"enricher", "enrich-admin"}, role == "enricher", c.isOthers, "a subject such as orders.ready.>"},
		{"--dead-letter", optional(c.DeadLetter), enricher, false, c.isOthers, "a subject such as orders.dead"},
	} {
		given := len(f.values) > 0
		mine := f.roles == nil || slices.Contains(f.roles, role)
		switch {
		case !given && f.needed && mine:
			return fmt.Errorf("--role %s needs %s", role, f.flag)
		case !given:
			continue
		case role == "":
			return fmt.Errorf("%s needs --role", f.flag)
		case !mine:
			return fmt.Errorf("%s is not for --role %s, only for %s", f.flag, role, strings.Join(f.roles, ", "))
		}
		for _, v := range f.values {
			if !f.ok(v) {
				return fmt.Errorf("%s %.100q: allowed is %s", f.flag, v, f.what)
			}
		}
	}
	if role == "monitor" && c.Account == "IDS" {
		return fmt.Errorf("--account IDS is not for --role monitor: there it could write, as replies to its requests")
	}
	if role == "caller" && c.Name == "any" {
		return fmt.Errorf("--name any: callers with the default name have this inbox")
	}
	if role == "" && c.Format == "nsc" {
		return fmt.Errorf("--format nsc needs --role")
	}
	return c.Prefix.Check()
}

func optional(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

func isToken(s string) bool { return !strings.Contains(s, ".") && messages.CheckTag(s) == nil }

func isTags(s string) bool {
	return s != ">" && (messages.CheckTag(s) == nil || templates.CheckPattern(s) == nil)
}

func isStream(s string) bool {
	return subject.IsLiteral(s) && !strings.HasPrefix(s, "KV_") && !strings.ContainsAny(s, `. \/"',{}`)
}

// isOthers reports whether s is a subject of others: neither idworker's nor the
// server's, nor a wildcard that includes these.
func (c *rightsCmd) isOthers(s string) bool {
	return subject.IsPattern(s) && !strings.ContainsAny(s[:1], "*>$_") && !strings.ContainsAny(s, " \t\\\"',{}") &&
		!strings.HasPrefix(s+".", string(c.Prefix)+".")
}

// userRights are a user and its rights in JSON, see docs/command-line.md.
type userRights struct {
	Role      string   `json:"role"`
	User      string   `json:"user"`
	Account   string   `json:"account"`
	Inbox     string   `json:"inbox"`
	Publish   subjects `json:"publish"`
	Subscribe subjects `json:"subscribe"`

	user  roles.User
	write func(io.Writer, roles.User) error
}

// subjects are the subjects that a user may use in a way. Deny is empty: all
// that is not allowed is denied.
type subjects struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

func rightsOf(u roles.User) userRights {
	of := func(list []string) subjects { return subjects{append([]string{}, list...), []string{}} }
	return userRights{
		Role: u.Role, User: u.Name, Account: u.Account, Inbox: u.Inbox,
		Publish: of(u.Rights.Publish), Subscribe: of(u.Rights.Subscribe), user: u,
	}
}

// Text implements report.
func (u userRights) Text(w io.Writer) error { return u.write(w, u.user) }

// roleList are all roles, or in JSON the users of nats.conf.
type roleList struct {
	Users []userRights `json:"users"`
}

// Text implements report.
func (roleList) Text(w io.Writer) error {
	for _, role := range roles.Names() {
		if _, err := fmt.Fprintf(w, "%-13s %s\n", role, roles.About(role)); err != nil {
			return err
		}
	}
	return nil
}

// writeConf writes the user as in nats.conf.
func writeConf(w io.Writer, u roles.User) error {
	list := func(all []string) string { return "\n    \"" + strings.Join(all, "\"\n    \"") + "\"\n  " }
	_, err := fmt.Fprintf(w, `# In account %s: %s. Needs --inbox-prefix %s.
{ user: %s, password: $%s, permissions: {
  publish: [%s]
  subscribe: [%s]
} }
`, u.Account, roles.About(u.Role), u.Inbox, u.Name, u.PasswordVariable(), list(u.Rights.Publish), list(u.Rights.Subscribe))
	return err
}

// writeNSC writes commands that make a signing key with the rights, and a user
// of it. Names have no character that a shell could interpret, subjects do. A
// second key of a role would be a trap: nsc takes either of them.
func writeNSC(w io.Writer, u roles.User) error {
	list := func(all []string) string { return "'" + strings.Join(all, ",") + "'" }
	_, err := fmt.Fprintf(w, `# Role %[4]s: %[2]s. Needs --inbox-prefix %[3]s.
nsc describe user --account %[1]s --name %[4]s >/dev/null 2>&1 && echo 'account %[1]s has a user %[4]s already' >&2 && false
nsc edit signing-key --account %[1]s --sk generate --role %[4]s \
  --allow-pub %[5]s \
  --allow-sub %[6]s
nsc add user --account %[1]s --name %[4]s --private-key %[4]s
nsc generate creds --account %[1]s --name %[4]s --output-file %[4]s.creds
`, u.Account, roles.About(u.Role), u.Inbox, u.Name, list(u.Rights.Publish), list(u.Rights.Subscribe))
	if err != nil || u.Role != "monitor" {
		return err
	}
	// A monitor's requests reach IDS from its own account, as in nats.conf, and
	// from no other.
	for _, request := range u.Rights.Publish {
		responses := "Singleton"
		switch {
		case strings.HasPrefix(request, "$SYS."):
			continue // the owner of the system account exports it
		case strings.HasPrefix(request, "$SRV."):
			responses = "Stream"
		}
		if _, err := fmt.Fprintf(w, `nsc add export --account IDS --service --private --response-type %[3]s --subject '%[2]s'
nsc generate activation --account IDS --target-account %[1]s --subject '%[2]s' --output-file %[4]s.jwt
nsc add import --account %[1]s --name '%[2]s' --token %[4]s.jwt
`, u.Account, request, responses, u.Name); err != nil {
			return err
		}
	}
	return nil
}
