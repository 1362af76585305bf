package durability

import "github.com/idworker/idworker/internal/rights"

// Rights are those that [CheckServers] needs. An installation works without them, but
// nobody then knows whether its servers sync.
func Rights() rights.Rights { return rights.Publish(jszSubject) }
