package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/internal/backend"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
)

// natsConfUsers are the users of nats.conf with the rights that they should have: those that
// the packages state for a role, and those that the file itself gives a reason for.
func natsConfUsers() map[string]rights.Rights {
	p := messages.DefaultPrefix
	own := func(inbox string) rights.Rights { return rights.Subscribe(inbox + ".>") }
	// To find out what it may do itself, and whether the servers sync.
	doctor := rights.Join(durability.Rights(), rights.Publish(rights.AskPermissions))
	var services rights.Rights // asks any micro service how it is
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		services = rights.Join(services, rights.Publish("$SRV."+verb, "$SRV."+verb+".>"))
	}
	return map[string]rights.Rights{
		"worker": rights.Join(
			role(rights.Worker).needs(p, backend.JetStream), doctor, own("_INBOX_worker"),
			rights.Publish("_INBOX_caller.>", "_INBOX_admin.>", "_R_.>"), // its answers; _R_ is for other accounts
		),
		"loader": rights.Join(role(rights.Loader).needs(p, backend.JetStream), doctor, own("_INBOX_loader")),
		"admin": rights.Join(
			role(rights.Admin).needs(p, backend.JetStream), doctor, own("_INBOX_admin"), services,
			rights.Publish("$JS.API.INFO"),
		),
		"caller": rights.Join(rights.Publish(p.Segment(">"), p.Snowflake()), own("_INBOX_caller.any")),
		"order":  rights.Join(rights.Publish(p.Segment("order")), own("_INBOX_caller.order")),
		"enricher": rights.Join(
			role(rights.Enricher).needs(p, backend.JetStream),
			enrich.StreamRights(p, "ORDERS", "ORDERS_READY", "orders.ready.>", "orders.dead"),
			own("_INBOX_enricher"), rights.Publish("_INBOX_enricher.>"), // enrichers answer each other
			rights.Publish(rights.AskPermissions),
		),
		"orders-admin": rights.Join(
			enrich.Rights(p, rights.Admin), rights.ProvisionStream("ORDERS"), rights.ProvisionStream("ORDERS_READY"),
			rights.Publish("orders.raw.>", "$JS.API.INFO"), own("_INBOX_orders-admin"),
		),
	}
}

// nats.conf gives each user the rights that its role needs: none is missing, none is extra.
func TestNATSConfGivesWhatIsNeeded(t *testing.T) {
	want := natsConfUsers()
	for _, user := range readNATSConf(t) {
		need, known := want[user.Username]
		if !known {
			t.Errorf("user %s: nobody says what it is for", user.Username)
			continue
		}
		delete(want, user.Username)
		compare(t, user.Username+" publishes to", need.Publish, user.Permissions.Publish)
		compare(t, user.Username+" subscribes to", need.Subscribe, user.Permissions.Subscribe)
	}
	for name := range want {
		t.Errorf("there is no user %s", name)
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

// readNATSConf returns all users but that of the system account.
func readNATSConf(t *testing.T) (users []*server.User) {
	t.Helper()
	t.Setenv("IDS_NATS_DATA", t.TempDir())
	for _, name := range []string{"WORKER", "LOADER", "ADMIN", "CALLER", "ORDER", "ENRICHER", "ORDERS_ADMIN", "SYS"} {
		t.Setenv("IDS_"+name+"_PASSWORD", "secret")
	}
	conf, err := server.ProcessConfigFile("../../nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range conf.Users {
		if !strings.EqualFold(user.Account.Name, conf.SystemAccount) {
			users = append(users, user)
		}
	}
	return users
}
