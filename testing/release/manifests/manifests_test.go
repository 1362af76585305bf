// Package manifests runs what docs/deploy describes for containers: its
// processes, with their arguments and variables, but at addresses and paths of
// the test. The module testing/release/schema checks the files' form.
package manifests

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.yaml.in/yaml/v3"

	"github.com/idworker/idworker/internal/roles"
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
	p := s.launch(bin, env, args...)
	p.AwaitLog(s.t, "Server is ready")
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

// firstID gets the first ID of a tag.
func (s *site) firstID(tag string, opts ...nats.Option) {
	s.t.Helper()
	nc, err := nats.Connect("nats://"+s.nats, opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), natstest.Patience)
	defer cancel()
	if id, err := messages.NewClient(nc, messages.DefaultPrefix).Next(ctx, tag); err != nil || id != 1 {
		s.t.Fatalf("first ID %d, %v", id, err)
	}
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

// statefulSet is the part of a StatefulSet that a process can see.
type statefulSet struct {
	Spec struct {
		Template struct {
			Spec struct{ Containers []container }
		}
	}
}

type container struct {
	Image     string
	Args      []string
	Env       []struct{ Name, Value string }
	Startup   probe `yaml:"startupProbe"`
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`
}

type probe struct {
	HTTPGet struct{ Path string } `yaml:"httpGet"`
}

// TestKubernetes: with nats.conf and its users, the workers and loaders of the
// manifests serve IDs, and their probes succeed.
func TestKubernetes(t *testing.T) {
	tier.Release(t)
	s := &site{t: t, nats: freeport.Address(t)}
	env := []string{"IDS_NATS_DATA=" + t.TempDir(), "IDS_SYS_PASSWORD=secret-of-sys"}
	users := make(map[string]roles.User)
	for _, u := range roles.Users() {
		users[u.Name] = u
		env = append(env, u.PasswordVariable()+"=secret-of-"+u.Name)
	}
	conf, err := filepath.Abs("../../../nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(s.nats, ":")
	s.start(env, "-c", conf, "-a", "127.0.0.1", "-p", port)
	admin := []string{"NATS_URL=nats://admin:secret-of-admin@" + s.nats, "IDWORKER_INBOX_PREFIX=" + users["admin"].Inbox}
	s.run(admin, "provision", "--part", "ids")
	s.run(admin, "tag", "create", "order")

	settings := read[struct{ Data map[string]string }](t, "kubernetes/settings.yaml")[0].Data
	var last []string
	for _, role := range []string{"loader", "worker"} {
		c := read[statefulSet](t, "kubernetes/"+role+".yaml")[0].Spec.Template.Spec.Containers[0]
		for range 2 {
			secret, volume, http := t.TempDir(), t.TempDir(), freeport.Address(t)
			write(t, filepath.Join(secret, "password"), "secret-of-"+role+"\n")
			write(t, filepath.Join(secret, "store"), "jetstream\n")
			s.translate = strings.NewReplacer("nats:4222", s.nats, "=:9090", "="+http, "=/etc/idworker", "="+secret, "=/data", "="+volume)
			var env []string
			for name, value := range settings {
				env = append(env, name+"="+value)
			}
			for _, v := range c.Env {
				env = append(env, v.Name+"="+v.Value)
			}
			env = s.translated(env)
			s.serve(env, s.translated(c.Args)...)
			for _, p := range []probe{c.Startup, c.Liveness, c.Readiness} {
				if len(p.HTTPGet.Path) < 2 { // "/" is the status page
					t.Fatalf("a probe of a %s has no path", role)
				}
				isOK(t, "http://"+http+p.HTTPGet.Path)
			}
			last = env
			if _, err := os.Stat(filepath.Join(volume, "witness")); (err == nil) != (role == "loader") {
				t.Errorf("witness of a %s: %v", role, err)
			}
		}
		s.checkImage(c.Image)
	}
	s.run(last, "doctor") // as by kubectl exec
	u := users["caller"]
	s.firstID("order", nats.UserInfo(u.Name, "secret-of-"+u.Name), nats.CustomInboxPrefix(u.Inbox))
}

// checkImage fails unless an image is of the version under test.
func (s *site) checkImage(image string) {
	s.t.Helper()
	version := strings.Fields(s.run(nil, "version"))[0]
	if want := "ghcr.io/idworker/idworker:" + version; image != want {
		s.t.Errorf("image %s, expected %s", image, want)
	}
}

// isOK waits for status 200.
func isOK(t *testing.T, url string) {
	t.Helper()
	natstest.Eventually(t, url+" is 200", func() bool {
		reply, err := http.Get(url)
		if err == nil {
			_ = reply.Body.Close()
		}
		return err == nil && reply.StatusCode == http.StatusOK
	})
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

	s := &site{t: t, nats: freeport.Address(t)}
	dir := t.TempDir()
	s.translate = strings.NewReplacer(
		"${IDS_PASSWORD}", password, "$$", "$", "db:5432", db.Addr(), "nats:4222", s.nats, "0.0.0.0:4222", s.nats,
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
	s.firstID("order", nats.UserInfo("ids", password))
}
