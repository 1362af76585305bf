// Package manifests runs what docs/deploy describes for containers: its
// processes, with their arguments and variables, but at addresses and paths of
// the test. The modules testing/release/schema and testing/monitoring check the
// files' form.
package manifests

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

const deploy = "../../../docs/deploy/"

var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "idworker-manifests-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(buildDir)
	os.Exit(code)
}

var (
	idworker   = sync.OnceValues(func() (string, error) { return process.Build(buildDir, "idworker", process.Command) })
	natsServer = sync.OnceValues(func() (string, error) { return process.Build(buildDir, "nats-server", process.NATSServer) })
)

// site translates the names of manifests into addresses and paths of the test.
type site struct {
	t         *testing.T
	bin       string
	nats      string
	translate *strings.Replacer
}

// start starts nats-server.
func (s *site) start(env []string, args ...string) {
	s.t.Helper()
	bin, err := natsServer()
	if err == nil {
		s.bin, err = idworker()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.launch(bin, env, args...).AwaitLog(s.t, "Server is ready")
}

// translated translates all names in a list.
func (s *site) translated(list []string) (result []string) {
	for _, text := range list {
		result = append(result, s.translate.Replace(text))
	}
	return result
}

// launch starts a process, which ends with the test.
func (s *site) launch(bin string, env []string, args ...string) *process.Running {
	s.t.Helper()
	return process.Program{Binary: bin, Dir: s.t.TempDir(), Env: env}.Start(s.t, args...)
}

// serve starts a container's process, and returns when it serves.
func (s *site) serve(env []string, args ...string) {
	s.t.Helper()
	p := s.launch(s.bin, env, args...)
	p.AwaitLog(s.t, "\tserving\t")
}

// run runs a command, which has to succeed, and returns its output.
func (s *site) run(env []string, args ...string) string {
	s.t.Helper()
	p, err := process.Program{Binary: s.bin, Env: env}.Run(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(p.Stdout.String())
}

// next gets an ID.
func (s *site) next(tag string, opts ...nats.Option) (int64, error) {
	s.t.Helper()
	nc, err := nats.Connect("nats://"+s.nats, opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), natstest.Patience)
	defer cancel()
	return messages.NewClient(nc, messages.DefaultPrefix).Next(ctx, tag)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// read decodes the documents of a YAML file.
func read[T any](t *testing.T, path string) (documents []T) {
	t.Helper()
	data, err := os.ReadFile(deploy + path)
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var d T
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			return documents
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		documents = append(documents, d)
	}
}

// checkImage fails unless an image is of the version under test.
func (s *site) checkImage(image string) {
	s.t.Helper()
	version := strings.Fields(s.run(nil, "version"))[0]
	if want := "ghcr.io/idworker/idworker:" + version; image != want {
		s.t.Errorf("image %s, expected %s", image, want)
	}
}

// composeFile is the part of a compose file that a process can see.
type composeFile struct {
	Services map[string]struct {
		Image       string
		Command     []string
		Environment map[string]string
		Healthcheck struct{ Test []string }
		Deploy      struct{ Replicas int }
	}
	Configs map[string]struct{ Content string }
}

// TestCompose: the compose file's configuration of NATS syncs every write, the
// loader creates the table, two workers serve IDs, and the health checks
// succeed.
func TestCompose(t *testing.T) {
	tier.Release(t)
	f := read[composeFile](t, "compose.yaml")[0]
	db := dbtest.StartPostgres(t, "-c", "fsync=on")
	const password = "secret-of-ids"
	db.Exec(t, "CREATE ROLE ids LOGIN SUPERUSER PASSWORD '"+password+"'", "CREATE DATABASE ids OWNER ids")

	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, nats: freeport.Address(t)}
	dir := t.TempDir()
	s.translate = strings.NewReplacer(
		"${IDS_HASH:-${IDS_PASSWORD}}", string(hash), "${IDS_PASSWORD}", password, "${IDWORKER_INSTALLATION:-}", "", "$$", "$", "db:5432", db.Addr(), "nats:4222", s.nats, "0.0.0.0:4222", s.nats,
		"127.0.0.1:8222", freeport.Address(t), "/etc/nats", dir, "/data", dir,
	)
	write(t, filepath.Join(dir, "ids.conf"), s.translate.Replace(f.Configs["nats"].Content))
	s.start(nil, s.translated(f.Services["nats"].Command[1:])...)
	if want := "nats:" + server.VERSION + "-alpine"; f.Services["nats"].Image != want {
		t.Errorf("image %s, expected %s", f.Services["nats"].Image, want)
	}
	if n := f.Services["worker"].Deploy.Replicas; n != 2 {
		t.Fatalf("%d workers", n)
	}
	envs := make(map[string][]string)
	for _, role := range []string{"loader", "worker", "worker"} {
		c := f.Services[role]
		var env []string
		for name, value := range c.Environment {
			if name == "IDWORKER_HTTP" { // one port for each container, which are one machine here
				value = freeport.Address(t)
			}
			env = append(env, name+"="+value)
		}
		envs[role] = s.translated(env)
		s.serve(envs[role], s.translated(c.Command)...)
		s.checkImage(c.Image)
	}
	for role, env := range envs {
		check := f.Services[role].Healthcheck.Test
		out := s.run(env, check[2:]...)
		t.Logf("%s: %v:\n%s", role, check[1:], out)
		if strings.Contains(out, "warn") {
			t.Error("a warning")
		}
	}
	s.run(envs["loader"], "tag", "create", "order") // as by docker compose exec
	if id, err := s.next("order", nats.UserInfo("ids", password)); err != nil || id != 1 {
		t.Fatalf("first ID %d, %v", id, err)
	}
}
