package roles

import (
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// kind is a role.
type kind struct {
	name, about string
	account     string
	inbox       string // empty: _INBOX_ and the user's name; the name follows a dot
	enriches    bool   // needs the streams of an enrichment

	// rights are those of a user with an inbox prefix, but for its inboxes.
	rights func(s Scope, inbox string) rights.Rights
}

var (
	readOwn  = rights.Publish(rights.AskPermissions) // its own rights
	readSync = rights.Publish(durability.AskServers) // whether servers sync

	// mayReport are the replies of a process to users that may list processes.
	mayReport = rights.Publish("_INBOX_worker.>", "_INBOX_loader.>", "_INBOX_admin.>", "_INBOX_restore.>")
)

// kinds are all roles.
var kinds = []kind{
	{name: "worker", about: "idworker serve --role worker, or snowflake", account: "IDS", inbox: "_INBOX_worker",
		rights: func(s Scope, _ string) rights.Rights {
			return rights.Join(process(s.Prefix, rights.Worker), readOwn, readSync,
				rights.Publish("_INBOX_caller.>", "_R_.>"), mayReport) // its replies; _R_ is for other accounts
		}},
	{name: "generator", about: "programs that make snowflake IDs themselves", account: "IDS", inbox: "_INBOX_worker.",
		rights: func(s Scope, _ string) rights.Rights {
			return rights.Join(lease.Rights(s.Prefix, rights.Snowflake), rights.Publish("_INBOX_worker.>"))
		}},
	{name: "loader", about: "idworker serve --role loader", account: "IDS", inbox: "_INBOX_loader",
		rights: func(s Scope, _ string) rights.Rights {
			return rights.Join(process(s.Prefix, rights.Loader), readOwn, readSync, mayReport,
				rights.Publish("_R_.>")) // to other accounts
		}},
	{name: "admin", about: "idworker provision, tag, workers, status, doctor, get", account: "IDS", inbox: "_INBOX_admin",
		rights: func(s Scope, _ string) rights.Rights { return admin(s.Prefix) }},
	{name: "monitor", about: "idworker status, doctor --role monitor, tag ls", account: "IDS_MONITOR",
		rights: func(s Scope, _ string) rights.Rights {
			return rights.Join(process(s.Prefix, rights.Monitor), readOwn, readSync, rights.Publish("$JS.API.INFO"))
		}},
	{name: "backup", about: "idworker backup; nats backup stream", account: "IDS", inbox: "_INBOX_backup",
		rights: func(s Scope, _ string) rights.Rights {
			return rights.Join(process(s.Prefix, rights.Backup), readOwn,
				snapshot(register.BucketName(s.Prefix)), snapshot(agreement.BucketName(s.Prefix)))
		}},
	{name: "restore", about: "restores by hand, with the nats command", account: "IDS", inbox: "_INBOX_restore",
		rights: func(s Scope, _ string) rights.Rights {
			return rights.Join(admin(s.Prefix), replace(register.BucketName(s.Prefix)),
				replace(agreement.BucketName(s.Prefix)), replace(lease.ClockBucketName(s.Prefix)))
		}},
	{name: "caller", about: "services that request IDs", account: "CALLERS", inbox: "_INBOX_caller.",
		rights: func(s Scope, _ string) (r rights.Rights) {
			if len(s.Tags) == 0 {
				return process(s.Prefix, rights.Caller)
			}
			for _, tag := range s.Tags {
				r = rights.Join(r, rights.Publish(s.Prefix.Segment(tag)))
			}
			return r
		}},
	{name: "enricher", about: "idworker enrich", account: "ORDERS", enriches: true,
		rights: func(s Scope, inbox string) rights.Rights {
			return rights.Join(enrich.Rights(s.Prefix, rights.Enricher), agreement.Rights(s.Prefix, rights.Enricher), readOwn,
				enrichment(s.Prefix, s.Source, s.Target), rights.Publish(s.To...),
				rights.Publish(inbox+".>")) // enrichers answer each other
		}},
	{name: "auditor", about: "idworker enrich verify --no-consumers", account: "ORDERS_AUDIT", enriches: true,
		rights: func(s Scope, _ string) rights.Rights {
			return rights.Join(verify.Rights(rights.Auditor), readOwn,
				streamread.RightsWithoutConsumer(s.Source), streamread.RightsWithoutConsumer(s.Target))
		}},
	{name: "enrich-admin", about: "idworker provision --part enrich; creating the streams", account: "ORDERS", enriches: true,
		rights: func(s Scope, _ string) rights.Rights {
			return rights.Join(enrich.Rights(s.Prefix, rights.Admin), rights.ProvisionStream(s.Source), rights.ProvisionStream(s.Target),
				rights.Publish(s.To...), rights.Publish("$JS.API.INFO"))
		}},
}

// process are the rights of a role for processes and the register.
func process(p messages.Prefix, d rights.Duty) rights.Rights {
	return rights.Join(worker.Rights(p, d), register.Rights(p, d))
}

func admin(p messages.Prefix) rights.Rights {
	return rights.Join(process(p, rights.Admin), readOwn, readSync, readServices(), rights.Publish("$JS.API.INFO"))
}

// enrichment are an enricher's rights for its streams.
func enrichment(p messages.Prefix, source, target string) rights.Rights {
	turns := string(p) + ".enrich." + source + "." + target
	return rights.Join(rights.Publish(turns), rights.Subscribe(turns), enrich.MeasureRights(source),
		rights.Publish(rights.StreamInfo(target)), rights.ReadLeader(target))
}

// snapshot are the requests of a backup of a bucket, as nats backup sends.
func snapshot(bucket string) rights.Rights {
	stream := "KV_" + bucket
	return rights.Publish(rights.StreamInfo(stream), rights.API("STREAM.SNAPSHOT."+stream), "$JS.SNAPSHOT.ACK."+stream+".>")
}

// replace are the requests that replace a bucket by a backup, as nats stream rm
// and nats backup restore send.
func replace(bucket string) rights.Rights {
	stream := "KV_" + bucket
	return rights.Join(snapshot(bucket), rights.Publish(
		rights.API("STREAM.DELETE."+stream), rights.API("STREAM.RESTORE."+stream), "$JS.SNAPSHOT.RESTORE."+stream+".>"))
}

// readServices are the requests for a micro service's state, as nats micro
// sends.
func readServices() (r rights.Rights) {
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		r = rights.Join(r, rights.Publish("$SRV."+verb, "$SRV."+verb+".>"))
	}
	return r
}
