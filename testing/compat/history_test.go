package compat

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	natsusers "github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/testing/deps"
	"github.com/idworker/idworker/testing/process"
)

// oldSource returns a folder with the source of the old version, from the history
// of this repository. Without the history, the test is left out.
func oldSource(t *testing.T) string {
	t.Helper()
	if err := deps.History(); err != nil {
		t.Skipf("%s: %v", deps.NoHistory, err)
	}
	dir, err := unpackOld()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// unpackOld unpacks into a folder that stays, so that the build cache serves the
// next build, and dependencies even of the first.
var unpackOld = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs(filepath.Join("../../bin/compat", deps.OldCommit))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	archive, unpacked := filepath.Join(folder, "source.tar"), filepath.Join(filepath.Dir(dir), filepath.Base(folder))
	for _, cmd := range []*exec.Cmd{
		exec.Command("git", "-C", "../..", "archive", "-o", archive, deps.OldCommit),
		exec.Command("mkdir", "-p", unpacked),
		exec.Command("tar", "-xf", archive, "-C", unpacked),
		exec.Command("mv", unpacked, dir), // once it is whole
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
		}
	}
	return dir, nil
})

// buildOld returns the path of the old version's binary.
func buildOld(t *testing.T) string {
	t.Helper()
	return build(t, "idworker-"+deps.OldVersion, process.Command, "-C", oldSource(t), "-buildvcs=false")
}

// TestNewRights: docs/upgrades.md names the rights that users of nats.conf got
// after the old version, and new users.
func TestNewRights(t *testing.T) {
	page, err := os.ReadFile("../../docs/upgrades.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range natsusers.Users() {
		t.Setenv(user.PasswordVariable(), password)
	}
	t.Setenv("IDS_SYS_PASSWORD", password)
	t.Setenv("IDS_NATS_DATA", t.TempDir())
	before, after := rightsIn(t, filepath.Join(oldSource(t), "nats.conf")), rightsIn(t, "../../nats.conf")
	if len(before) == 0 {
		t.Errorf("nats.conf of %s has no users", deps.OldVersion)
	}
	for user, rights := range after {
		if before[user] == nil {
			rights = []string{user}
		}
		for _, right := range rights {
			if !slices.Contains(before[user], right) && !strings.Contains(string(page), "`"+right+"`") {
				t.Errorf("docs/upgrades.md lacks `%s`, which is new for user %s", right, user)
			}
		}
	}
}

// rightsIn returns the rights of each user in a nats.conf.
func rightsIn(t *testing.T, conf string) map[string][]string {
	t.Helper()
	opts, err := server.ProcessConfigFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	rights := make(map[string][]string)
	for _, user := range opts.Users {
		if p := user.Permissions; p != nil {
			rights[user.Username] = slices.Concat(p.Publish.Allow, p.Subscribe.Allow)
		}
	}
	return rights
}
