package guard

import (
	"errors"
	"fmt"
	"time"

	"github.com/idworker/idworker/internal/position"
	"github.com/idworker/idworker/store"
)

// The register is polled at least every PollEvery. A range is granted only
// after a poll younger than PollAge: no restore of a stream is as short. A
// connection that is paused for longer has to start over.
const (
	PollEvery = time.Second
	PollAge   = 5 * time.Second

	// Suspicion is the time after which a fault on a replicated stream is
	// proof. A leader that lost the other servers answers from its own state
	// until it detects that, after at most 20 s. Nothing is granted during that
	// time.
	Suspicion = 25 * time.Second
)

var (
	// ErrUnpolled means that a write needs another poll first.
	ErrUnpolled = errors.New("the register has to be polled first")

	// ErrLate means that a reply came too long after the poll that preceded the
	// write.
	ErrLate = errors.New("write confirmed too late")

	// ErrOvertaken means that the loader stopped, compared its entries, or
	// accepted a decision while a request was in flight.
	ErrOvertaken = errors.New("granting stopped while the request was in flight")

	// ErrBehind reports a server that returned more before.
	ErrBehind = errors.New("the server lags behind its earlier replies")

	// ErrRefused reports a decision that does not cover all that was granted. The
	// record has to be noted, or a restart would take the decision for a new one.
	ErrRefused = errors.New("register was not raised enough")

	// ErrChanged reports a register that is no longer the one that was judged.
	ErrChanged = errors.New("the register changed while a decision was accepted")
)

// Guard judges whether a loader may grant. [New] makes one. It is not safe for
// concurrent use.
type Guard struct {
	// News is for the log: why granting has stopped, and nil where it has
	// resumed, in that order. The caller empties it.
	News []*store.RegressionError

	bucket string
	record Record
	polled Permit // of the last good poll

	// heard are the highest claims of other processes that lie above the record.
	// Unlike the record they are never noted.
	heard hearsay

	asks     bool   // other processes are asked, see AskFirst
	round    int    // number of the question that precedes the next write; 0 if none does
	asked    int    // number of questions so far
	answered Moment // when the latest poll that was answered was sent

	doubts     int // incremented by each event after which a write needs a fresh poll
	epoch      int // incremented by each event that discards the writes in flight
	acceptedIn int // the epoch in which the latest decision was accepted

	stopped *store.RegressionError
	proven  bool      // only a decision ends stopped
	lowest  tagNext   // the entry that has proven it, if one has
	began   Moment    // of the first poll since it is proven
	proof   *Proof    // left for the next process, see Proof
	left    *Proof    // by another process, see Left
	short   int64     // by how much the latest raise was too small; 0 if it was not
	suspect time.Time // since when something looks wrong

	entries  map[string]time.Time              // since when they read lower than cached
	claimed  struct{ since, latest time.Time } // when entries read lower than claimed
	replicas int                               // of the stream
	ignored  []string                          // processes whose claims are void
	full     bool                              // see Full
	raises   bool                              // see IgnoreMarks
}

// New returns the guard of a bucket of which that much was seen before.
func New(bucket string, seen Record) *Guard {
	return &Guard{bucket: bucket, record: seen, entries: make(map[string]time.Time), replicas: 1}
}

// Moment is the time, the time in suspend included, and the number of times
// that the connection was made again until then.
type Moment struct {
	Time       time.Time
	Reconnects uint64
}

// Permit is the state in which a poll or a write is sent. That of a good poll
// permits writes, as long as [Guard.Permit] returns it.
type Permit struct {
	Floor int64 // lowest first ID of new tags, for a write

	at            Moment
	doubts, epoch int
	seen          position.Position
	heard         hearsay
}

// isWithin reports whether the poll of a permit was sent less than age ago, on
// the same connection.
func (p Permit) isWithin(age time.Duration, now Moment) bool {
	return now.Time.Sub(p.at.Time) < age && p.at.Reconnects == now.Reconnects
}

// Stamp returns the state in which a poll is sent.
func (g *Guard) Stamp(now Moment) Permit {
	return Permit{at: now, doubts: g.doubts, epoch: g.epoch, seen: g.record.Position, heard: g.heard}
}

// Permit returns the permit of a write. The last poll returned at least as much
// as had been seen, is recent, and nothing has happened since that requires
// another poll. The caller must read or compute its write after that. Errors:
// [ErrUnpolled], or the *store.RegressionError of a proven regression. The poll
// of a caller that has just polled may be older: it may have been slow.
func (g *Guard) Permit(now Moment, hasPolled bool) (Permit, error) {
	age := PollEvery
	if hasPolled {
		age = PollAge / 2
	}
	switch {
	case g.proven:
		return Permit{}, g.stopped
	case g.round > 0:
		return Permit{}, &store.RegressionError{Bucket: g.bucket, Reason: Asking}
	case !g.polled.isWithin(age, now) || g.polled.doubts != g.doubts:
		return Permit{}, ErrUnpolled
	}
	p := g.polled
	p.seen, p.heard, p.Floor = g.record.Position, g.heard, max(1, g.record.First)
	return p, nil
}

// Sending returns the permit of a write that is sent now, which the answer must
// confirm. It is false if something has happened since the permit that requires
// a poll first.
func (g *Guard) Sending(p Permit) (Permit, bool) {
	p.seen, p.heard = g.record.Position, g.heard
	return p, p.doubts == g.doubts
}

// Wrote judges the reply to a write, its revision. After an error the write counts
// for nothing: [ErrLate], [ErrOvertaken], or a *store.RegressionError. The tag is
// the one whose cached entry the write replaced, which refutes that its entry is
// lower; "" if the write replaced an entry that was not cached.
//
// Many writes may be in flight when a restore ends. They lift the sequence, so
// only the first answers prove the regression. The later ones are discarded.
func (g *Guard) Wrote(p Permit, tag string, revision uint64, now Moment) error {
	switch {
	case revision <= p.seen.Last:
		return g.prove(p.epoch, &store.RegressionError{Bucket: g.bucket, Seen: p.seen.Last, Found: revision})
	case !p.isWithin(PollAge, now):
		g.doubts++
		return ErrLate
	case p.epoch != g.epoch:
		return ErrOvertaken
	case p.heard.last.Floor == p.Floor && revision <= p.heard.last.Sequence:
		return g.prove(p.epoch, g.below(p.heard.last, revision))
	}
	delete(g.entries, tag)
	g.record.Last = max(g.record.Last, revision)
	return nil
}

// Doubt requires a poll before the next write: the outcome of one is unknown.
func (g *Guard) Doubt() { g.doubts++ }

// Epoch is passed to [Guard.Read] with the reply to a read that is sent now.
func (g *Guard) Epoch() int { return g.epoch }

// Read judges the reply to a read that was sent in an epoch: the next ID of a
// tag, 0 without an entry, and the revision. had is the next ID that was cached
// when it was sent, and claim what was heard of the tag before that. If the
// leader has less, the register regressed; on a replicated stream, only if it
// stays lower. Errors: [ErrOvertaken], after which the caller reads again;
// [ErrBehind]; store.ErrCorrupt; *store.RegressionError.
func (g *Guard) Read(epoch int, tag string, had int64, claim store.Claim, next int64, revision uint64, now time.Time) error {
	if claim.Next <= had || !g.Counts(claim) {
		claim = store.Claim{}
	}
	had = max(had, claim.Next)
	if next >= had {
		delete(g.entries, tag)
		if epoch != g.epoch {
			return ErrOvertaken
		}
		g.record.Last = max(g.record.Last, revision)
		return nil
	}
	since, found := g.entries[tag]
	switch {
	case !claim.IsZero(): // one for all tags, which anybody can invent
		if now.Sub(g.claimed.latest) > PollAge {
			g.claimed.since = now
		}
		g.claimed.latest, since = now, g.claimed.since
	case !found:
		since = now
		fallthrough
	default:
		g.entries[tag] = since
	}
	switch {
	case now.Sub(since) < Suspicion && g.replicas > 1:
		if claim.IsZero() {
			g.doubts++
		}
		return fmt.Errorf("%w: next was %d, now %d", ErrBehind, had, next)
	case next > 0, !claim.IsZero() && revision == 0:
		if epoch >= g.acceptedIn && claim.IsZero() {
			g.lowest = tagNext{tag, had}
		}
		return g.prove(epoch, &store.RegressionError{Bucket: g.bucket, Reason: lowerEntry(tag, next, had) + said(claim), Claim: claim})
	}
	return fmt.Errorf("%w: deleted by hand, was granted up to %d", store.ErrCorrupt, had)
}

// tagNext is a tag and a number above all that was granted of it.
type tagNext struct {
	tag  string
	next int64
}

func lowerEntry(tag string, next, had int64) string {
	return fmt.Sprintf("has tag %s at %d, was granted up to %d", tag, next, had)
}

// prove stops granting because of an entry or a reply that contradicts what was
// seen since an epoch. A state from before a decision proves nothing after it.
func (g *Guard) prove(epoch int, wrong *store.RegressionError) error {
	if epoch < g.acceptedIn {
		return ErrOvertaken
	}
	return g.stop(wrong, true)
}

// stop ends granting.
func (g *Guard) stop(wrong *store.RegressionError, proven bool) error {
	g.overtake()
	if g.stopped == nil {
		g.News = append(g.News, wrong)
	}
	hearsay := g.stopped != nil && !g.stopped.Claim.IsZero()
	if proven && (!g.proven || hearsay) {
		g.began, g.proof = Moment{}, nil
	}
	if !g.proven || proven && (hearsay || wrong.Claim.IsZero()) {
		g.stopped, g.proven = wrong, proven
	}
	return g.stopped
}

// Stop ends granting until a decision, because of a bucket beside the register.
func (g *Guard) Stop(wrong *store.RegressionError) { _ = g.stop(wrong, true) }

// overtake requires a poll before the next write, and discards the writes in
// flight.
func (g *Guard) overtake() {
	g.doubts++
	g.epoch++
}

// Begin adopts the first poll of a process, if nothing contradicts it. It reports
// whether there is a decision that the record lacks. Otherwise granting has
// stopped, as if the process had polled before.
func (g *Guard) Begin(found Poll, now Moment) (decided bool) {
	g.replicas, g.ignored, g.answered = max(1, found.Replicas), found.Ignored, now
	decided, wrong := g.record.Compare(g.bucket, found)
	switch {
	case wrong == nil:
		g.record.adopt(found)
	case decided:
		_ = g.refuse(found, wrong) // Stopped returns it
	default:
		proven := g.record.Proof.holds(found.ID, found.First) && found.Mark == ""
		_ = g.stop(wrong, proven || !found.Missing && found.Mark == "" && g.isProof(now.Time))
	}
	return decided && wrong == nil
}

// Polled draws the conclusion from a poll that was sent in a state. If it
// returns a comparison, the caller compares its cache with the entries, and
// calls [Guard.Compared]. Errors: *store.RegressionError, [ErrRefused]. Only a
// decision ends a proven regression.
func (g *Guard) Polled(sent Permit, found Poll, now Moment) (*Comparison, error) {
	found = g.withoutOwnMark(found)
	if found.Mark != "" {
		g.short = 0
	}
	g.replicas, g.ignored = max(1, found.Replicas), found.Ignored
	g.askAfterSilence(sent.at)
	decided, wrong := g.record.Assess(g.bucket, found, sent.seen.Last)
	isNew := decided
	if said := g.contradiction(sent.heard, found); wrong == nil && said != nil {
		decided, wrong = false, said
	}
	if !isNew { // what was seen before a decision is no proof under it
		g.prepareProof(sent, found, wrong, now)
	}
	switch {
	case decided && wrong != nil:
		return nil, g.refuse(found, wrong)
	case wrong != nil:
		return nil, g.stop(wrong, !found.Missing && found.Mark == "" && g.isProof(now.Time))
	case decided:
		return g.compare(sent, found, true), nil
	}
	switch {
	case g.grants():
		return nil, g.adopt(sent, found)
	case g.proven: // so only a decision helps, however complete the register looks
		return nil, g.stop(g.stopped, true)
	}
	return g.compare(sent, found, false), nil // others may have lifted the sequence since
}

// grants reports whether granting has not stopped.
func (g *Guard) grants() bool { return g.stopped == nil }

// withoutOwnMark returns a poll as this process judges it: its own mark does not
// stop it.
func (g *Guard) withoutOwnMark(found Poll) Poll {
	if g.raises {
		found.Mark = ""
	}
	return found
}

// isProof reports whether a fault is proof: at once on a stream without
// replicas, otherwise once it has lasted for Suspicion.
func (g *Guard) isProof(now time.Time) bool {
	if g.suspect.IsZero() {
		g.suspect = now
	}
	return g.replicas == 1 || now.Sub(g.suspect) >= Suspicion
}

// refuse stops granting because of a decision that does not cover all that was
// granted. It counts as seen.
func (g *Guard) refuse(found Poll, wrong *store.RegressionError) error {
	err := g.stop(wrong, true)
	g.record.learn(found)
	g.short = wrong.Short
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

// adopt makes a poll the record, and resumes.
func (g *Guard) adopt(sent Permit, found Poll) error {
	if g.proven { // since the poll was sent
		return g.stopped
	}
	found.Last = max(found.Last, g.record.Last) // more may have been written since
	g.record.Position, g.record.Entries = found.Position, found.Entries
	g.record.First = max(g.record.First, found.First)
	g.polled, g.full = sent, found.Full
	if g.heard == sent.heard { // nothing else was heard since
		g.heard = hearsay{}
	}
	g.resume()
	return nil
}

// resume ends a stop.
func (g *Guard) resume() {
	if g.stopped != nil {
		g.News = append(g.News, nil)
	}
	g.suspect = time.Time{}
	g.stopped, g.proven, g.short = nil, false, 0
	g.lowest, g.proof = tagNext{}, nil
}

// Comparison is a comparison of the entries that a process has cached with those
// of a register that it may resume with. No write counts that was in flight when
// it began.
type Comparison struct {
	Decided bool // [Guard.Compared] is followed by [Guard.Accept]

	sent  Permit
	found Poll
	epoch int
	wrong store.RegressionError // the entry that is lowest, compared with the cached one
}

func (g *Guard) compare(sent Permit, found Poll, decided bool) *Comparison {
	g.overtake()
	return &Comparison{Decided: decided, sent: sent, found: found, epoch: g.epoch, wrong: store.RegressionError{Bucket: g.bucket}}
}

// MissingAt is what counts as the next ID of an entry that the register lacks:
// after a decision, such a tag begins at the lowest first ID of new tags.
func (c *Comparison) MissingAt() int64 {
	if c.Decided {
		return c.found.First
	}
	return 0
}

// Entry compares the next ID of a tag with the one that was cached.
func (c *Comparison) Entry(tag string, had, next int64) {
	if short := had - next; short > c.wrong.Short {
		c.wrong.Reason, c.wrong.Short = lowerEntry(tag, next, had), short
	}
}

// Compared ends a comparison: granting resumes, unless an entry was lower or a
// decision has yet to be accepted. Errors are those of [Guard.Polled].
func (g *Guard) Compared(c *Comparison) error {
	wrong := c.wrong
	switch {
	case wrong.Short > 0 && c.Decided:
		return g.refuse(c.found, &wrong)
	case wrong.Short > 0:
		return g.stop(&wrong, true)
	case c.Decided:
		return nil
	}
	return g.adopt(c.sent, c.found)
}

// IsFresh reports whether a write may be sent before the decision is accepted. If
// not, the caller sends a poll, and calls [Guard.Renewed].
func (g *Guard) IsFresh(c *Comparison, now Moment) bool {
	return c.sent.isWithin(PollAge/2, now) && c.sent.doubts == g.doubts
}

// Renewed gives a comparison the permit of a poll, or returns [ErrChanged] if
// the poll did not return the register that was compared.
func (g *Guard) Renewed(c *Comparison, sent Permit, found Poll) error {
	if !g.withoutOwnMark(found).follows(c.found) {
		return ErrChanged
	}
	c.sent = sent
	return nil
}

// IsLate reports whether a reply came too long after the permit of its write.
func (c *Comparison) IsLate(now Moment) bool { return !c.sent.isWithin(PollAge, now) }

// RecordAfter returns the record after [Guard.Accept], for the witness.
func (g *Guard) RecordAfter(c *Comparison) Record {
	r := g.record.Clone()
	r.adopt(c.found)
	return r
}

// Accept resumes with a register that has a new decision and all that was
// compared. A poll precedes the next write. The caller must forget its cache,
// whose revisions may by now be those of other entries. [ErrOvertaken] means that
// granting has stopped since the comparison began.
func (g *Guard) Accept(c *Comparison) error {
	if g.epoch != c.epoch {
		return ErrOvertaken
	}
	g.record, g.acceptedIn = g.RecordAfter(c), c.epoch
	clear(g.entries)
	g.claimed.latest = time.Time{}
	if g.heard.last.Floor <= g.record.First { // from before, or it will be heard again
		g.heard = hearsay{}
	}
	g.resume()
	if g.asks {
		g.ask()
	}
	g.Left(g.left)
	return nil
}

// IgnoreMarks makes the guard that of a process that raises all tags: a mark does
// not stop it.
func (g *Guard) IgnoreMarks() { g.raises = true }

// Reset makes the present state of a register, which may have regressed, that of
// a process that raises all tags. The caller must forget its cache.
func (g *Guard) Reset(found Poll) {
	g.overtake()
	clear(g.entries)
	g.record = Record{}
	g.record.adopt(found)
	g.heard = hearsay{}
	g.resume()
	g.News = nil
}

// Stopped returns why nothing is granted, or nil.
func (g *Guard) Stopped() *store.RegressionError {
	if g.stopped == nil {
		return nil
	}
	wrong := *g.stopped
	wrong.Short = g.short
	return &wrong
}

// PolledSince reports whether a good poll was sent since a time, after which
// nothing has happened that requires another.
func (g *Guard) PolledSince(t time.Time) bool {
	return g.polled.at.Time.After(t) && g.polled.doubts == g.doubts
}

// Trusts reports whether the connection leads to the register that was seen: the
// latest poll was answered on it, and contradicts nothing.
func (g *Guard) Trusts(now Moment) bool {
	return g.stopped == nil && g.answered.Reconnects == now.Reconnects
}

// Age is the time since the last good poll was sent.
func (g *Guard) Age(now time.Time) time.Duration { return now.Sub(g.polled.at.Time) }

// Full reports whether the stream is close to the limit of its bytes.
func (g *Guard) Full() bool { return g.full }

// Record returns what was seen.
func (g *Guard) Record() Record { return g.record.Clone() }

// Lowest returns the lowest first ID of a tag without an entry that was not used
// before a time, zero if that is unknown. A tag that was not used before the
// latest decision cannot have lost IDs in the regression that the decision
// ended. Only the decision's time counts, and no clock of this process.
//
// A caller that writes calls it after its permit: once another decision is
// accepted, the permit is void.
func (g *Guard) Lowest(earliest time.Time) int64 {
	decided := g.record.Decided
	unused := !decided.IsZero() && earliest.After(decided)
	if unused || earliest.Equal(store.NeverUsed) {
		return 1
	}
	return max(1, g.record.First)
}
