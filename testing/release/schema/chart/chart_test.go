package main

import (
	"bytes"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/kube/fake"
	"helm.sh/helm/v4/pkg/registry"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

const folder = "../../../../docs/deploy/chart"

// valueSets are values to which the chart is rendered.
var valueSets = map[string]string{
	"least": "installation: shop",
	"new":   "{installation: shop, new: true}",
	"everything": `
installation: shop
new: true
image: {repository: registry.example/ids, tag: "2"}
nats: {url: "tls://a:4222,tls://b:4222", login: creds, secret: logins, tls: {secret: ca, client: true}, replicas: 5}
store: {secret: dsn, migrate: true}
settings: {IDWORKER_LAYOUT: js, IDWORKER_MAX_STEP: 10000000, IDWORKER_PREFIX: shop}
worker: {replicas: 5}
loader: {replicas: 3, witness: {size: 10Mi, storageClass: fast}}
api: {enabled: true, port: 8443, tokens: tokens, tls: certificate}
networkPolicy: {metrics: [{namespaceSelector: {matchLabels: {a: b}}}], api: [{podSelector: {}}]}
monitoring: {podMonitor: {enabled: true, labels: {release: p}}, rules: {enabled: true, labels: {release: p}}, dashboard: {enabled: true}}
pod: {priorityClassName: high, nodeSelector: {a: b}, tolerations: [{key: a, operator: Exists}], imagePullSecrets: [{name: pull}]}
`,
	"nkeys": "{installation: shop, new: true, nats: {login: nkey}, api: {enabled: true, insecure: true}}",
}

func TestMain(m *testing.M) {
	slog.SetLogLoggerLevel(slog.LevelWarn) // Helm logs each symbolic link
	os.Exit(m.Run())
}

func document(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func load(t *testing.T) *v2.Chart {
	t.Helper()
	c, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parsed(t *testing.T, text string) (values map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// rendered are the objects of the chart with values.
func rendered(t *testing.T, values string) string {
	t.Helper()
	r, err := render(load(t), parsed(t, values))
	if err != nil {
		t.Fatal(err)
	}
	return documents(r)
}

// TestChart: Helm finds nothing to complain about, and makes the same objects
// each time.
func TestChart(t *testing.T) {
	for name, values := range valueSets {
		result := action.NewLint().Run([]string{folder}, parsed(t, values))
		for _, m := range result.Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, m)
			}
		}
		if first, second := rendered(t, values), rendered(t, values); first != second {
			t.Errorf("%s: rendered twice, and not the same", name)
		}
	}
}

// TestNumbersOfSettings: a variable has a number's digits, and not 1e+07.
func TestNumbersOfSettings(t *testing.T) {
	if all := rendered(t, valueSets["everything"]); !strings.Contains(all, `IDWORKER_MAX_STEP: "10000000"`) {
		t.Error(all)
	}
}

// TestBadValues: each is refused with a sentence that has the value's name and
// what is allowed.
func TestBadValues(t *testing.T) {
	for values, want := range map[string]string{
		"{}":                                `installation: "" is no name of an installation; choose one of 1 to 32 letters, digits, - and _, as in --set installation=shop`,
		"installation: a.b":                 `installation: "a.b" is no name`,
		"installation: 7":                   `at '/installation': got number, want string`,
		"new: yes please":                   `at '/new': got string, want boolean`,
		"nats: {url: 'ids:4222'}":           `nats.url: "ids:4222" is no list such as nats://a:4222,nats://b:4222; logins go into the Secret nats.secret`,
		"nats: {url: 'nats://a:b@c'}":       `nats.url: "nats://a:b@c" is no list`,
		"nats: {login: token}":              `at '/nats/login': value must be one of 'password', 'creds', 'nkey'`,
		"nats: {replicas: 7}":               `at '/nats/replicas': maximum: got 7, want 5`,
		"nats: {tls: {client: true}}":       `nats.tls.client: the client's certificate is in nats.tls.secret, which is empty`,
		"nats: {password: x}":               `at '/nats': additional properties 'password' not allowed`,
		"settings: {LAYOUT: js}":            `settings: LAYOUT is no variable of idworker; they begin with IDWORKER_, as in IDWORKER_LAYOUT`,
		"settings: {IDWORKER_NEW: true}":    `settings: IDWORKER_NEW would make a new installation of lost data; use --set new=true, once`,
		"settings: {IDWORKER_STORE: x}":     `settings: the chart sets IDWORKER_STORE itself; use the other values`,
		"settings: {IDWORKER_WORKER_ID: 1}": `settings: IDWORKER_WORKER_ID is for StatefulSets; the workers of this chart claim any free worker ID`,
		"store: {migrate: true}":            `store.migrate: the table is in a database, whose DSN is in store.secret, which is empty`,
		"worker: {replicas: 0}":             `at '/worker/replicas': minimum: got 0, want 1`,
		"loader: {witness: {size: big}}":    `at '/loader/witness/size': 'big' does not match pattern`,
		"api: {enabled: true}":              `api: name the Secrets api.tokens and api.tls, or set api.insecure=true`,
		"api: {port: 9090}":                 `api.port: 9090 is the port of probes and metrics`,
		"pod: {containers: []}":             `at '/pod': additional properties 'containers' not allowed`,
		"workers: 5":                        `at '': additional properties 'workers' not allowed`,
	} {
		all := parsed(t, values)
		if _, given := all["installation"]; !given && values != "{}" {
			all["installation"] = "shop"
		}
		if _, err := render(load(t), all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", values, err, want)
		}
	}
}

// TestReleaseNames: Kubernetes takes the objects of the longest name, and other
// names are refused with a sentence.
func TestReleaseNames(t *testing.T) {
	values := parsed(t, valueSets["everything"])
	longest := strings.Repeat("a", 45)
	r, err := renderAs(longest, load(t), values)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range read(t, documents(r)).workloads {
		// A StatefulSet's pods have its name and a hash of 10 characters as a label.
		if w.name == longest+"-loader" && len(w.name)+1+10 > validation.LabelValueMaxLength {
			t.Errorf("%s is too long", w.name)
		}
	}
	for _, name := range []string{longest + "a", "1ids", "ids.a"} {
		if _, err := renderAs(name, load(t), values); err == nil || !strings.Contains(err.Error(), "release "+name+": choose a name of at most 45 small letters") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// cluster is what Helm would send to a cluster, in this order.
type cluster struct {
	*fake.PrintingKubeClient
	sent []string
}

func (c *cluster) Build(manifest io.Reader, validate bool) (kube.ResourceList, error) {
	data, err := io.ReadAll(manifest)
	if err != nil {
		return nil, err
	}
	c.sent = append(c.sent, string(data))
	return c.PrintingKubeClient.Build(bytes.NewReader(data), validate)
}

func (c *cluster) provisions() bool {
	return slices.ContainsFunc(c.sent, func(text string) bool { return strings.Contains(text, "kind: Job") || strings.Contains(text, "--new") })
}

// TestOnlyAnInstallProvisions: Helm runs the job at an install with new=true, and
// never at an upgrade, a rollback or an uninstall. Argo CD skips it, and output
// of `helm template` lacks it. All other objects are the same with and without
// new=true.
func TestOnlyAnInstallProvisions(t *testing.T) {
	c := &cluster{PrintingKubeClient: &fake.PrintingKubeClient{Out: io.Discard, LogOutput: io.Discard}}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = kubernetes
	cfg := &action.Configuration{KubeClient: c, Releases: storage.Init(driver.NewMemory()), Capabilities: capabilities}
	values := parsed(t, valueSets["new"])
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace = "ids", "ids"
	if _, err := install.Run(load(t), values); err != nil {
		t.Fatal(err)
	}
	if !c.provisions() {
		t.Errorf("an install does not provision: %s", c.sent)
	}
	for name, do := range map[string]func() error{
		"upgrade": func() error {
			u := action.NewUpgrade(cfg)
			u.Namespace = "ids"
			_, err := u.Run("ids", load(t), values)
			return err
		},
		"rollback": func() error { r := action.NewRollback(cfg); r.Version = 1; return r.Run("ids") },
	} {
		c.sent = nil
		if err := do(); err != nil || len(c.sent) == 0 || c.provisions() {
			t.Errorf("%s: %v; it sends %s", name, err, c.sent)
		}
	}
	r, err := render(load(t), values)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"--new", "IDWORKER_NEW", "kind: Job"} {
		if strings.Contains(r.Manifest, text) {
			t.Errorf("%s is beside the hook:\n%s", text, r.Manifest)
		}
	}
	if without := rendered(t, valueSets["least"]); without != r.Manifest {
		t.Errorf("without new=true, there are other objects, or the job:\n%s", without)
	}
	if len(r.Hooks) != 1 || !strings.Contains(r.Hooks[0].Manifest, "argocd.argoproj.io/hook: Skip") ||
		len(r.Hooks[0].Events) != 1 || r.Hooks[0].Events[0] != "pre-install" || slices.Contains(r.Hooks[0].DeletePolicies, "before-hook-creation") {
		t.Errorf("hooks: %+v", r.Hooks)
	}
	// All other pods have the ID of a Secret that outlives the release.
	s := read(t, r.Manifest).secrets["ids-installation"]
	if s == nil || s.Annotations["helm.sh/resource-policy"] != "keep" || s.Immutable == nil || !*s.Immutable || s.StringData["installation"] != "shop" {
		t.Errorf("the pin: %+v", s)
	}
	if n := strings.Count(r.Manifest, "secretKeyRef: {name: ids-installation, key: installation}"); n != 2 {
		t.Errorf("%d of 2 kinds of pods have the pin", n)
	}
}

// TestPacked: the packed chart has the same bytes each time, and makes the same
// objects. A registry takes it and returns it.
func TestPacked(t *testing.T) {
	first, err := pack(folder, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	second, err := pack(folder, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(second); err != nil || !bytes.Equal(again, data) {
		t.Errorf("packed twice, and not the same: %v", err)
	}
	version := regexp.MustCompile(`(?m)^version: (.*)$`).FindSubmatch(document(t, "deploy/chart/Chart.yaml"))[1]
	if want := "idworker-" + string(version) + ".tgz"; filepath.Base(first) != want {
		t.Errorf("packed as %s, expected %s", first, want)
	}

	server := httptest.NewServer(ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard), registry.ClientOptCredentialsFile(filepath.Join(t.TempDir(), "none")))
	if err != nil {
		t.Fatal(err)
	}
	ref := strings.TrimPrefix(server.URL, "http://") + "/idworker/charts/idworker:" + string(version)
	if _, err := client.Push(data, ref); err != nil {
		t.Fatal(err)
	}
	pulled, err := client.Pull(ref)
	if err != nil || !bytes.Equal(pulled.Chart.Data, data) {
		t.Fatalf("pulled something else: %v", err)
	}
	c, err := loader.LoadArchive(bytes.NewReader(pulled.Chart.Data))
	if err != nil {
		t.Fatal(err)
	}
	r, err := render(c, parsed(t, valueSets["everything"]))
	if err != nil {
		t.Fatal(err)
	}
	if documents(r) != rendered(t, valueSets["everything"]) {
		t.Error("the packed chart makes other objects")
	}
}
