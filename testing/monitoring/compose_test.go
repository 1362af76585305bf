package monitoring

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/dns"
	"go.yaml.in/yaml/v3"
)

// service is the part of a service of the compose file that monitoring concerns.
type service struct {
	Image       string
	Environment map[string]string
	Volumes     []string
}

// mounts are the files of the repository in the container: by their path there.
func (s service) mounts(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, v := range s.Volumes {
		parts := strings.Split(v, ":")
		if strings.HasPrefix(parts[0], ".") {
			files[parts[1]] = filepath.Join(docs, "deploy", parts[0])
			if info, err := os.Stat(files[parts[1]]); err != nil || info.IsDir() || len(parts) != 3 || parts[2] != "ro" {
				t.Errorf("%s is not a file that is mounted read-only: %v", v, err)
			}
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

func compose(t *testing.T) map[string]service {
	t.Helper()
	return read[struct{ Services map[string]service }](t, filepath.Join(docs, "deploy/compose.yaml")).Services
}

// TestComposePrometheus: Prometheus accepts its configuration in the compose file, finds the rules that the tests of this
// package evaluate, and scrapes every service with metrics as often as they do. The image has this package's version.
func TestComposePrometheus(t *testing.T) {
	services := compose(t)
	files := services["prometheus"].mounts(t)
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
		if address := s.Environment["IDWORKER_HTTP"]; address != "" {
			offered = append(offered, name+" "+address)
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
	files := grafana.mounts(t)
	var datasources, dashboards string
	for _, path := range slices.Collect(maps.Keys(files)) {
		switch filepath.Dir(path) {
		case "/etc/grafana/provisioning/datasources":
			datasources = files[path]
		case "/etc/grafana/provisioning/dashboards":
			dashboards = files[path]
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
	home := grafana.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	if want := filepath.Join(docs, "grafana.json"); len(p) != 1 || p[0].Type != "file" || files[home] != want || filepath.Dir(home) != p[0].Options.Path {
		t.Errorf("dashboards of %+v, first page %s, expected a mount of %s", p, home, want)
	}
}
