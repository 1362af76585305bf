package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	proc "github.com/idworker/idworker/testing/process"
)

// nsc is the command that makes accounts and users, as testing/nsc pins it.
var nsc = sync.OnceValues(func() (string, error) {
	return proc.Build(buildDir, "nsc", "github.com/nats-io/nsc/v2", "-C", "../nsc")
})

// operator is a real nats-server in operator mode, whose accounts and users come
// from nsc. Its users' creds files are in its folder.
type operator struct {
	*production
	dir string
}

// startOperator makes an operator and a system account, and starts a server with
// a full resolver. It has no other account yet.
func startOperator(t *testing.T) *operator {
	t.Helper()
	if _, err := nsc(); err != nil {
		t.Fatal(err)
	}
	o := &operator{dir: t.TempDir(), production: &production{t: t, address: freeport.Address(t), data: t.TempDir()}}
	o.nsc("add operator --name example --sys --generate-signing-key")
	o.nsc("edit operator --require-signing-keys --account-jwt-server-url nats://" + o.address)
	o.nsc("generate config --nats-resolver --sys-account SYS --config-file resolver.conf")
	resolver, err := os.ReadFile(filepath.Join(o.dir, "resolver.conf"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, o.dir, "resolver.conf", strings.Replace(string(resolver), "'./jwt'", "'"+o.resolved()+"'", 1))
	o.conf = write(t, o.dir, "server.conf", "jetstream { store_dir: $IDS_NATS_DATA, sync_interval: always, max_file_store: 10GB }\ninclude resolver.conf\n")
	o.start()
	return o
}

// resolved is the folder where the server keeps accounts.
func (o *operator) resolved() string { return filepath.Join(o.dir, "jwt") }

// sh has a shell execute commands, all of which must succeed, and returns their
// output.
func (o *operator) sh(commands string) string {
	o.t.Helper()
	bin, _ := nsc()
	p, err := proc.Program{Binary: "/bin/sh", Dir: o.dir, Stdin: commands, Env: []string{
		"PATH=" + filepath.Dir(bin) + ":" + os.Getenv("PATH"), "HOME=" + o.dir,
		"XDG_CONFIG_HOME=" + o.dir + "/config", "XDG_DATA_HOME=" + o.dir + "/data",
	}}.Run("-e")
	if err != nil {
		o.t.Fatalf("%s\n%v", commands, err)
	}
	return p.Stdout.String()
}

func (o *operator) nsc(command string) string {
	o.t.Helper()
	return o.sh("nsc " + command)
}

// make makes the user of a role with the commands of idworker rights.
func (o *operator) make(role string, args ...string) {
	o.t.Helper()
	o.sh(settings{}.mustRun(o.t, append([]string{"rights", "--format", "nsc", "--role", role}, args...)...).stdout)
}

// as are the settings that log idworker in with a creds file of the folder.
func (o *operator) as(user, inbox string) settings {
	return settings{dir: o.dir, env: []string{"NATS_URL=nats://" + o.address, "NATS_CREDS=" + filepath.Join(o.dir, user+".creds"), "IDWORKER_INBOX_PREFIX=" + inbox}}
}

// role are the settings of a user of nats.conf.
func (o *operator) role(name string) settings { return o.as(name, roles.UserNamed(name).Inbox) }

// creds reads a creds file: the user, and the seed of its key.
func (o *operator) creds(user string) (*jwt.UserClaims, []byte) {
	o.t.Helper()
	data, err := os.ReadFile(filepath.Join(o.dir, user+".creds"))
	if err != nil {
		o.t.Fatal(err)
	}
	token, err := jwt.ParseDecoratedJWT(data)
	if err != nil {
		o.t.Fatal(err)
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		o.t.Fatal(err)
	}
	key, err := jwt.ParseDecoratedUserNKey(data)
	if err != nil {
		o.t.Fatal(err)
	}
	seed, err := key.Seed()
	if err != nil {
		o.t.Fatal(err)
	}
	return claims, seed
}

// expiring makes creds of a user that are valid for some time.
func (o *operator) expiring(user string, valid time.Duration) []byte {
	o.t.Helper()
	claims, seed := o.creds(user)
	signer := claims.Issuer
	data, err := os.ReadFile(filepath.Join(o.dir, "data/nats/nsc/keys/keys", signer[:1], signer[1:3], signer+".nk"))
	if err != nil {
		o.t.Fatal(err)
	}
	key, err := nkeys.FromSeed(data)
	if err != nil {
		o.t.Fatal(err)
	}
	claims.Expires = time.Now().Add(valid).Unix()
	token, err := claims.Encode(key)
	if err != nil {
		o.t.Fatal(err)
	}
	creds, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		o.t.Fatal(err)
	}
	return creds
}

// account returns an account as the server has it.
func (o *operator) account(name string) *jwt.AccountClaims {
	o.t.Helper()
	key := strings.Trim(strings.TrimSpace(o.nsc("describe account "+name+" --field sub")), `"`)
	token, err := os.ReadFile(filepath.Join(o.resolved(), key+".jwt"))
	if err != nil {
		o.t.Fatal(err)
	}
	claims, err := jwt.DecodeAccountClaims(string(token))
	if err != nil {
		o.t.Fatal(err)
	}
	return claims
}

// TestOperatorMode: on a server in operator mode, users that nsc makes by the
// commands of idworker rights have the rights of their roles, and these suffice.
func TestOperatorMode(t *testing.T) {
	t.Parallel()
	o := startOperator(t)
	o.nsc("add account IDS")
	o.nsc("edit account IDS --js-disk-storage 3G")
	o.nsc("add account IDS_MONITOR")
	o.nsc("add account SHOP")
	users := []roles.User{caller(t, "shop", "order")}
	o.make("caller", "--account", "SHOP", "--name", "shop", "--tag", "order")
	for _, u := range roles.Users() {
		if strings.HasPrefix(u.Account, "IDS") {
			o.make(u.Role)
			users = append(users, u)
		}
	}
	o.nsc("add export --account IDS --name segment --service --subject 'ids.segment.>'")
	o.nsc("add import --account SHOP --src-account IDS --service --remote-subject 'ids.segment.>'")
	o.nsc("push --all")
	again := settings{}.mustRun(t, "rights", "--format", "nsc", "--role", "worker").stdout
	if out := o.sh("if ! sh -e 2>&1 <<'END'\n" + again + "END\nthen echo refused; fi"); out != "account IDS has a user worker already\nrefused\n" {
		t.Errorf("a role's commands, again: %s", out)
	}
	rightsOfKeys(t, o, users)

	admin, shop := o.role("admin"), o.as("shop", "_INBOX_caller.shop")
	admin.mustRun(t, "provision", "--part", "ids", "--new", "--installation", "shop")
	if r := admin.run(t, "doctor", "--role", "admin"); !strings.Contains(r.stdout, "warn  sync: no server reports whether it syncs every write") {
		t.Errorf("doctor without the system account:\n%s", r.stdout)
	}
	o.nsc("add export --account SYS --name jsz --service --response-type Stream --private --subject '$SYS.REQ.SERVER.PING.JSZ'")
	for _, account := range []string{"IDS", "IDS_MONITOR"} {
		o.nsc("generate activation --account SYS --target-account " + account + " --subject '$SYS.REQ.SERVER.PING.JSZ' --output-file jsz.jwt")
		o.nsc("add import --account " + account + " --name jsz --token jsz.jwt")
	}
	o.nsc("push --all")

	o.role("loader").launch(t, "serve", "--role", "loader").serving()
	// The worker's creds expire while it runs.
	const valid = 20 * time.Second
	lasting, brief := o.expiring("worker", time.Hour), o.expiring("worker", valid)
	expires := time.Now().Add(valid)
	write(t, o.dir, "worker.creds", string(brief))
	worker := o.role("worker").launch(t, "serve", "--role", "worker")
	natstest.Eventually(t, "the worker serves, or its creds have expired", func() bool {
		return worker.says("serving\t") > 0 || time.Now().After(expires)
	})
	inTime := worker.says("serving\t") > 0
	write(t, o.dir, "worker.creds", string(lasting))
	worker.serving()

	admin.mustRun(t, "tag", "create", "order")
	for user, args := range map[string][]string{
		"monitor": {"status"},
		"admin":   {"tag", "ls"},
	} {
		o.role(user).succeeds(t, args...)
	}
	o.role("backup").mustRun(t, "backup", filepath.Join(o.dir, "backup"))
	shop.succeeds(t, "get", "order")
	for _, role := range []string{"worker", "loader", "admin", "monitor"} {
		r := o.role(role).succeeds(t, "doctor", "--role", role)
		for _, line := range []string{"ok    sync: every write is synced", "ok    rights: complete for the role " + role} {
			if !strings.Contains(r.stdout, line) {
				t.Errorf("%s: no line %q in\n%s", role, line, r.stdout)
			}
		}
	}

	if v := o.violations(); len(v) > 0 {
		t.Errorf("the server refused:\n%s", strings.Join(v, ""))
	}
	if r := shop.run(t, "get", "invoice"); !strings.Contains(r.stderr, `Publish to "ids.segment.invoice"`) {
		t.Errorf("another tag: %d, %s", r.code, r.stderr)
	}

	if inTime {
		natstest.Eventually(t, "the worker is back with new creds", func() bool {
			at := strings.Index(worker.stderr.String(), "authentication expired")
			return worker.hasEnded() || at > 0 && strings.Contains(worker.stderr.String()[at:], "NATS connection restored")
		})
	}
	shop.succeeds(t, "get", "order")

	// A key's rights change: its users are disconnected, and come back.
	before := worker.says("NATS connection restored")
	o.nsc("edit signing-key --account IDS --sk worker --allow-pub ids.new")
	o.nsc("push --account IDS")
	natstest.Eventually(t, "the worker is back with new rights", func() bool { return worker.says("NATS connection restored") > before || worker.hasEnded() })
	shop.succeeds(t, "get", "order")
	worker.stop(syscall.SIGTERM)
}

// caller is a service that requests IDs of a tag, in an account of its own.
func caller(t *testing.T, name, tag string) roles.User {
	t.Helper()
	u, err := roles.Of("caller", roles.Scope{Prefix: messages.DefaultPrefix, Name: name, Tags: []string{tag}})
	if err != nil {
		t.Fatal(err)
	}
	u.Account = strings.ToUpper(name)
	return u
}

// rightsOfKeys: the accounts have a key for each role, with its rights and no
// more, and their users have none of their own.
func rightsOfKeys(t *testing.T, o *operator, users []roles.User) {
	t.Helper()
	keys := make(map[string]*jwt.UserScope)
	for _, account := range []string{"IDS", "IDS_MONITOR", "SHOP"} {
		for _, scope := range o.account(account).SigningKeys {
			key, ok := scope.(*jwt.UserScope)
			if !ok {
				t.Fatalf("account %s has a key without a role, whose users have all rights", account)
			}
			keys[account+" "+key.Role] = key
		}
	}
	if len(keys) != len(users) {
		t.Errorf("%d keys for %d users", len(keys), len(users))
	}
	for _, u := range users {
		key := keys[u.Account+" "+u.Name]
		if key == nil {
			t.Errorf("there is no key %s in account %s", u.Name, u.Account)
			continue
		}
		has := key.Template.Permissions
		given := rights.Join(rights.Rights{Publish: has.Pub.Allow, Subscribe: has.Sub.Allow})
		if !slices.Equal(given.Publish, u.Rights.Publish) || !slices.Equal(given.Subscribe, u.Rights.Subscribe) {
			t.Errorf("%s has %v, needs %v", u.Name, given, u.Rights)
		}
		if len(has.Pub.Deny)+len(has.Sub.Deny) > 0 || has.Resp != nil {
			t.Errorf("%s: denied %v, %v, responses %v", u.Name, has.Pub.Deny, has.Sub.Deny, has.Resp)
		}
		if claims, _ := o.creds(u.Name); claims.Issuer != key.Key || !claims.HasEmptyPermissions() {
			t.Errorf("user %s has rights of its own, or another key", u.Name)
		}
	}
}

// TestTiersOfAnAccount: in an account with a limit for each number of replicas,
// the register leaves room, and doctor reports the limit in use.
func TestTiersOfAnAccount(t *testing.T) {
	t.Parallel()
	o := startOperator(t)
	o.nsc("add account IDS")
	o.nsc("edit account IDS --js-tier 3 --js-disk-storage 1G")
	o.make("admin")
	o.nsc("push --all")
	admin := o.role("admin")
	if r := admin.run(t, "provision", "--part", "ids", "--replicas", "1", "--new", "--installation", "shop"); r.code == 0 || !strings.Contains(r.stderr, "tiered limit") {
		t.Errorf("without the tier of one replica: %d, %s", r.code, r.stderr)
	}
	o.nsc("edit account IDS --js-tier 1 --js-disk-storage 1G")
	o.nsc("push --all")
	admin.mustRun(t, "provision", "--part", "ids", "--replicas", "1", "--new", "--installation", "shop")
	if r := admin.run(t, "doctor", "--role", "admin"); !strings.Contains(r.stdout, "ok    storage: 0 of the account's 953 MB used\n") || strings.Contains(r.stdout, "warn  room for tags") {
		t.Errorf("doctor:\n%s", r.stdout)
	}
}
