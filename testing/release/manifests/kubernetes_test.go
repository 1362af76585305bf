package manifests

import (
	"bytes"
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
	"go.yaml.in/yaml/v3"

	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// kubeObject is the part of an object that a process can see.
type kubeObject struct {
	Kind       string
	Metadata   struct{ Name string }
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

// refuses checks that a pod ends without the installation to which the chart pins
// it, and names the command that decides.
func (r *release) refuses(p podOf) {
	t := r.s.t
	t.Helper()
	running := r.s.launch(r.s.bin, p.env, p.args...)
	if code := running.Wait(t); code == 0 || !strings.Contains(running.Stderr.String(), "expected shop") ||
		!strings.Contains(running.Stderr.String(), "idworker restore DIR") {
		t.Errorf("exit code %d without the installation: %s", code, running.Stderr.Tail())
	}
}

// TestKubernetes: the chart's pods serve IDs, each as the user of nats.conf that
// has only the rights of its role. Until the job has provisioned the installation,
// they end. The module testing/release/schema proves that upgrades render the same
// pods and no job; testing/e2e rolls processes, and loses and restores data.
func TestKubernetes(t *testing.T) {
	tier.Release(t)
	s := &site{t: t, nats: freeport.Address(t)}
	passwords := make(map[string]string)
	env := []string{"IDS_NATS_DATA=" + t.TempDir(), "IDS_SYS_PASSWORD=secret-of-sys"}
	for _, u := range roles.Users() {
		passwords[u.PasswordVariable()] = "secret-of-" + u.Name
		env = append(env, u.PasswordVariable()+"=secret-of-"+u.Name)
	}
	conf, err := filepath.Abs("../../../nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(s.nats, ":")
	s.start(env, "-c", conf, "-a", "127.0.0.1", "-p", port)

	r := s.render("installation=shop,new=true,nats.replicas=1", map[string]map[string]string{"nats-passwords": passwords})
	kinds := map[string]string{"loader": "StatefulSet", "worker": "Deployment"}
	for role, kind := range kinds {
		r.refuses(r.pod(kind, "ids-"+role, t.TempDir()))
	}
	job := r.pod("Job", "ids-provision", "")
	s.checkImage(job.image)
	s.usesRights(job, "admin")
	for range 2 { // the second as if the first had not ended well
		s.run(job.env, job.args...)
	}
	admin := roles.UserNamed("admin")
	s.run([]string{"NATS_URL=nats://admin:secret-of-admin@" + s.nats, "IDWORKER_INBOX_PREFIX=" + admin.Inbox, "IDWORKER_INSTALLATION=shop"}, "tag", "create", "order")

	envs := make(map[string][]string)
	for _, role := range []string{"loader", "loader", "worker", "worker"} {
		p := r.pod(kinds[role], "ids-"+role, t.TempDir())
		s.checkImage(p.image)
		s.usesRights(p, role)
		s.serve(p.env, p.args...)
		r.probes(kinds[role], "ids-"+role, p.http)
		if _, err := os.Stat(filepath.Join(p.volume, "witness")); (err == nil) != (role == "loader") {
			t.Errorf("witness of %s: %v", role, err)
		}
		envs[role] = p.env
	}
	for _, env := range envs {
		s.run(env, "doctor") // as by kubectl exec
	}
	caller := roles.UserNamed("caller")
	if id, err := s.next("order", nats.UserInfo(caller.Name, "secret-of-"+caller.Name), nats.CustomInboxPrefix(caller.Inbox)); err != nil || id != 1 {
		t.Fatalf("first ID %d, %v", id, err)
	}
}

// usesRights checks that a pod logs in as the user of a role, with the inbox
// prefix to which that user is limited.
func (s *site) usesRights(p podOf, role string) {
	s.t.Helper()
	u := roles.UserNamed(role)
	for _, want := range []string{"IDWORKER_USER=" + u.Name, "IDWORKER_INBOX_PREFIX=" + u.Inbox} {
		if !slices.Contains(p.env, want) {
			s.t.Errorf("the pod of %s lacks %s: %v", role, want, p.env)
		}
	}
}
