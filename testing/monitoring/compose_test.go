package monitoring

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/dns"
	"go.yaml.in/yaml/v3"
)

// load loads the compose file as Docker Compose does, which checks its schema and the names in it.
func load(t *testing.T, env map[string]string) (*types.Project, error) {
	t.Helper()
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  filepath.Join(docs, "deploy"),
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(docs, "deploy/compose.yaml")}},
		Environment: env,
	}, loader.WithProfiles([]string{"*"}))
}

func compose(t *testing.T) types.Services {
	t.Helper()
	p, err := load(t, map[string]string{"IDS_PASSWORD": "secret"})
	if err != nil {
		t.Fatal(err)
	}
	return p.Services
}

// mounts are the files of the repository in a container: by their path there.
func mounts(s types.ServiceConfig) map[string]string {
	files := make(map[string]string)
	for _, v := range s.Volumes {
		if v.Type == types.VolumeTypeBind {
			files[v.Target] = v.Source
		}
	}
	return files
}

// read decodes a YAML file, which may have other fields.
func read[T any](t *testing.T, file string) (content T) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(data, &content)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return content
}

// TestComposeFile: Docker Compose would accept the file. Only this machine reaches its ports, and idworker's containers are
// read-only and without rights.
func TestComposeFile(t *testing.T) {
	if _, err := load(t, nil); err == nil || !strings.Contains(err.Error(), "IDS_PASSWORD") {
		t.Errorf("without a password: %v", err)
	}
	for want, hash := range map[string]string{"secret": "", "$2a$04$hash": "$2a$04$hash"} {
		p, err := load(t, map[string]string{"IDS_PASSWORD": "secret", "IDS_HASH": hash})
		if err != nil {
			t.Fatal(err)
		}
		if conf := p.Configs["nats"].Content; !strings.Contains(conf, `{ user: ids, password: "`+want+`" }`) {
			t.Errorf("with the hash %q, NATS gets\n%s", hash, conf)
		}
	}
	monitoring := 0
	for name, s := range compose(t) {
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open on %q", name, port.Published, port.HostIP)
			}
		}
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.Privileged {
			t.Errorf("%s has rights: %v, %v", name, s.CapDrop, s.SecurityOpt)
		}
		if s.HealthCheck == nil || strings.HasSuffix(s.HealthCheck.Test[0], "-SHELL") {
			t.Errorf("%s has no health check, or needs a shell", name)
		}
		if strings.Contains(s.Image, "idworker") && (!s.ReadOnly || s.User != "65534:65534") {
			t.Errorf("%s: read-only %v, user %s", name, s.ReadOnly, s.User)
		}
		if slices.Equal(s.Profiles, []string{"monitoring"}) {
			monitoring++
			if !s.ReadOnly || s.User == "" || strings.HasPrefix(s.User, "0") {
				t.Errorf("%s: read-only %v, user %s", name, s.ReadOnly, s.User)
			}
		}
		// Compose cannot copy them into a read-only container.
		if s.ReadOnly && len(s.Configs)+len(s.Secrets) > 0 {
			t.Errorf("%s: a config or secret in a read-only container", name)
		}
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind && !v.ReadOnly {
				t.Errorf("%s may write to %s", name, v.Source)
			}
		}
		if i := strings.LastIndexByte(s.Image, ':'); i < 0 || !strings.Contains(s.Image[i:], ".") {
			t.Errorf("%s: image %s is not pinned", name, s.Image)
		}
	}
	if monitoring != 2 {
		t.Errorf("%d services for monitoring, want Prometheus and Grafana", monitoring)
	}
}

// TestComposePrometheus: Prometheus accepts its configuration in the compose file, finds the rules that the tests of this
// package evaluate, and scrapes every service with metrics as often as they do. The image has this package's version.
func TestComposePrometheus(t *testing.T) {
	services := compose(t)
	files := mounts(services["prometheus"])
	c, err := config.LoadFile(files["/etc/prometheus/prometheus.yml"], false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if g := c.GlobalConfig; g.ScrapeInterval.String() != "15s" || g.EvaluationInterval.String() != "15s" {
		t.Errorf("scraped every %v, evaluated every %v", g.ScrapeInterval, g.EvaluationInterval)
	}
	rules := filepath.Join(docs, "prometheus-rules.yml")
	if len(c.RuleFiles) != 1 || files[c.RuleFiles[0]] != rules {
		t.Errorf("rules %v, expected a mount of %s", c.RuleFiles, rules)
	}
	var scraped, offered []string
	for _, s := range c.ScrapeConfigs {
		for _, d := range s.ServiceDiscoveryConfigs {
			d := d.(*dns.SDConfig)
			for _, name := range d.Names {
				scraped = append(scraped, fmt.Sprintf("%s 0.0.0.0:%d", name, d.Port))
			}
		}
	}
	for name, s := range services {
		if address := s.Environment["IDWORKER_HTTP"]; address != nil {
			offered = append(offered, name+" "+*address)
		}
	}
	slices.Sort(scraped)
	slices.Sort(offered)
	if !slices.Equal(scraped, offered) || len(offered) == 0 {
		t.Errorf("scrapes %v, of %v", scraped, offered)
	}
	module, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	// The module v0.316.0 is Prometheus v3.16.0.
	image := "prom/prometheus:v3." + string(regexp.MustCompile(`github.com/prometheus/prometheus v0\.3(\d+\.\d+)\n`).FindSubmatch(module)[1])
	if services["prometheus"].Image != image {
		t.Errorf("image %s, expected %s", services["prometheus"].Image, image)
	}
}

// TestComposeGrafana: Grafana's files in the compose file lead to Prometheus and to docs/grafana.json, which is also the
// first page.
func TestComposeGrafana(t *testing.T) {
	services := compose(t)
	grafana := services["grafana"]
	files := mounts(grafana)
	var datasources, dashboards string
	for path, file := range files {
		switch filepath.Dir(path) {
		case "/etc/grafana/provisioning/datasources":
			datasources = file
		case "/etc/grafana/provisioning/dashboards":
			dashboards = file
		}
	}
	d := read[struct {
		Datasources []struct {
			Type, URL string
			IsDefault bool              `yaml:"isDefault"`
			JSON      map[string]string `yaml:"jsonData"`
		}
	}](t, datasources).Datasources
	if len(d) != 1 || d[0].Type != "prometheus" || !d[0].IsDefault || d[0].URL != "http://prometheus:9090" || services["prometheus"].Image == "" ||
		d[0].JSON["timeInterval"] != interval.String() {
		t.Errorf("data sources %+v", d)
	}
	p := read[struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}](t, dashboards).Providers
	home := ""
	if v := grafana.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]; v != nil {
		home = *v
	}
	if want := filepath.Join(docs, "grafana.json"); len(p) != 1 || p[0].Type != "file" || files[home] != want || filepath.Dir(home) != p[0].Options.Path {
		t.Errorf("dashboards of %+v, first page %s, expected a mount of %s", p, home, want)
	}
}
