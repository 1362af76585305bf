// Package natsconf lists the users of the repository's nats.conf and the rights
// that each should have: the rights that idworker's packages state for its
// role, and a few that nats.conf itself gives a reason for. Tests compare the
// file, and a server that runs with it, with this list.
package natsconf

import (
	"strings"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// ConfUser is a user of nats.conf.
type ConfUser struct {
	Name, Account string
	Inbox         string // the prefix of its inboxes
	Rights        rights.Rights
}

// UserNamed is a user of nats.conf, or one whom no server lets in.
func UserNamed(name string) ConfUser {
	for _, u := range Users() {
		if u.Name == name {
			return u
		}
	}
	return ConfUser{Name: name}
}

// PasswordVariable is the environment variable with the user's password.
func (u ConfUser) PasswordVariable() string {
	return "IDS_" + strings.ToUpper(strings.ReplaceAll(u.Name, "-", "_")) + "_PASSWORD"
}

// Users are all users but that of the system account.
func Users() []ConfUser {
	p := messages.DefaultPrefix
	role := func(r rights.User) rights.Rights { return rights.Join(worker.Rights(p, r), register.Rights(p, r)) }
	mayAsk := rights.Publish(rights.AskPermissions)        // for its own rights
	mayAskServers := rights.Publish(durability.AskServers) // whether they sync
	// The answers of a process to users that may list processes.
	reports := rights.Publish("_INBOX_worker.>", "_INBOX_loader.>", "_INBOX_admin.>", "_INBOX_restore.>")
	admin := rights.Join(role(rights.Admin), mayAsk, mayAskServers, askServices(), rights.Publish("$JS.API.INFO"))
	users := []ConfUser{
		{"worker", "IDS", "_INBOX_worker", rights.Join(
			role(rights.Worker), mayAsk, mayAskServers,
			rights.Publish("_INBOX_caller.>", "_R_.>"), reports, // its replies; _R_ is for other accounts
		)},
		{"generator", "IDS", "_INBOX_worker.generator", rights.Join(lease.Rights(p, rights.Snowflake), rights.Publish("_INBOX_worker.>"))},
		{"loader", "IDS", "_INBOX_loader", rights.Join(role(rights.Loader), mayAsk, mayAskServers, reports)},
		{"admin", "IDS", "_INBOX_admin", admin},
		{"backup", "IDS", "_INBOX_backup", rights.Join(
			role(rights.Backup), mayAsk, snapshot("KV_ids_register"), snapshot("KV_ids_config"),
		)},
		{"restore", "IDS", "_INBOX_restore", rights.Join(
			admin, replace("KV_ids_register"), replace("KV_ids_config"), replace("KV_ids_clock"),
		)},
		{"caller", "CALLERS", "_INBOX_caller.any", role(rights.Caller)},
		{"order", "CALLERS", "_INBOX_caller.order", rights.Publish(p.Segment("order"))},
		{"enricher", "ORDERS", "_INBOX_enricher", rights.Join(
			enrich.Rights(p, rights.Enricher), agreement.Rights(p, rights.Enricher), mayAsk,
			enrichment("ORDERS", "ORDERS_READY"), rights.Publish("orders.ready.>", "orders.dead"),
			rights.Publish("_INBOX_enricher.>"), // enrichers answer each other
		)},
		{"orders-auditor", "ORDERS_AUDIT", "_INBOX_orders-auditor", rights.Join(
			verify.Rights(rights.Auditor), mayAsk,
			streamread.RightsWithoutConsumer("ORDERS"), streamread.RightsWithoutConsumer("ORDERS_READY"),
		)},
		{"orders-admin", "ORDERS", "_INBOX_orders-admin", rights.Join(
			enrich.Rights(p, rights.Admin), rights.ProvisionStream("ORDERS"), rights.ProvisionStream("ORDERS_READY"),
			rights.Publish("orders.raw.>", "$JS.API.INFO"),
		)},
	}
	for i, u := range users {
		users[i].Rights = rights.Join(u.Rights, rights.Subscribe(u.Inbox+".>"))
	}
	return users
}

// enrichment are an enricher's rights for its streams.
func enrichment(source, target string) rights.Rights {
	turns := "ids.enrich." + source + "." + target
	return rights.Join(rights.Publish(turns), rights.Subscribe(turns), enrich.MeasureRights(source),
		rights.Publish(rights.StreamInfo(target)), rights.ReadLeader(target))
}

// snapshot are the requests of a backup of a stream, as nats backup sends.
func snapshot(stream string) rights.Rights {
	return rights.Publish(rights.StreamInfo(stream), rights.API("STREAM.SNAPSHOT."+stream), "$JS.SNAPSHOT.ACK."+stream+".>")
}

// replace are the requests that replace a stream by a backup, as nats stream rm
// and nats backup restore send.
func replace(stream string) rights.Rights {
	return rights.Join(snapshot(stream), rights.Publish(
		rights.API("STREAM.DELETE."+stream), rights.API("STREAM.RESTORE."+stream), "$JS.SNAPSHOT.RESTORE."+stream+".>"))
}

// askServices are the requests for a micro service's state, as nats micro
// sends.
func askServices() (r rights.Rights) {
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		r = rights.Join(r, rights.Publish("$SRV."+verb, "$SRV."+verb+".>"))
	}
	return r
}
