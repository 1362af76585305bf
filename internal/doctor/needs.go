package doctor

import (
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/store/ledger"
	"github.com/idworker/idworker/worker"
)

// Needs joins the rights that all packages state for a role. Those for the counters are among
// them only if the installation counts in JetStream, and those for the ledger only if not. Those for the streams of an enrichment
// depend on it, see [enrich.StreamRights].
func Needs(p messages.Prefix, role rights.Role, countsInJetStream bool) rights.Rights {
	if role == rights.Enricher {
		return enrich.Rights(p, role)
	}
	need := rights.Join(worker.Rights(p, role), lease.Rights(p, role), agreement.Rights(p, role))
	if countsInJetStream {
		return rights.Join(need, jetstream.Rights(p, role))
	}
	return rights.Join(need, ledger.Rights(p, role))
}
