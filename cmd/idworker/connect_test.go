package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/secretfile"
)

const canary = "Canary-8b20"

func writeFile(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// isUsage fails the test unless the error is about the command line, contains a
// text, and shows no password.
func isUsage(t *testing.T, what string, err error, says string) {
	t.Helper()
	if exitCode(err) != exitUsage || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), canary) {
		t.Errorf("%s: %v, want a usage error that says %q", what, err, says)
	}
}

// TestSettingsThatDoNotFit: each is rejected first, by the flag's name.
func TestSettingsThatDoNotFit(t *testing.T) {
	text := writeFile(t, canary)
	for name, test := range map[string]struct {
		settings natsFlags
		says     string
	}{
		"two logins":              {natsFlags{User: "u", Creds: text}, "--creds, --nkey and --user"},
		"three logins":            {natsFlags{User: "u", Creds: text, Nkey: text}, "--creds, --nkey and --user"},
		"password without a user": {natsFlags{PasswordFile: text}, "--password-file"},
		"certificate alone":       {natsFlags{TLSCert: text}, "--tlscert and --tlskey"},
		"key alone":               {natsFlags{TLSKey: text}, "--tlscert and --tlskey"},
		"bad prefix":              {natsFlags{Prefix: "a.b"}, "prefix"},
		"bad URL":                 {natsFlags{Server: "nats://u:" + canary + "#@a"}, "--server"},
		"bad credentials":         {natsFlags{Creds: text}, "--creds"},
		"bad nkey":                {natsFlags{Nkey: text}, "--nkey"},
		"bad certificate":         {natsFlags{TLSCert: text, TLSKey: text}, "--tlscert, --tlskey"},
		"bad CA":                  {natsFlags{TLSCA: text}, "--tlsca"},
		"bad inbox":               {natsFlags{InboxPrefix: "a.>"}, "--inbox-prefix"},
		"no password file":        {natsFlags{User: "u", PasswordFile: text + "x"}, "--password-file"},
	} {
		if test.settings.Prefix == "" {
			test.settings.Prefix = "ids"
		}
		_, err := test.settings.dialer(new(secretfile.Set))
		isUsage(t, name, err, test.says)
	}
	good := natsFlags{Server: "nats://u:" + canary + "@a:1", User: "u", InboxPrefix: "_INBOX_u", Prefix: "ids"}
	if d, err := good.dialer(new(secretfile.Set)); err != nil || len(d.options) != 3 {
		t.Errorf("%d options, %v; want one for each setting", len(d.options), err)
	}
}

// TestInstallationShown: an installation is shown without its login.
func TestInstallationShown(t *testing.T) {
	for want, i := range map[string]natsFlags{
		"at nats://127.0.0.1:4222": {},
		"of context production":    {Context: "production"},
		"at nats://xxxxx@a:1,b:2":  {Server: "nats://u:" + canary + "@a:1,b:2", Context: "production"},
	} {
		if got := i.String(); got != want {
			t.Errorf("shown as %q, want %q", got, want)
		}
	}
}

// TestPassword: a file precedes the environment, and our variable that of NATS.
func TestPassword(t *testing.T) {
	for _, test := range []struct {
		name      string
		ours      string
		nats      string
		file      string // not set if empty
		want, err string
	}{
		{"none", "", "", "", "", ""},
		{"NATS' variable", "", "n", "", "n", ""},
		{"both variables", "o", "n", "", "o", ""},
		{"file", "o", "n", "f", "f", ""},
		{"line ends are not part of it", "", "", "f\r\n\n", "f", ""},
		{"spaces and special characters are", "", "", " p@/#?%ä \n", " p@/#?%ä ", ""},
		{"empty file", "o", "n", "\n", "", "is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("IDWORKER_PASSWORD", test.ours)
			t.Setenv("NATS_PASSWORD", test.nats)
			i := natsFlags{User: "u"}
			if test.file != "" {
				i.PasswordFile = writeFile(t, test.file)
			}
			option, err := i.userAndPassword(new(secretfile.Set))
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%v, want %q", err, test.err)
			}
			if err != nil {
				return
			}
			var o nats.Options
			if err := option(&o); err != nil {
				t.Fatal(err)
			}
			user, got := o.User, o.Password
			if o.UserInfo != nil {
				user, got = o.UserInfo()
			}
			if user != "u" || got != test.want {
				t.Errorf("%q, %q; want %q", user, got, test.want)
			}
		})
	}
}

// TestSecretsOnTheCommandLine: a login in a URL, and a store's password, are
// rejected on the command line and not shown.
func TestSecretsOnTheCommandLine(t *testing.T) {
	const store = "--store: other users of this machine can read a password"
	for line, says := range map[string]string{
		"":                                                   "",
		"get order":                                          "",
		"get --server a:1 order":                             "",
		"get --server=nats://a:1,b:2 order":                  "",
		"get order --server":                                 "",
		"get u@example.org":                                  "",
		"serve --store mysql://u@tcp(a:1)/db":                "",
		"serve --store postgres://a:1/db":                    "",
		"get --server nats://u:" + canary + "@a":             "--server",
		"get --server=nats://" + canary + "@a":               "--server",
		"get --server=" + canary + "@a":                      "--server",
		"get --server a:1,u:" + canary + "@b":                "--server",
		"get order --server=NATS://u:%40@[::1]:1":            "--server",
		"serve --store mysql://u:" + canary + "@tcp(a:1)/db": store,
		"tag ls --store=postgres://u:" + canary + "@a/db":    store,
		"doctor --store oracle://u:" + canary + "@a/db":      store,
	} {
		if says == "" {
			if err := checkSecrets(strings.Fields(line)); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			continue
		}
		if r := command(t, strings.Fields(line)...); r.code != exitUsage || !strings.Contains(r.stderr, says) || strings.Contains(r.stderr, canary) {
			t.Errorf("%s: %+v, want a usage error that says %q", line, r, says)
		}
	}
}

func TestSplitAddress(t *testing.T) {
	for text, want := range map[string]struct {
		host string
		port int // 0 if rejected
	}{
		"127.0.0.1:4222": {"127.0.0.1", 4222},
		"[::1]:1":        {"::1", 1},
		":65535":         {"", 65535},
		"host:1":         {"host", 1},
		"":               {}, "127.0.0.1": {}, "::1:1": {}, "a:b": {}, "a:": {}, "a:0": {}, "a:-1": {}, "a:65536": {}, "a:1:2": {}, "a: 1": {},
		"a:99999999999999999999": {},
	} {
		host, port, err := splitAddress("--listen", text)
		if host != want.host || port != want.port {
			t.Errorf("%q: %q and %d", text, host, port)
		}
		if want.port == 0 {
			isUsage(t, text, err, "--listen")
		}
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.8.9.1": true, "::1": true, "localhost": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "example.org": false,
	} {
		if isLoopback(host) != want {
			t.Errorf("%q: want %v", host, want)
		}
	}
}

// TestStoreFlags: the file precedes the flag. An error names the malformed
// flag, without the password.
func TestStoreFlags(t *testing.T) {
	const dsn = "mysql://u:" + canary + "@tcp(127.0.0.1:1)/shop"
	for name, test := range map[string]struct {
		flags storeFlags
		kind  backend.StoreKind
	}{
		"default":             {storeFlags{Store: "jetstream", Table: "leaf_alloc"}, backend.JetStream},
		"flag":                {storeFlags{Store: dsn, Table: "leaf_alloc"}, backend.MySQL},
		"file":                {storeFlags{Store: "jetstream", StoreFile: writeFile(t, "\n"+dsn+" \r\n"), Table: "leaf_alloc"}, backend.MySQL},
		"file with jetstream": {storeFlags{Store: dsn, StoreFile: writeFile(t, "jetstream"), Table: "leaf_alloc"}, backend.JetStream},
	} {
		if source, err := test.flags.backend(); err != nil || source.Kind() != test.kind {
			t.Errorf("%s: %s, %v; want %s", name, source.Kind(), err, test.kind)
		}
	}
	for says, flags := range map[string]storeFlags{
		"--store: expected jetstream":            {Store: "oracle://u:" + canary + "@a/b", Table: "leaf_alloc"},
		"--store, --table: malformed DSN":        {Store: "mysql://u:" + canary + "@:::/b", Table: "leaf_alloc"},
		"--store, --table: malformed table name": {Store: dsn, Table: "a b"},
		"--store-file: open":                     {Store: dsn, StoreFile: filepath.Join(t.TempDir(), "missing"), Table: "leaf_alloc"},
	} {
		_, err := flags.backend()
		isUsage(t, says, err, says)
	}
	_, err := storeFlags{Store: dsn, StoreFile: writeFile(t, ""), Table: "leaf_alloc"}.backend()
	isUsage(t, "empty file", err, "--store")
}

// TestGetArguments: the arguments of get.
func TestGetArguments(t *testing.T) {
	for line, want := range map[string]struct {
		tag  string
		n    int64
		code int
	}{
		"order":                     {"order", 1, exitOK},
		"order 7":                   {"order", 7, exitOK},
		"--snowflake":               {"", 1, exitOK},
		"--snowflake 7":             {"", 7, exitOK},
		"":                          {"", 0, exitUsage},
		"a..b":                      {"", 0, exitUsage},
		"or*er":                     {"", 0, exitUsage},
		"order 0":                   {"", 0, exitUsage},
		"order -1":                  {"", 0, exitUsage},
		"order 1e3":                 {"", 0, exitUsage},
		"order 1 2":                 {"", 0, exitUsage},
		"--snowflake order":         {"", 0, exitUsage},
		"order 9223372036854775808": {"", 0, exitUsage},
	} {
		words := strings.Fields(line)
		g := getCmd{What: words}
		if len(words) > 0 && words[0] == "--snowflake" {
			g = getCmd{What: words[1:], Snowflake: true}
		}
		tag, n, err := g.parse()
		if exitCode(err) != want.code || err == nil && (tag != want.tag || n != want.n) {
			t.Errorf("get %s: %q, %d, %v", line, tag, n, err)
		}
	}
}
