package loader

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker/loadmsg"
)

// breaker judges the store. Three failures in a row open it, and an answer of
// the store closes it. A call counts only if it began after the latest change.
//
// A store that has stopped granting, because its register regressed or is being
// raised, opens the breaker, too. But that is no outage: it is reported elsewhere,
// and starting what is missing would not help.
//
// A hanging call may be due to a locked row. It counts only if no call has
// succeeded for hangTime.
//
// An idle loader probes the store, more often while it fails. Probes that fail
// count as calls. They write once a call has failed: that reads succeed proves
// nothing then.
type breaker struct {
	log *zap.Logger

	worked   time.Time // the latest answer
	failures int       // in a row, those that count
	// Start of the present run of failures; zero without failures since the
	// latest answer.
	since  time.Time
	failed time.Time // the latest failure
	opened time.Time // the latest opening
	next   time.Time // when the next call may begin, while open
	probed time.Time // the latest probe
	called bool      // a call has failed since the latest answer
	open   bool
	reason string // the latest failure, while open
	outage Outage // Now means that failures other than refusals opened it
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
	return breaker{log: log.With(zap.String("store", store))}
}

// probe begins the pause before the next call of an open breaker, if the
// present pause is over; it does not depend on this call's answer. Otherwise it
// returns what is left of the present pause.
func (b *breaker) probe() (wait time.Duration) {
	now := time.Now()
	if wait = b.next.Sub(now); wait > 0 {
		return wait
	}
	b.next = now.Add(probePause)
	return 0
}

// recordAnswer records an answer of the store, which closes the breaker, unless
// the call began before it opened.
func (b *breaker) recordAnswer(began time.Time) {
	if b.open && began.Before(b.opened) {
		return
	}
	now := time.Now()
	if b.outage.Now {
		b.outage = Outage{Times: b.outage.Times}
		b.log.Info("store works again", zap.Duration("after", now.Sub(b.since)))
	}
	b.open, b.reason = false, ""
	b.worked, b.failures, b.since, b.called = now, 0, time.Time{}, false
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
		return b.open
	}
	b.failed, b.called = time.Now(), true
	if b.since.IsZero() {
		b.since = began
	}
	if hung && b.failed.Sub(b.since) < hangTime {
		return b.open
	}
	if b.failures++; b.failures < failuresOfOutage {
		return !hung && b.failed.Sub(b.worked) >= hangTime
	}
	if !b.open {
		b.open, b.opened, b.next = true, b.failed, b.failed.Add(probePause)
	}
	b.reason = loadmsg.Reason(err)
	if !b.outage.Now && !errors.Is(err, store.ErrRegressed) {
		b.outage = Outage{Now: true, Times: b.outage.Times + 1, Since: b.since}
		of := zap.Skip() // a probe has no tag
		if tag != "" {
			of = zap.String("tag", tag)
		}
		b.log.Error("store fails", of, zap.Error(err))
	}
	if b.outage.Now {
		b.outage.Error = b.reason
	}
	return true
}

// Outage reports the failures of a loader's store.
type Outage struct {
	Now   bool      `json:"now"`
	Times int64     `json:"times"`          // includes the present outage
	Since time.Time `json:"since,omitzero"` // start of the present outage
	Error string    `json:"error,omitempty"`
}

// callPace records the duration of calls, and which tags are slow: those whose
// latest call failed or took longer than the limit.
type callPace struct {
	timeout time.Duration // of a call
	typical time.Duration // of successful calls: about their median
	slow    map[string]slowTag
}

// slowTag is the state of a slow tag.
type slowTag struct {
	failed time.Time // most recently
	// Failures of the tag although the store had worked since the previous
	// failure.
	alone int
}

const (
	minLimit    = 200 * time.Millisecond
	limitFactor = 8 // times the typical call

	// maxSlow bounds the memory for slow tags. Beyond it, all are dropped.
	maxSlow = 10_000
)

func newPace(timeout time.Duration) callPace {
	return callPace{timeout: timeout, typical: minLimit / limitFactor, slow: make(map[string]slowTag)}
}

// limit bounds a call while other tags wait for its slot.
func (p *callPace) limit() time.Duration { return min(limitFactor*p.typical, p.timeout) }

// record records the duration of a successful call. A median follows the store,
// and not a few locked rows.
func (p *callPace) record(took time.Duration) {
	if took > p.typical {
		p.typical = min(p.typical+p.typical/2, p.timeout)
	} else {
		p.typical = max(p.typical-p.typical/3, minLimit/limitFactor)
	}
}

// markSlow records that a tag is slow, and reports whether the store is to blame. A
// single failure, before the store has worked for other tags, may just be an
// outage. worked is the time of the latest success of the store.
func (p *callPace) markSlow(tag string, worked time.Time) (blameStore bool) {
	s, found := p.slow[tag]
	if found && worked.After(s.failed) {
		s.alone++
	}
	if !found && len(p.slow) >= maxSlow {
		clear(p.slow)
	}
	s.failed = time.Now()
	p.slow[tag] = s
	return s.alone < 2
}

// judge judges a tag and the store by a call.
func (s *schedule) judge(q *queue, result callResult, err error) loadmsg.NotNow {
	took := time.Since(q.began)
	hung := took > s.pace.limit() || q.ctx.Err() != nil
	blameStore := false
	if result.proof == failed || hung {
		blameStore = s.pace.markSlow(q.tag, s.breaker.worked)
	} else {
		delete(s.pace.slow, q.tag)
	}
	switch result.proof {
	case failed:
		if blameStore && s.breaker.recordFailure(q.tag, q.began, hung, err) {
			return loadmsg.NotNowStore
		}
	case read:
		s.breaker.recordLookup(q.began)
	case wrote:
		if err == nil {
			s.pace.record(took)
		}
		s.breaker.recordAnswer(q.began)
	}
	return loadmsg.NotNowTag
}
