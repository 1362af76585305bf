package messages

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// maxOutages bounds the subjects whose calls are known to fail. Failures on
	// further ones are not logged.
	maxOutages = 16

	// forgetOutage is the time without failures after which such a subject makes
	// room for another.
	forgetOutage = time.Minute

	// quietTime is the time without failures after which a success ends an outage.
	// While some calls fail and others do not, it goes on, or the two lines of each
	// outage would fill the log.
	quietTime = time.Second
)

// outages logs when calls begin to fail because no worker serves them, and when
// they succeed again, by subject. A caller's own mistakes are no outage.
type outages struct {
	failing atomic.Int32 // subjects; while it is 0, a success costs no more than to read it

	mu        sync.Mutex
	bySubject map[string]*outage
}

// outage is since when the calls on a subject fail.
type outage struct {
	began, latest time.Time
	calls         int
}

// note takes in the outcome of a call. tag is empty for snowflake IDs. The caller
// holds no lock, because a logger may block.
func (c *Client) note(tag string, err error) {
	switch {
	case isOutage(err):
		if subject := c.subject(tag); c.outages.add(subject) {
			c.log().Warn("ID requests fail", "subject", subject, "error", err)
		}
	case err == nil && c.outages.failing.Load() > 0:
		subject := c.subject(tag)
		if past := c.outages.end(subject); past != nil {
			c.log().Info("ID requests succeed again", "subject", subject, "failed", past.calls, "after", time.Since(past.began))
		}
	}
}

// isOutage reports whether a call has ended because no worker answered, none could
// serve it, or the connection was lost or has given up.
func isOutage(err error) bool {
	if err == nil {
		return false
	}
	return errors.Is(err, context.DeadlineExceeded) && isTransient(err) && !errors.Is(err, ErrBusy) || errors.Is(err, nats.ErrConnectionClosed)
}

// add counts a failed call, and reports whether it is the first.
func (o *outages) add(subject string) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	found := o.bySubject[subject]
	if found == nil {
		if len(o.bySubject) >= maxOutages {
			maps.DeleteFunc(o.bySubject, func(_ string, f *outage) bool { return now.Sub(f.latest) > forgetOutage })
		}
		if len(o.bySubject) >= maxOutages {
			return false
		}
		if o.bySubject == nil {
			o.bySubject = make(map[string]*outage)
		}
		found, first = &outage{began: now}, true
		o.bySubject[subject] = found
		o.failing.Store(int32(len(o.bySubject)))
	}
	found.latest = now
	found.calls++
	return first
}

// end removes a subject whose calls succeed again, and returns its outage, or nil
// if there is none that has ended.
func (o *outages) end(subject string) *outage {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := o.bySubject[subject]
	if found == nil || time.Since(found.latest) < quietTime {
		return nil
	}
	delete(o.bySubject, subject)
	o.failing.Store(int32(len(o.bySubject)))
	return found
}

// log returns the client's logger.
func (c *Client) log() *slog.Logger {
	if c.Log == nil {
		return slog.Default()
	}
	return c.Log
}

// watched has the connections whose losses are logged, by the first of their
// clients that was used.
var watched sync.Map // *nats.Conn → struct{}

// watch begins to log when the connection is lost and restored, until it is
// closed.
func (c *Client) watch() {
	if !c.watching.Load() && c.watching.CompareAndSwap(false, true) {
		c.watchConnection()
	}
}

func (c *Client) watchConnection() {
	if _, found := watched.LoadOrStore(c.nc, struct{}{}); found {
		return
	}
	log, nc := c.log(), c.nc
	go func() { // not before: nats.go may hold its lock for as long as a write hangs
		defer watched.Delete(nc)
		changes := nc.StatusChanged(nats.RECONNECTING, nats.CONNECTED, nats.CLOSED)
		lost := false
		for !nc.IsClosed() {
			switch <-changes {
			case nats.RECONNECTING:
				lost = true
				log.Warn("NATS connection lost", errorsOf(nc)...)
			case nats.CONNECTED:
				if lost {
					log.Info("NATS connection restored", "server", nc.ConnectedUrlRedacted())
				}
				lost = false
			}
		}
		if lost {
			log.Error("NATS connection given up", errorsOf(nc)...)
		}
	}()
}

// errorsOf are the attributes for the latest error of a connection, if it has one.
func errorsOf(nc *nats.Conn) []any {
	if err := nc.LastError(); err != nil {
		return []any{"error", err}
	}
	return nil
}
