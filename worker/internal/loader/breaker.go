package loader

import (
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"go.uber.org/zap"
)

// breaker judges the store. Three failures in a row open it, and an answer of
// the store closes it. A call counts only if it began after the latest change.
//
// A hanging call may be due to a locked row. It counts only if no call has
// succeeded for hangTime.
//
// An idle loader probes the store, more often while it fails. Probes that fail
// count as calls. They write once a call has failed: that reads succeed proves
// nothing then.
type breaker struct {
	log     *zap.Logger
	circuit circuitbreaker.CircuitBreaker[any]

	worked time.Time // the latest answer
	// Start of the present run of failures; zero without failures since the
	// latest answer.
	since  time.Time
	failed time.Time // the latest failure
	opened time.Time // the latest opening
	probed time.Time // the latest probe
	called bool      // a call has failed since the latest answer
	outage Outage
}

const (
	// failuresOfOutage in a row mean that the store fails.
	failuresOfOutage = 3

	// hangTime is the time without a successful call after which hanging calls
	// count as failures of the store.
	hangTime = 2 * time.Second

	// probePause is the time between calls while the store fails.
	probePause = 750 * time.Millisecond

	// idleTime is the time without a call after which the loader probes the
	// store.
	idleTime = 10 * time.Second
)

func newBreaker(log *zap.Logger, store string) breaker {
	return breaker{
		log: log.With(zap.String("store", store)),
		circuit: circuitbreaker.NewBuilder[any]().
			WithFailureThreshold(failuresOfOutage).WithDelay(probePause).Build(),
	}
}

func (b *breaker) isOpen() bool { return !b.circuit.IsClosed() }

// untilProbe is the time until the next call may begin while the breaker is
// open.
func (b *breaker) untilProbe() time.Duration { return b.circuit.RemainingDelay() }

// beginProbe restarts the pause before the next probe. The pause does not
// depend on this probe's answer, so the circuit is reopened at once.
func (b *breaker) beginProbe() {
	if b.circuit.TryAcquirePermit() {
		b.circuit.Open()
	}
}

// recordAnswer records an answer of the store, which closes the breaker, unless
// the call began before it opened.
func (b *breaker) recordAnswer(began time.Time) {
	if b.isOpen() && began.Before(b.opened) {
		return
	}
	now := time.Now()
	b.circuit.RecordSuccess() // without effect while it is open
	if b.isOpen() {
		b.circuit.Close()
		b.outage = Outage{Times: b.outage.Times}
		b.log.Info("store works again", zap.Duration("after", now.Sub(b.since)))
	}
	b.worked, b.since, b.called = now, time.Time{}, false
}

// recordLookup is recordAnswer for a call that only read. While writes fail,
// reads do not prove that the store works.
func (b *breaker) recordLookup(began time.Time) {
	if time.Since(b.failed) >= hangTime {
		b.recordAnswer(began)
	}
}

// needsProbe reports whether it is unknown if the store works.
func (b *breaker) needsProbe() bool {
	wait := idleTime
	if !b.since.IsZero() {
		wait = probePause
	}
	return min(time.Since(b.worked), time.Since(b.failed), time.Since(b.probed)) >= wait
}

// recordProbe records the result of a probe, which wrote or only read. One that
// failed is no call.
func (b *breaker) recordProbe(began time.Time, wrote, hung bool, err error) {
	called := b.called
	switch {
	case err != nil:
		b.recordFailure("", began, hung, err)
		b.called = called
	case wrote || !called:
		b.recordAnswer(began)
	}
	b.probed = time.Now()
}

// recordFailure records a failed or hanging call, and reports whether the store
// is to blame. A call that began before the latest answer does not count.
func (b *breaker) recordFailure(tag string, began time.Time, hung bool, err error) bool {
	if began.Before(b.worked) {
		return b.isOpen()
	}
	b.failed, b.called = time.Now(), true
	if b.since.IsZero() {
		b.since = began
	}
	if hung && b.failed.Sub(b.since) < hangTime {
		return b.isOpen()
	}
	b.circuit.RecordFailure()
	if !b.isOpen() {
		return !hung && b.failed.Sub(b.worked) >= hangTime
	}
	if !b.outage.Now {
		b.opened = b.failed
		b.outage = Outage{Now: true, Times: b.outage.Times + 1, Since: b.since}
		of := zap.Skip() // a probe has no tag
		if tag != "" {
			of = zap.String("tag", tag)
		}
		b.log.Error("store fails", of, zap.Error(err))
	}
	text := err.Error()
	b.outage.Error = text[:min(len(text), maxOutageError)]
	return true
}

// Outage reports the failures of a loader's store.
type Outage struct {
	Now   bool      `json:"now"`
	Times int64     `json:"times"`          // includes the present outage
	Since time.Time `json:"since,omitzero"` // start of the present outage
	Error string    `json:"error,omitempty"`
}

// maxOutageError bounds Outage.Error.
const maxOutageError = 300
