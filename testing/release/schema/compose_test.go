package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// load loads the compose file as Docker Compose does, which checks its schema
// and the names in it.
func load(t *testing.T, env map[string]string) (*types.Project, error) {
	t.Helper()
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  "../../../docs/deploy",
		ConfigFiles: []types.ConfigFile{{Filename: "../../../docs/deploy/compose.yaml"}},
		Environment: env,
	}, loader.WithProfiles([]string{"*"}))
}

// TestComposeFile: Docker Compose would accept the file. Only this machine
// reaches its ports, and idworker's containers are read-only and without
// rights.
func TestComposeFile(t *testing.T) {
	if _, err := load(t, nil); err == nil || !strings.Contains(err.Error(), "IDS_PASSWORD") {
		t.Errorf("without a password: %v", err)
	}
	p, err := load(t, map[string]string{"IDS_PASSWORD": "secret"})
	if err != nil {
		t.Fatal(err)
	}
	monitoring := 0
	for name, s := range p.Services {
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
