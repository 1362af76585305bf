package natsconf_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/worker"
)

// nats.conf gives each user the rights that its role needs: none is missing,
// none is extra.
func TestRightsOfEachUser(t *testing.T) {
	given := readFile(t)
	for _, user := range roles.Users() {
		found, ok := given[user.Name]
		if !ok {
			t.Errorf("there is no user %s", user.Name)
			continue
		}
		delete(given, user.Name)
		if found.Account.Name != user.Account {
			t.Errorf("%s is in account %s, want %s", user.Name, found.Account.Name, user.Account)
		}
		compare(t, user.Name+" publishes to", user.Rights.Publish, found.Permissions.Publish)
		compare(t, user.Name+" subscribes to", user.Rights.Subscribe, found.Permissions.Subscribe)
		if found.Permissions.Response != nil {
			t.Errorf("%s may publish wherever a request asks for the reply", user.Name)
		}
	}
	for name := range given {
		t.Errorf("user %s: nobody says what it is for", name)
	}
}

// The worker's user has all rights of the role snowflake, which needs fewer.
func TestWorkerCoversSnowflake(t *testing.T) {
	p := messages.DefaultPrefix
	need, given := worker.Rights(p, rights.Snowflake), worker.Rights(p, rights.Worker)
	for _, lists := range [][2][]string{{need.Publish, given.Publish}, {need.Subscribe, given.Subscribe}} {
		for _, subject := range lists[0] {
			if !slices.Contains(lists[1], subject) {
				t.Errorf("%s is no right of a worker", subject)
			}
			if strings.Contains(subject, "LOAD") || strings.Contains(subject, "register") || strings.Contains(subject, "segment") {
				t.Errorf("%s is about segments", subject)
			}
		}
	}
}

func compare(t *testing.T, what string, need []string, given *server.SubjectPermission) {
	t.Helper()
	for _, subject := range need {
		if !slices.Contains(given.Allow, subject) {
			t.Errorf("%s %s, and may not", what, subject)
		}
	}
	for _, subject := range given.Allow {
		if !slices.Contains(need, subject) {
			t.Errorf("%s %s, and does not need to", what, subject)
		}
	}
	if len(given.Deny) > 0 {
		t.Errorf("%s: denied %v; what is not allowed is denied anyway", what, given.Deny)
	}
}

// Each account with JetStream has storage of its own, together no more than the
// server's: a full account takes nothing from the counters.
func TestStorageOfEachAccount(t *testing.T) {
	setEnv(t)
	file, err := conf.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	has := file["jetstream"].(map[string]any)
	left := map[string]int64{"max_memory": has["max_memory_store"].(int64), "max_file": has["max_file_store"].(int64)}
	for name, account := range file["accounts"].(map[string]any) {
		limits, enabled := account.(map[string]any)["jetstream"]
		if !enabled {
			continue
		}
		for kind := range left {
			part, _ := limits.(map[string]any)
			bytes, ok := part[kind].(int64)
			if left[kind] -= bytes; !ok || left[kind] < 0 {
				t.Errorf("account %s has %v, %d bytes of %s are left after it", name, limits, left[kind], kind)
			}
		}
	}
}

// An untrusted caller costs others little: if it does not read, it delays no
// other caller; no reply is copied often; no worker decodes large headers.
func TestLimitsOfEachAccount(t *testing.T) {
	setEnv(t)
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !options.NoFastProducerStall {
		t.Error("the server holds up a worker for a caller that does not read")
	}
	file, err := conf.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for account, want := range map[string]string{
		"CALLERS": "map[max_connections:1000 max_payload:1024 max_subscriptions:100]",
		"ORDERS":  "map[max_connections:1000 max_subscriptions:100]", // events may be large
	} {
		has, _ := file["accounts"].(map[string]any)[account].(map[string]any)
		if given := fmt.Sprint(has["limits"]); given != want {
			t.Errorf("account %s has limits %s, want %s", account, given, want)
		}
	}
}

const path = "../../nats.conf"

// setEnv sets the variables that the file reads from the environment.
func setEnv(t *testing.T) {
	t.Helper()
	t.Setenv("IDS_NATS_DATA", t.TempDir())
	t.Setenv("IDS_SYS_PASSWORD", "secret")
	for _, user := range roles.Users() {
		t.Setenv(user.PasswordVariable(), "secret-of-"+user.Name)
	}
}

// readFile returns all users but that of the system account, by name.
func readFile(t *testing.T) map[string]*server.User {
	t.Helper()
	setEnv(t)
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	users := make(map[string]*server.User)
	for _, user := range options.Users {
		if !strings.EqualFold(user.Account.Name, options.SystemAccount) {
			users[user.Username] = user
		}
	}
	return users
}
