package loadmsg

import (
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/metric"
)

// Foreign drops and counts the messages of other installations. A load event of
// another installation must not get a segment of this installation's store, and
// a grant of another store must not be used.
//
// Dropping an event is harmless, even in the load stream: this installation's
// stream may hold the events of others, but only this installation's loaders
// read it.
type Foreign struct {
	own    string // the installation
	log    *zap.Logger
	counts [len(kinds)]atomic.Int64

	mu     sync.Mutex
	logged map[string]bool
}

// MessageKind is the kind of a message.
type MessageKind int

// The kinds.
const (
	EventMessage MessageKind = iota
	GrantMessage
)

var kinds = [...]string{"load_event", "grant"}

// maxForeignLogged bounds the set of logged installations.
const maxForeignLogged = 100

// NewForeign returns a Foreign for a process of the given installation.
func NewForeign(installation string, log *zap.Logger) *Foreign {
	return &Foreign{own: installation, log: log, logged: make(map[string]bool)}
}

// Drop reports whether a message must be dropped because it names another
// installation.
func (f *Foreign) Drop(kind MessageKind, installation, sender string) bool {
	if installation == "" || installation == f.own {
		return false
	}
	f.counts[kind].Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if key := kinds[kind] + " " + installation; !f.logged[key] && len(f.logged) < maxForeignLogged {
		f.logged[key] = true
		f.log.Error("message of another installation dropped", zap.String("kind", kinds[kind]),
			zap.String("other", installation), zap.String("own", f.own), zap.String("sender", sender))
	}
	return true
}

var foreignTotal = metric.Declare("foreign_messages_total", "Load events and grants of other installations, dropped.", "kind")

// Collect sends the metrics.
func (f *Foreign) Collect(to metric.Sink) {
	for i, kind := range kinds {
		to.Counter(foreignTotal, f.counts[i].Load(), kind)
	}
}
