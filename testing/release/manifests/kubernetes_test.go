package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.yaml.in/yaml/v3"

	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// kubeObject is the part of an object that a process can see.
type kubeObject struct {
	Kind     string
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Data       map[string]string
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Template struct {
			Spec struct {
				Containers []container
				Volumes    []struct {
					Projected struct {
						Sources []struct {
							Secret struct {
								Name  string
								Items []struct{ Key, Path string }
							}
						}
					}
				}
			}
		}
	}
}

type container struct {
	Image string
	Args  []string
	Env   []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	EnvFrom []struct {
		ConfigMapRef struct{ Name string } `yaml:"configMapRef"`
	} `yaml:"envFrom"`
	Startup   probe `yaml:"startupProbe"`
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`
}

type probe struct {
	HTTPGet struct{ Path string } `yaml:"httpGet"`
}

// release are the objects that Helm makes of the chart.
type release struct {
	s       *site
	objects []kubeObject
	// The Secrets that a user makes.
	secrets map[string]map[string]string
}

// render renders the chart with values, by the module that has Helm's library.
func (s *site) render(set string, secrets map[string]map[string]string) *release {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "go", "run", "./chart", "-render", set)
	cmd.Dir = "../schema"
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, &stderr)
	}
	r := &release{s: s, secrets: secrets}
	for decoder := yaml.NewDecoder(bytes.NewReader(out)); ; {
		var o kubeObject
		if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
			return r
		} else if err != nil {
			s.t.Fatalf("%v\n%s", err, out)
		}
		if o.Kind != "" {
			r.objects = append(r.objects, o)
		}
	}
}

// named returns an object.
func (r *release) named(kind, name string) kubeObject {
	r.s.t.Helper()
	i := slices.IndexFunc(r.objects, func(o kubeObject) bool { return o.Kind == kind && o.Metadata.Name == name })
	if i < 0 {
		r.s.t.Fatalf("no %s %s", kind, name)
	}
	return r.objects[i]
}

// podOf is a pod that was not started yet.
type podOf struct {
	env, args []string
	http      string // the address of its probes
	volume    string
	image     string
}

// pod makes a pod of an object, with its settings, secrets and volume.
func (r *release) pod(kind, name, volume string) podOf {
	t := r.s.t
	t.Helper()
	spec := r.named(kind, name).Spec.Template.Spec
	c := spec.Containers[0]
	p := podOf{http: freeport.Address(t), volume: volume, image: c.Image}
	secret := t.TempDir()
	for _, v := range spec.Volumes {
		for _, source := range v.Projected.Sources {
			for _, item := range source.Secret.Items {
				text, ok := r.secrets[source.Secret.Name][item.Key]
				if !ok {
					t.Fatalf("%s needs key %s of secret %s", name, item.Key, source.Secret.Name)
				}
				write(t, filepath.Join(secret, item.Path), text+"\n")
			}
		}
	}
	r.s.translate = strings.NewReplacer("nats:4222", r.s.nats, "=:9090", "="+p.http, "=/etc/idworker", "="+secret, "=/data", "="+p.volume)
	for _, from := range c.EnvFrom {
		for key, value := range r.named("ConfigMap", from.ConfigMapRef.Name).Data {
			p.env = append(p.env, key+"="+value)
		}
	}
	for _, v := range c.Env {
		if ref := v.ValueFrom.SecretKeyRef; ref.Name != "" {
			if v.Value = r.named("Secret", ref.Name).StringData[ref.Key]; v.Value == "" {
				t.Fatalf("secret %s has no %s", ref.Name, ref.Key)
			}
		}
		p.env = append(p.env, v.Name+"="+v.Value)
	}
	p.env, p.args = r.s.translated(p.env), r.s.translated(c.Args)
	return p
}

// probes waits until all probes of an object's pod succeed.
func (r *release) probes(kind, name, http string) {
	t := r.s.t
	t.Helper()
	c := r.named(kind, name).Spec.Template.Spec.Containers[0]
	for _, p := range []probe{c.Startup, c.Liveness, c.Readiness} {
		if len(p.HTTPGet.Path) < 2 { // "/" is the status page
			t.Fatalf("a probe of %s has no path", name)
		}
		isOK(t, "http://"+http+p.HTTPGet.Path)
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

// refuses checks that a pod ends without the installation, with the ID and the
// command that decides, and that it makes nothing.
func (r *release) refuses(p podOf, js jetstream.JetStream) {
	t := r.s.t
	t.Helper()
	running := r.s.launch(r.s.bin, p.env, p.args...)
	if code := running.Wait(t); code == 0 || !strings.Contains(running.Stderr.String(), "expected shop") ||
		!strings.Contains(running.Stderr.String(), "idworker restore DIR") {
		t.Errorf("exit code %d without the installation: %s", code, running.Stderr.Tail())
	}
	for _, name := range []string{"IDS_LOAD", "KV_ids_config", "KV_ids_register", "KV_ids_workers", "KV_ids_clock"} {
		if _, err := js.Stream(t.Context(), name); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("%s: stream %s: %v", p.env, name, err)
		}
	}
}

// TestKubernetes: the chart's pods serve IDs, with the users of nats.conf. Until
// the installation is provisioned, they end and make nothing. An upgrade loses
// nothing. If NATS loses its volume, neither an upgrade nor a sync makes a new
// installation: pods refuse, until an operator restores a backup.
func TestKubernetes(t *testing.T) {
	tier.Release(t)
	s := &site{t: t, nats: freeport.Address(t)}
	passwords := make(map[string]string)
	env := []string{"IDS_SYS_PASSWORD=secret-of-sys"}
	for _, u := range roles.Users() {
		passwords[u.PasswordVariable()] = "secret-of-" + u.Name
		env = append(env, u.PasswordVariable()+"=secret-of-"+u.Name)
	}
	secrets := map[string]map[string]string{"nats-passwords": passwords}
	conf, err := filepath.Abs("../../../nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(s.nats, ":")
	startNATS := func() *process.Running {
		return s.start(append(slices.Clone(env), "IDS_NATS_DATA="+t.TempDir()), "-c", conf, "-a", "127.0.0.1", "-p", port)
	}
	as := func(name string) []string {
		u := roles.UserNamed(name)
		return []string{"NATS_URL=nats://" + u.Name + ":secret-of-" + u.Name + "@" + s.nats, "IDWORKER_INBOX_PREFIX=" + u.Inbox, "IDWORKER_INSTALLATION=shop"}
	}
	connect := func() jetstream.JetStream {
		u := roles.UserNamed("admin")
		nc, err := nats.Connect("nats://"+s.nats, nats.UserInfo(u.Name, "secret-of-"+u.Name), nats.CustomInboxPrefix(u.Inbox))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return natstest.JetStream(t, nc)
	}
	caller := roles.UserNamed("caller")
	next := func() (int64, error) {
		return s.next("order", nats.UserInfo(caller.Name, "secret-of-"+caller.Name), nats.CustomInboxPrefix(caller.Inbox))
	}

	// As `helm install` and, with values that are the same but for new, `helm
	// upgrade`, `helm template | kubectl apply` and Argo CD.
	install := s.render("installation=shop,new=true,nats.replicas=1", secrets)
	upgrade := s.render("installation=shop,nats.replicas=1", secrets)
	kinds := map[string]string{"ids-loader": "StatefulSet", "ids-worker": "Deployment"}
	volumes := []string{t.TempDir(), t.TempDir()} // of loaders, which keep theirs
	server := startNATS()
	for name, kind := range kinds {
		install.refuses(install.pod(kind, name, volumes[0]), connect())
	}
	job := install.pod("Job", "ids-provision", "")
	s.checkImage(job.image)
	s.usesRights(job, "admin")
	for range 2 { // the second as if the first had not ended well
		s.run(job.env, job.args...)
	}
	s.run(as("admin"), "tag", "create", "order")

	running, settings := make(map[string][]*process.Running), make(map[string][]string)
	start := func(r *release, name string) {
		t.Helper()
		volume := t.TempDir()
		if name == "ids-loader" {
			volume = volumes[len(running[name])]
		}
		p := r.pod(kinds[name], name, volume)
		s.checkImage(p.image)
		of := s.launch(s.bin, p.env, p.args...)
		of.AwaitLog(t, "\tserving\t")
		r.probes(kinds[name], name, p.http)
		settings[name] = p.env
		s.usesRights(p, strings.TrimPrefix(name, "ids-"))
		if _, err := os.Stat(filepath.Join(p.volume, "witness")); (err == nil) != (name == "ids-loader") {
			t.Errorf("witness of %s: %v", name, err)
		}
		running[name] = append(running[name], of)
	}
	for _, name := range []string{"ids-loader", "ids-loader", "ids-worker", "ids-worker"} {
		start(install, name)
	}
	for name := range kinds {
		s.run(settings[name], "doctor") // as by kubectl exec
	}
	if id, err := next(); err != nil || id != 1 {
		t.Fatalf("first ID %d, %v", id, err)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	s.run(as("backup"), "backup", backup)

	// An upgrade replaces the pods one by one, as their budgets allow.
	highest := int64(1)
	for name, old := range running {
		running[name] = nil
		for _, p := range old {
			if name == "ids-worker" {
				start(upgrade, name) // first the new pod
				p.Stop(t)
			} else {
				p.Stop(t)
				start(upgrade, name)
			}
			id, err := next()
			if err != nil || id == 1 {
				t.Fatalf("during an upgrade: %d, %v", id, err)
			}
			highest = max(highest, id)
		}
	}

	// The volume is lost, and everything is started again.
	server.Stop(t)
	for _, all := range running {
		for _, p := range all {
			p.Kill()
		}
	}
	startNATS()
	empty := connect()
	for _, o := range upgrade.objects {
		if kinds[o.Metadata.Name] != o.Kind && len(o.Spec.Template.Spec.Containers) > 0 {
			t.Errorf("an upgrade runs %s %s", o.Kind, o.Metadata.Name)
		}
	}
	for name, kind := range kinds {
		upgrade.refuses(upgrade.pod(kind, name, volumes[0]), empty)
	}
	if reply, err := empty.Conn().Request(messages.DefaultPrefix.Segment("order"), nil, natstest.Patience); !errors.Is(err, nats.ErrNoResponders) {
		t.Fatalf("an installation that is lost answers %+v, %v", reply, err)
	}
	s.run(as("admin"), "restore", backup, "--yes")
	// The clock is lost, too: the page has an operator wait before this, for the
	// sake of snowflake IDs, of which none were handed out here.
	config, err := empty.KeyValue(t.Context(), agreement.BucketName(messages.DefaultPrefix))
	if err == nil {
		err = config.Delete(t.Context(), lease.ClockIDKey)
	}
	if err != nil {
		t.Fatal(err)
	}
	running = make(map[string][]*process.Running)
	for name := range kinds {
		start(upgrade, name)
	}
	if id, err := next(); err != nil || id <= highest {
		t.Fatalf("after the restore ID %d, %v; handed out before: %d", id, err, highest)
	}
}

// usesRights checks that a pod logs in as the user of a role, with the inbox
// prefix to which `idworker rights` limits it.
func (s *site) usesRights(p podOf, name string) {
	s.t.Helper()
	value := func(name string) (found string) {
		for _, v := range p.env {
			if n, text, _ := strings.Cut(v, "="); n == name {
				found = text
			}
		}
		return found
	}
	var role struct{ Role, Inbox string }
	if err := json.Unmarshal([]byte(s.run(nil, "rights", "--role", name, "--format", "json")), &role); err != nil {
		s.t.Fatal(err)
	}
	if value("IDWORKER_USER") != role.Role || value("IDWORKER_INBOX_PREFIX") != role.Inbox {
		s.t.Errorf("user %s with inbox %s, expected %+v", value("IDWORKER_USER"), value("IDWORKER_INBOX_PREFIX"), role)
	}
}
