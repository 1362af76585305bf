package natsconf_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"
)

// chartValues are the parts of docs/deploy/nats-chart/values.yaml that become
// the configuration of a server.
type chartValues struct {
	FullnameOverride string `yaml:"fullnameOverride"`
	Config           struct {
		Cluster struct {
			Enabled  bool
			Replicas int
			Merge    map[string]any
		}
		JetStream struct {
			Enabled     bool
			FileStore   chartStore `yaml:"fileStore"`
			MemoryStore chartStore `yaml:"memoryStore"`
			Merge       map[string]any
		} `yaml:"jetstream"`
		Merge map[string]any
	}
	Container struct{ Env map[string]string }
}

type chartStore struct {
	MaxSize string `yaml:"maxSize"`
}

func readChart(t *testing.T) (v chartValues) {
	t.Helper()
	data, err := os.ReadFile("../../docs/deploy/nats-chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if !v.Config.Cluster.Enabled || !v.Config.JetStream.Enabled {
		t.Fatal("no cluster, or no JetStream")
	}
	return v
}

// render writes the configuration that the NATS chart makes of the values: JSON
// that the values' parts are merged into, in which "<< x >>" becomes x.
func (v chartValues) render(t *testing.T) (path string) {
	t.Helper()
	cluster := map[string]any{"name": v.FullnameOverride, "port": 6222, "no_advertise": true, "routes": []string{}}
	maps.Copy(cluster, v.Config.Cluster.Merge)
	jetStream := map[string]any{
		"store_dir":        "/data",
		"max_file_store":   "<< " + v.Config.JetStream.FileStore.MaxSize + " >>",
		"max_memory_store": "<< " + v.Config.JetStream.MemoryStore.MaxSize + " >>",
	}
	maps.Copy(jetStream, v.Config.JetStream.Merge)
	all := map[string]any{
		"server_name": "<< $SERVER_NAME >>", "lame_duck_grace_period": "10s", "lame_duck_duration": "30s",
		"port": 4222, "http_port": 8222, "cluster": cluster, "jetstream": jetStream,
	}
	maps.Copy(all, v.Config.Merge)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(all); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, regexp.MustCompile(`"<<\s+(.*?)\s+>>"`).ReplaceAll(out.Bytes(), []byte("$1")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// parts are all values of a configuration, each with the way to it.
func parts(at string, of any) (all []string) {
	switch v := of.(type) {
	case map[string]any:
		for key, value := range v {
			all = append(all, parts(at+"."+key, value)...)
		}
	case []any:
		for _, value := range v {
			if user, ok := value.(map[string]any); ok && user["user"] != nil {
				all = append(all, parts(at+"."+fmt.Sprint(user["user"]), value)...)
			} else {
				all = append(all, fmt.Sprint(at, ": ", value))
			}
		}
	default:
		all = append(all, fmt.Sprint(at, ": ", of))
	}
	return all
}

// The NATS chart's values give servers the accounts of nats.conf and the settings
// of cluster.conf. The other tests of this package check the rights in nats.conf,
// and testing/e2e runs a cluster with both files.
func TestChartHasTheUsersOfNatsConf(t *testing.T) {
	v := readChart(t)
	setEnv(t)
	for name, value := range map[string]string{
		"IDS_ROUTE_PASSWORD": "secret-of-route", "IDS_ROUTES": strings.ReplaceAll(v.Container.Env["IDS_ROUTES"], "$(IDS_ROUTE_PASSWORD)", "secret-of-route"),
		"SERVER_NAME": "nats-0", "IDS_SERVER_NAME": "ids-1", "IDS_LISTEN": "127.0.0.1:4222", "IDS_CLUSTER_LISTEN": "127.0.0.1:6222",
	} {
		t.Setenv(name, value)
	}
	rendered := v.render(t)
	chart, err := conf.ParseFile(rendered)
	if err != nil {
		t.Fatal(err)
	}
	file, err := conf.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, got := parts("accounts", file["accounts"]), parts("accounts", chart["accounts"])
	for _, part := range want {
		if !slices.Contains(got, part) {
			t.Errorf("values.yaml lacks %s", part)
		}
	}
	for _, part := range got {
		if !slices.Contains(want, part) {
			t.Errorf("nats.conf lacks %s", part)
		}
	}

	options, err := server.ProcessConfigFile(rendered)
	if err != nil {
		t.Fatal(err)
	}
	same, err := server.ProcessConfigFile("../../cluster.conf")
	if err != nil {
		t.Fatal(err)
	}
	settings := func(o *server.Options) string {
		c := o.Cluster
		return fmt.Sprintf("sync always %v, file %d, memory %d, ping %v × %d, deadline %v, no stall %v, payload %d, system account %s; routes: user %s, password %s, "+
			"within %v s, ping %v × %d", o.SyncAlways, o.JetStreamMaxStore, o.JetStreamMaxMemory, o.PingInterval, o.MaxPingsOut, o.WriteDeadline,
			o.NoFastProducerStall, o.MaxPayload, o.SystemAccount, c.Username, c.Password, c.AuthTimeout, c.PingInterval, c.MaxPingsOut)
	}
	if got, want := settings(options), settings(same); got != want {
		t.Errorf("values.yaml:  %s\ncluster.conf: %s", got, want)
	}
	// The routes name the pods that the chart makes.
	if len(options.Routes) != v.Config.Cluster.Replicas {
		t.Errorf("%d routes for %d servers", len(options.Routes), v.Config.Cluster.Replicas)
	}
	for i, route := range options.Routes {
		if want := fmt.Sprintf("nats://route:secret-of-route@%[1]s-%[2]d.%[1]s-headless:6222", v.FullnameOverride, i); route.String() != want {
			t.Errorf("route %s, want %s", route, want)
		}
	}
}

// The commands that make the Secret, in the values and in the docs, make each
// password that the servers read. If it lacks any, no server starts.
func TestCommandsMakeEachPassword(t *testing.T) {
	of := func(name string) string {
		data, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var want []string
	for _, found := range regexp.MustCompile(`\$\(?IDS_([A-Z_]+)_PASSWORD`).FindAllStringSubmatch(of("deploy/nats-chart/values.yaml"), -1) {
		want = append(want, found[1])
	}
	slices.Sort(want)
	want = slices.Compact(want)
	for _, name := range []string{"deploy/nats-chart/values.yaml", "containers.md"} {
		loop := regexp.MustCompile(`for u in ([A-Z_\s#\\>]+)`).FindStringSubmatch(of(name))
		if loop == nil {
			t.Errorf("%s: no loop over users", name)
			continue
		}
		made := regexp.MustCompile(`[A-Z_]+`).FindAllString(loop[1], -1)
		slices.Sort(made)
		if !slices.Equal(made, want) {
			t.Errorf("%s makes passwords for %s, want %s", name, made, want)
		}
	}
}
