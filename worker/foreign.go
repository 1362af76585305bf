package worker

import (
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
)

// foreignMessages counts the messages of other installations, and has them dropped. A load
// event of another installation must not get a segment of this one's store, and a grant of
// another one's store must not be used here.
//
// Dropping an event harms nobody, not even in the load stream: this installation's load
// stream takes the events of others too, if they can reach it, but only this one's loaders
// read it. The other installation's stream has a copy of its own.
type foreignMessages struct {
	own    string // the installation
	log    *zap.Logger
	counts [len(foreignKinds)]atomic.Int64

	mu     sync.Mutex
	logged map[string]bool
}

// foreignKinds are the kinds of messages, as the metric names them.
var foreignKinds = [...]string{"load_event", "grant"}

// The indices of the kinds.
const (
	foreignEvent = iota
	foreignGrant
)

// maxForeignLogged bounds the memory of what was logged.
const maxForeignLogged = 100

func newForeignMessages(own string, log *zap.Logger) *foreignMessages {
	return &foreignMessages{own: own, log: log, logged: make(map[string]bool)}
}

// drop reports whether a message has to be dropped because it says that it comes from
// another installation, and counts and logs that. One that does not say where it comes from
// is of a version before this.
func (f *foreignMessages) drop(kind int, installation, instance string) bool {
	if installation == "" || installation == f.own {
		return false
	}
	f.counts[kind].Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if key := foreignKinds[kind] + " " + installation; !f.logged[key] && len(f.logged) < maxForeignLogged {
		f.logged[key] = true
		f.log.Error("message of another installation dropped; more of them are only counted", zap.String("kind", foreignKinds[kind]),
			zap.String("other", installation), zap.String("own", f.own), zap.String("sender", instance))
	}
	return true
}

func (f *foreignMessages) collect(to sink) {
	for i, kind := range foreignKinds {
		to.counter(foreignMetric, f.counts[i].Load(), kind)
	}
}
