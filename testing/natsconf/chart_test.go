package natsconf_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.yaml.in/yaml/v3"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/testing/natstest"
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

// setChartEnv sets what the chart's containers have in their environment.
func setChartEnv(t *testing.T, routes string) {
	t.Helper()
	setEnv(t)
	t.Setenv("SERVER_NAME", "nats-0")
	t.Setenv("IDS_ROUTE_PASSWORD", "secret")
	t.Setenv("IDS_ROUTES", routes)
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

// The NATS chart's values give servers the accounts and the settings of
// nats.conf, and each user the rights that its role needs.
func TestChartHasTheUsersOfNatsConf(t *testing.T) {
	v := readChart(t)
	setChartEnv(t, strings.ReplaceAll(v.Container.Env["IDS_ROUTES"], "$(IDS_ROUTE_PASSWORD)", "secret"))
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
	same, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	settings := func(o *server.Options) string {
		return fmt.Sprintf("sync always %v, file %d, memory %d, ping %v × %d, deadline %v, no stall %v, payload %d, system account %s", o.SyncAlways,
			o.JetStreamMaxStore, o.JetStreamMaxMemory, o.PingInterval, o.MaxPingsOut, o.WriteDeadline, o.NoFastProducerStall, o.MaxPayload, o.SystemAccount)
	}
	if got, want := settings(options), settings(same); got != want {
		t.Errorf("values.yaml: %s\nnats.conf:   %s", got, want)
	}
	given := usersOf(options)
	for _, user := range roles.Users() {
		found, ok := given[user.Name]
		if !ok {
			t.Errorf("there is no user %s", user.Name)
			continue
		}
		compare(t, user.Name+" publishes to", user.Rights.Publish, found.Permissions.Publish)
		compare(t, user.Name+" subscribes to", user.Rights.Subscribe, found.Permissions.Subscribe)
	}
	// The routes name the pods that the chart makes.
	if len(options.Routes) != v.Config.Cluster.Replicas {
		t.Errorf("%d routes for %d servers", len(options.Routes), v.Config.Cluster.Replicas)
	}
	for i, route := range options.Routes {
		if want := fmt.Sprintf("nats://route:secret@%[1]s-%[2]d.%[1]s-headless:6222", v.FullnameOverride, i); route.String() != want {
			t.Errorf("route %s, want %s", route, want)
		}
	}
}

// Three servers with the NATS chart's values let in each user, and report to
// those who check it that they sync every write.
func TestChartRunsACluster(t *testing.T) {
	v := readChart(t)
	cluster := natstest.StartCluster(t, 3, func(o *server.Options) {
		var routes []string
		for _, r := range o.Routes {
			routes = append(routes, (&url.URL{Scheme: "nats", User: url.UserPassword("route", "secret"), Host: r.Host}).String())
		}
		setChartEnv(t, "["+strings.Join(routes, ", ")+"]")
		chart, err := server.ProcessConfigFile(v.render(t))
		if err != nil {
			t.Fatal(err)
		}
		chart.ServerName, chart.StoreDir, chart.NoSigs, chart.NoLog = o.ServerName, o.StoreDir, true, o.NoLog
		chart.Host, chart.Port, chart.HTTPPort = o.Host, o.Port, 0
		chart.Cluster.Host, chart.Cluster.Port = o.Cluster.Host, o.Cluster.Port
		*o = *chart
	})
	for _, user := range roles.Users() {
		conn := cluster.Connect(t, nats.UserInfo(user.Name, "secret"), nats.CustomInboxPrefix(user.Inbox))
		if !slices.Contains(user.Rights.Publish, durability.AskServers) {
			continue
		}
		natstest.Eventually(t, user.Name+" is told that all servers sync", func() bool {
			return durability.CheckServers(t.Context(), conn) == nil
		})
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
