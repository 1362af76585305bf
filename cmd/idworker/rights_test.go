package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/testing/natstest"
)

// rightsFlags are the flags of idworker rights that print a user of nats.conf.
func rightsFlags(u roles.User) []string {
	flags := []string{"rights", "--role", u.Role, "--name", u.Name}
	switch u.Name {
	case "order":
		flags = append(flags, "--tag", "order")
	case "orders-admin":
		flags = append(flags, "--to", "orders.raw.>")
	case "enricher":
		flags = append(flags, "--to", "orders.ready.>", "--dead-letter", "orders.dead")
	}
	if u.Account == "ORDERS" || u.Account == "ORDERS_AUDIT" {
		flags = append(flags, "--from", "ORDERS", "--target", "ORDERS_READY")
	}
	return flags
}

// printedConf is nats.conf with the users that idworker rights prints, but
// without some of the rights to publish.
func printedConf(t *testing.T, lacks ...string) string {
	t.Helper()
	file, err := os.ReadFile("../../nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	text := string(file)
	t.Setenv("IDS_NATS_DATA", t.TempDir())
	t.Setenv("IDS_SYS_PASSWORD", "secret")
	for _, u := range roles.Users() {
		t.Setenv(u.PasswordVariable(), "secret")
		r := command(t, rightsFlags(u)...)
		if r.code != exitOK {
			t.Fatalf("%s: %+v", u.Name, r)
		}
		user := regexp.MustCompile(`(?s)\{ user: ` + u.Name + `,.*?\n      \} \}\n`)
		if len(user.FindAllString(text, -1)) != 1 {
			t.Fatalf("nats.conf has not one user %s", u.Name)
		}
		printed := r.stdout
		for _, right := range lacks {
			printed = strings.Replace(printed, `"`+right+`"`, "", 1)
		}
		text = user.ReplaceAllLiteralString(text, printed)
	}
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newPrintedSite is a NATS server with the users that idworker rights prints,
// and a function that returns a user's flags.
func newPrintedSite(t *testing.T, lacks ...string) (*site, func(user string) []string) {
	t.Helper()
	path := printedConf(t, lacks...)
	ns := natstest.Start(t, func(o *server.Options) {
		conf, err := server.ProcessConfigFile(path)
		if err != nil {
			t.Fatal(err)
		}
		conf.Host, conf.Port, conf.StoreDir, conf.NoSigs, conf.NoLog = o.Host, o.Port, o.StoreDir, true, o.NoLog
		*o = *conf
	})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &site{T: t, nats: ns, url: ns.URL()}, func(user string) []string {
		return []string{"--user", user, "--password-file", password, "--inbox-prefix", roles.UserNamed(user).Inbox}
	}
}

// TestPrintedRightsSuffice: with the users that it prints, each role works, and
// a monitor reads the state.
func TestPrintedRightsSuffice(t *testing.T) {
	s, as := newPrintedSite(t)
	s.must("provision --part ids", as("admin")...)
	s.must("tag create order", as("admin")...)
	s.serve(append(as("worker"), "--role", "worker")...)
	s.serve(append(as("loader"), "--role", "loader")...)
	for _, line := range []string{"get order", "get --snowflake"} {
		s.answered(line, as("caller")...)
	}
	s.answered("get order", as("order")...)
	for role, user := range map[string]string{"worker": "worker", "loader": "loader", "admin": "admin", "monitor": "monitor", "caller": "caller"} {
		s.answered("doctor --role "+role, as(user)...)
	}
	natstest.Eventually(t, "a monitor sees the processes", func() bool {
		return strings.Contains(s.must("status", as("monitor")...), "workers 1, loaders 1,")
	})
	if ls := s.must("tag ls", as("monitor")...); !strings.Contains(ls, "order") {
		t.Errorf("a monitor's tags:\n%s", ls)
	}
	for _, line := range []string{"get order", "tag set order --step 5", "tag raise order --next 1000000", "provision --part ids"} {
		if r := s.at(line, as("monitor")...); r.code == exitOK {
			t.Errorf("a monitor may: %s", line)
		}
	}
}

// TestSpareRightsAreNamed: doctor only warns of the rights that a process works
// without, as with the nats.conf of version 0.2.0.
func TestSpareRightsAreNamed(t *testing.T) {
	s, as := newPrintedSite(t, "ids.process.loader", "$KV.ids_config.regressed")
	s.must("provision --part ids", as("admin")...)
	for role, spare := range map[string]string{"worker": "publish ids.process.loader", "loader": "publish $KV.ids_config.regressed, publish ids.process.loader"} {
		r := s.at("doctor --role "+role, as(role)...)
		if want := "warn  rights: the user may not " + spare + ", and its process works without; "; !strings.Contains(r.stdout, want) {
			t.Errorf("%s\n%+v", want, r)
		}
	}
}

// TestMissingRightIsNamed: doctor names the only right that a user lacks.
func TestMissingRightIsNamed(t *testing.T) {
	s, as := newPrintedSite(t, "ids.reserve")
	s.must("provision --part ids", as("admin")...)
	r := s.at("doctor --role worker", as("worker")...)
	if r.code == exitOK || !strings.Contains(r.stdout, "FAIL  rights: the user may not publish ids.reserve; idworker rights prints those of each role\n") {
		t.Errorf("%+v", r)
	}
}

// TestRightsOfAPrefix: with another prefix, no subject of the first is left.
func TestRightsOfAPrefix(t *testing.T) {
	t.Parallel()
	r := command(t, "rights", "--format", "json", "--prefix", "shop")
	var found struct{ Users []userRights }
	if err := json.Unmarshal([]byte(r.stdout), &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Users) != len(roles.Users()) {
		t.Errorf("%d users", len(found.Users))
	}
	old := regexp.MustCompile(`\b(ids|IDS)[._]`)
	for _, u := range found.Users {
		for _, subject := range slices.Concat(u.Publish.Allow, u.Subscribe.Allow) {
			if old.MatchString(subject) || strings.HasSuffix(subject, " ids") {
				t.Errorf("%s: %s", u.User, subject)
			}
		}
	}
}

// printedRights are the rights in what idworker rights prints for a user, in each
// format.
var printedRights = map[string]func(t *testing.T, printed string) rights.Rights{
	"conf": func(t *testing.T, printed string) rights.Rights {
		path := filepath.Join(t.TempDir(), "nats.conf")
		if err := os.WriteFile(path, []byte("accounts { A { users: [\n"+printed+"] } }"), 0o600); err != nil {
			t.Fatal(err)
		}
		conf, err := server.ProcessConfigFile(path)
		if err != nil {
			t.Fatal(err)
		}
		given := conf.Users[0].Permissions
		if len(conf.Users) != 1 || given.Response != nil || len(given.Publish.Deny)+len(given.Subscribe.Deny) > 0 {
			t.Errorf("more than two lists:\n%s", printed)
		}
		return rights.Rights{Publish: given.Publish.Allow, Subscribe: given.Subscribe.Allow}
	},
	"nsc": func(t *testing.T, printed string) rights.Rights {
		found := regexp.MustCompile(`--((?:allow|deny)\S*) '([^']+)'`).FindAllStringSubmatch(printed, -1)
		if len(found) != 2 || found[0][1] != "allow-pub" || found[1][1] != "allow-sub" {
			t.Fatalf("not two lists:\n%s", printed)
		}
		return rights.Rights{Publish: strings.Split(found[0][2], ","), Subscribe: strings.Split(found[1][2], ",")}
	},
	"json": func(t *testing.T, printed string) rights.Rights {
		var u userRights
		if err := json.Unmarshal([]byte(printed), &u); err != nil {
			t.Fatal(err)
		}
		return rights.Rights{Publish: u.Publish.Allow, Subscribe: u.Subscribe.Allow}
	},
}

// TestEachFormatGrantsTheSame: in each format, a user has the rights that its
// role states: none is missing, none is extra.
func TestEachFormatGrantsTheSame(t *testing.T) {
	for _, u := range roles.Users() {
		t.Setenv(u.PasswordVariable(), "secret")
		for format, read := range printedRights {
			r := command(t, append(rightsFlags(u), "--format", format)...)
			if got := rights.Join(read(t, r.stdout)); !slices.Equal(got.Publish, u.Rights.Publish) || !slices.Equal(got.Subscribe, u.Rights.Subscribe) {
				t.Errorf("%s as %s:\n%v, want\n%v", u.Name, format, got, u.Rights)
			}
		}
	}
}

// TestRightsForNSC: the commands are safe in a shell.
func TestRightsForNSC(t *testing.T) {
	t.Parallel()
	for _, u := range roles.Users() {
		r := command(t, append(rightsFlags(u), "--format", "nsc")...)
		for line := range strings.Lines(r.stdout) {
			bare := regexp.MustCompile(`'[^']+'`).ReplaceAllString(line, "")
			bare = strings.Replace(bare, " >/dev/null 2>&1 && echo  >&2 && false", "", 1) // our own
			if !strings.HasPrefix(line, "# ") && !regexp.MustCompile(`^[a-zA-Z0-9_. -]+\\?\n$`).MatchString(bare) {
				t.Errorf("%s: %s", u.Name, line)
			}
		}
	}
}

// TestRightsRefuses: flags that could widen or lose a right are refused.
func TestRightsRefuses(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--role boss":                        `--role must be one of "worker",`,
		"--role enricher":                    "--role enricher needs --from",
		"--role auditor --from A":            "--role auditor needs --target",
		"--role worker --tag order":          "--tag is not for --role worker, only for caller",
		"--tag order":                        "--tag needs --role",
		"--format nsc":                       "--format nsc needs --role",
		"--role caller --tag >":              `--tag ">": allowed is a tag, or a pattern such as order.*`,
		"--role caller --tag ":               `--tag "": allowed is a tag`,
		"--role caller --name any.>":         `--name "any.>": allowed is letters, digits, _ and -`,
		"--role worker --account I.D":        `--account "I.D": allowed is letters, digits, _ and -`,
		"--role worker --prefix IDS":         "bad prefix",
		"--role auditor --from * --target B": `--from "*": allowed is a stream's name, no bucket's, without dots, wildcards, braces and spaces`,
		"--role enrich-admin --from KV_ids_register --target B":           `--from "KV_ids_register": allowed is a stream's name, no bucket's`,
		"--role auditor --from {{name()}} --target B":                     `--from "{{name()}}": allowed is a stream's name`,
		"--role enricher --from A --target B --to a.{{tag(x)}}":           `--to "a.{{tag(x)}}": allowed is a subject`,
		"--role monitor --account IDS":                                    "--account IDS is not for --role monitor",
		"--role caller --name any":                                        "--name any: callers with the default name have this inbox",
		"--role enricher --from A --target B --to $KV.>":                  `--to "$KV.>": allowed is a subject such as orders.ready.>`,
		"--role enricher --from A --target B --to ids.x":                  `--to "ids.x": allowed is a subject such as orders.ready.>`,
		"--role enricher --from A --target B --to a.b --dead-letter *.b.": `--dead-letter "*.b."`,
	} {
		r := command(t, append([]string{"rights"}, strings.Split(line, " ")...)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v, want %s", line, r, want)
		}
	}
}
