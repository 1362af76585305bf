package worker

import (
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/neighbours"
)

// olderProcesses counts what processes of a version say that does not know strict tags, while there are
// some: one that answers requests answers them from its own memory. Nobody can keep it from that.
type olderProcesses struct {
	met atomic.Int64

	mu     sync.Mutex
	logged map[string]bool // by instance
}

// maxOlderLogged bounds the memory of what was logged.
const maxOlderLogged = 100

func (o *olderProcesses) meet(p neighbours.Process, strict bool, log *zap.Logger) {
	if !strict {
		return
	}
	o.met.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.logged == nil {
		o.logged = make(map[string]bool)
	}
	if !o.logged[p.Instance] && len(o.logged) < maxOlderLogged {
		o.logged[p.Instance] = true
		log.Error("a process of an older version runs, which does not know strict tags: if it answers requests, they are out of order; stop it",
			zap.String("process", p.Instance), zap.String("host", p.Host))
	}
}
