package guard

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/position"
	"github.com/idworker/idworker/store"
)

// loader is a guard, and the register as the leader would return it. The tags are
// those of the register, by their next IDs.
type loader struct {
	*testing.T
	*Guard
	now         Moment
	leader      Poll
	tags, cache map[string]int64

	permit   Permit      // of a write that is not sent yet
	inFlight []Permit    // of writes
	asked    Permit      // of a poll
	epoch    int         // of a read
	found    *Comparison // that has begun
}

func newLoader(t *testing.T) *loader {
	return &loader{
		T: t, Guard: New("r", Record{}), now: Moment{Time: time.Unix(1_800_000_000, 0)},
		leader: Poll{Position: position.Position{ID: "made", Last: 100}, Entries: 2, First: 1, Replicas: 1},
		tags:   map[string]int64{"a": 11, "b": 11}, cache: map[string]int64{},
	}
}

// step is what the loader does, or what happens to the register.
type step = func(*loader) error

// errUnsent is the error of a write whose permit has ended.
var errUnsent = errors.New("not sent")

// happens is a step without an error.
func happens(do func(*loader)) step { return func(l *loader) error { do(l); return nil } }

// The steps of a loader.
var (
	asks    = happens(func(l *loader) { l.asked = l.Stamp(l.now) })
	replies = func(l *loader) error { // the leader's to a poll; the loader compares and accepts
		err := begins(l)
		if l.found != nil {
			err = ends(l)
		}
		return err
	}
	polls  = func(l *loader) error { return errors.Join(asks(l), replies(l)) }
	begins = func(l *loader) (err error) { // a comparison, if there is one to make
		l.found, err = l.Polled(l.asked, l.leader, l.now)
		return err
	}
	ends = func(l *loader) error { // the comparison
		for _, tag := range slices.Sorted(maps.Keys(l.cache)) {
			next, there := l.tags[tag]
			if !there {
				next = l.found.MissingAt()
			}
			l.found.Entry(tag, l.cache[tag], next)
		}
		if err := l.Compared(l.found); err != nil || !l.found.Decided {
			return err
		}
		clear(l.cache)
		return l.Accept(l.found)
	}
	permits = func(l *loader) (err error) { l.permit, err = l.Permit(l.now, false); return err }
	// The permit of a loader that has just polled.
	permitsAgain = func(l *loader) (err error) { l.permit, err = l.Permit(l.now, true); return err }
	// The write of the permit.
	writes = func(l *loader) error {
		p, ok := l.Sending(l.permit)
		if !ok {
			return errUnsent
		}
		l.inFlight = append(l.inFlight, p)
		return nil
	}
	// The same for an administrator, who sends many at once.
	batches = happens(func(l *loader) { l.inFlight = append(l.inFlight, l.permit) })
	// A write, after polls if it needs some.
	sends = func(l *loader) error {
		for polled := false; ; polled = true {
			var err error
			if l.permit, err = l.Permit(l.now, polled); err == nil {
				return writes(l)
			}
			if !errors.Is(err, ErrUnpolled) {
				return err
			}
			if err := polls(l); err != nil {
				return err
			}
		}
	}
	lands = func(l *loader) error { // the first write that is in flight, and its reply
		p := l.inFlight[0]
		l.inFlight = l.inFlight[1:]
		l.leader.Last++
		return l.Wrote(p, "a", l.leader.Last, l.now)
	}
	grants = func(l *loader) error { // 10 IDs of a
		l.inFlight = nil
		err := sends(l)
		if err == nil {
			err = lands(l)
		}
		if err == nil {
			l.tags["a"] += 10
			l.cache["a"] = l.tags["a"]
		}
		return err
	}
	doubts = happens(func(l *loader) { l.Doubt() })
	looks  = happens(func(l *loader) { l.epoch = l.Epoch() })
	starts = func(l *loader) error { // again, with what it has noted
		l.Guard, l.cache = New("r", l.Record()), map[string]int64{}
		l.Begin(l.leader, l.now)
		if wrong := l.Stopped(); wrong != nil && wrong.Reason != BeingRaised {
			return wrong
		}
		return nil
	}
)

// finds is the reply to a read of a.
func finds(next int64) step {
	return func(l *loader) error { return l.Read(l.epoch, "a", 31, store.Claim{}, next, l.leader.Last, l.now.Time) }
}

// hears is a claim at a sequence of the register, under its floor.
func hears(by string, sequence uint64) step {
	return happens(func(l *loader) { l.Hear(store.Claim{By: by, Floor: l.leader.First, Sequence: sequence}) })
}

func hearsOf(c store.Claim) step { return happens(func(l *loader) { l.Hear(c) }) }

// findsBelow is the reply to a read of a, of which others claim that it was granted
// up to 41.
func findsBelow(next int64, revision uint64, floor int64) step {
	return func(l *loader) error {
		return l.Read(l.epoch, "a", 31, store.Claim{By: "w", Floor: floor, Tag: "a", Next: 41}, next, revision, l.now.Time)
	}
}

// keepsFindingBelow is one such reply after the other, for almost as long as makes them
// proof.
func keepsFindingBelow(l *loader) (err error) {
	for range Suspicion/PollAge - 1 {
		err = errors.Join(findsBelow(31, 102, 1)(l), sleeps(PollAge)(l))
	}
	return errors.Join(err, findsBelow(31, 102, 1)(l))
}

// leaves is proof that another process has left.
func leaves(id string, floor int64) step {
	return happens(func(l *loader) { l.Left(&Proof{ID: id, Floor: floor, Seen: 200, Found: 80}) })
}

// The steps of the register.
var (
	ignores = happens(func(l *loader) { l.leader.Ignored = []string{"w"} })
	unasked = happens(func(l *loader) { l.AskFirst() })
	answers = happens(func(l *loader) { l.Asked(l.Unasked()) })
	back    = happens(func(l *loader) { // to its first state
		first := newLoader(l.T)
		l.leader, l.tags = first.leader, first.tags
	})
	marked     = happens(func(l *loader) { l.leader.Mark = "raised" })
	unmarked   = happens(func(l *loader) { l.leader.Mark = "" })
	madeAgain  = happens(func(l *loader) { l.leader.ID = "another" })
	away       = happens(func(l *loader) { l.leader.Missing, l.leader.ID, l.leader.Last = true, "", 0 })
	there      = happens(func(l *loader) { l.leader.Missing, l.leader.ID, l.leader.Last = false, "made", 102 })
	reconnects = happens(func(l *loader) { l.now.Reconnects++ })
	threefold  = happens(func(l *loader) { l.leader.Replicas = 3 })
	gains      = happens(func(l *loader) { l.leader.Entries++ })
	loses      = happens(func(l *loader) { l.leader.Entries-- })
	lower      = happens(func(l *loader) { l.tags["a"] = 11 })
	higher     = happens(func(l *loader) { l.tags["a"] = 31 })
	lacks      = happens(func(l *loader) { delete(l.tags, "a") })
)

func sleeps(d time.Duration) step {
	return happens(func(l *loader) { l.now.Time = l.now.Time.Add(d) })
}

// moves moves the sequence.
func moves(by int) step { return happens(func(l *loader) { l.leader.Last += uint64(by) }) }

// had has the loader cache a tag that the register lacks.
func had(next int64) step { return happens(func(l *loader) { l.cache["LOST"] = next }) }

// floors sets the lowest first ID of new tags, without a decision.
func floors(first int64) step { return happens(func(l *loader) { l.leader.First = first }) }

// decides raises all tags by a number, and decides.
func decides(by int64) step {
	return happens(func(l *loader) {
		for tag := range l.tags {
			l.tags[tag] = store.Beyond(l.tags[tag], by)
			l.leader.Last++
		}
		l.leader.First, l.leader.Mark = store.Beyond(l.leader.First, by), ""
		l.leader.Decisions = append(slices.Clone(l.leader.Decisions), fmt.Sprint(len(l.leader.Decisions), by, l.now))
	})
}

// TestGuard: what the last step of each history returns, and whether the guard has
// stopped. All histories begin with two grants.
func TestGuard(t *testing.T) {
	const moment = PollAge - time.Nanosecond
	regressed := store.ErrRegressed
	for name, c := range map[string]struct {
		steps   []step
		want    error
		stopped bool
		short   int64
	}{
		"nothing happened": {steps: []step{grants}},

		// Replies to writes.
		"an answer below what was seen":         {[]step{back, grants}, regressed, true, 0},
		"an answer at what was seen":            {[]step{sends, moves(-1), lands}, regressed, true, 0},
		"an answer above what was seen then":    {steps: []step{sends, sends, lands, lands}},
		"a late answer":                         {[]step{sends, sleeps(PollAge), lands}, ErrLate, false, 0},
		"an answer in time":                     {steps: []step{sends, sleeps(moment), lands}},
		"an answer after a reconnect":           {[]step{sends, reconnects, lands}, ErrLate, false, 0},
		"an answer after one below":             {[]step{sends, sends, back, lands, moves(64), lands}, ErrOvertaken, true, 0},
		"an answer from before a pause":         {[]step{sends, marked, polls, lands}, ErrOvertaken, true, 0},
		"an answer from before a comparison":    {[]step{sends, decides(1000), asks, begins, lands}, ErrOvertaken, false, 0},
		"an answer below, of before a decision": {[]step{grants, sends, back, decides(1000), polls, moves(-3), lands}, ErrOvertaken, false, 0},
		"an answer beside one that is unknown":  {steps: []step{sends, doubts, lands}},
		"answers in another order":              {[]step{sends, sends, moves(1), lands, moves(-2), lands, polls}, regressed, true, 0},
		"an answer at what was seen when sent":  {[]step{permits, sends, lands, moves(-1), writes, lands}, regressed, true, 0},
		"an answer of a batch":                  {[]step{permits, batches, moves(-1), lands}, regressed, true, 0},
		"a write after a late answer":           {[]step{sends, sleeps(PollAge), polls, lands, permits}, ErrUnpolled, false, 0},

		// Before a write.
		"a permit":                                     {steps: []step{permits}},
		"an unknown outcome":                           {[]step{doubts, permits}, ErrUnpolled, false, 0},
		"an unknown outcome, and a poll":               {steps: []step{doubts, polls, permits}},
		"an unknown outcome since the poll was sent":   {[]step{asks, doubts, replies, permits}, ErrUnpolled, false, 0},
		"no poll for a while":                          {[]step{sleeps(PollEvery), permits}, ErrUnpolled, false, 0},
		"a reconnect":                                  {[]step{reconnects, permits}, ErrUnpolled, false, 0},
		"a slow poll":                                  {[]step{asks, sleeps(2 * PollEvery), replies, permits}, ErrUnpolled, false, 0},
		"a slow poll, and a write right after it":      {steps: []step{asks, sleeps(2 * PollEvery), replies, permitsAgain, writes, lands}},
		"a poll that is too slow":                      {[]step{asks, sleeps(PollAge / 2), replies, permitsAgain}, ErrUnpolled, false, 0},
		"an unknown outcome since the permit":          {[]step{permits, doubts, writes}, errUnsent, false, 0},
		"a poll that was sent before the latest grant": {steps: []step{asks, sends, lands, moves(-1), replies, moves(1), grants}},
		"a permit after a proof":                       {[]step{moves(-1), polls, permits}, regressed, true, 0},

		// Polls that return less, or something else.
		"back, when the permit has ended":              {[]step{back, sleeps(PollEvery), grants}, regressed, true, 0},
		"back, and further by now":                     {[]step{back, polls, moves(100), polls, grants}, regressed, true, 0},
		"behind":                                       {[]step{moves(-1), polls, moves(100), asks, begins}, regressed, true, 0},
		"behind what a poll returned":                  {[]step{moves(5), polls, moves(-1), polls}, regressed, true, 0},
		"behind a grant since an earlier poll":         {[]step{asks, sends, lands, moves(-1), replies, polls}, regressed, true, 0},
		"behind, and being raised":                     {[]step{moves(-1), polls, marked, polls, unmarked, moves(100), polls}, regressed, true, 0},
		"made again":                                   {[]step{madeAgain, sleeps(PollEvery), grants}, regressed, true, 0},
		"missing":                                      {[]step{away, polls}, regressed, true, 0},
		"missing, and there again":                     {steps: []step{away, polls, there, grants}},
		"an entry is gone":                             {[]step{loses, polls}, regressed, true, 0},
		"an entry of others is gone":                   {[]step{gains, polls, loses, polls}, regressed, true, 0},
		"a lower floor":                                {[]step{floors(9), polls, floors(8), polls}, regressed, true, 0},
		"paused, and an entry is lower than cached":    {[]step{marked, polls, unmarked, lower, grants}, regressed, true, 0},
		"paused, and an entry was lower once":          {[]step{marked, polls, unmarked, lower, polls, higher, polls}, regressed, true, 0},
		"paused, and a cached entry is missing":        {[]step{marked, polls, unmarked, lacks, grants}, regressed, true, 0},
		"paused, and one below the floor is missing":   {[]step{decides(1000), polls, had(500), marked, polls, unmarked, polls}, regressed, true, 0},
		"behind, with replicas":                        {[]step{threefold, moves(-1), polls}, regressed, true, 0},
		"behind, with replicas, for a moment":          {steps: []step{threefold, moves(-1), polls, sleeps(Suspicion - 1), moves(1), grants}},
		"behind, with replicas, for two moments":       {steps: []step{threefold, moves(-1), polls, moves(1), polls, sleeps(Suspicion), moves(-1), polls, moves(1), grants}},
		"behind, with replicas, for long":              {[]step{threefold, moves(-1), polls, sleeps(Suspicion), polls, moves(1), grants}, regressed, true, 0},
		"an entry lower than cached":                   {[]step{looks, finds(21), grants}, regressed, true, 0},
		"an entry lower than cached before a decision": {[]step{looks, decides(1000), polls, finds(21)}, ErrOvertaken, false, 0},
		"an entry that was read before a pause":        {[]step{looks, marked, polls, finds(31)}, ErrOvertaken, true, 0},
		"an entry lower than cached before a pause":    {[]step{looks, marked, polls, finds(21)}, regressed, true, 0},
		"a revision below what was seen":               {[]step{looks, moves(-2), finds(31), polls}, regressed, true, 0},
		"an entry that was deleted by hand":            {[]step{looks, finds(0)}, store.ErrCorrupt, false, 0},
		"an entry lower, with replicas":                {[]step{threefold, polls, looks, finds(21)}, ErrBehind, false, 0},
		"an entry lower, with replicas, for long":      {[]step{threefold, polls, looks, finds(21), sleeps(Suspicion), finds(21)}, regressed, true, 0},
		"an entry lower, with replicas, and a write":   {[]step{threefold, polls, looks, finds(21), permits}, ErrUnpolled, false, 0},
		"an entry lower, with replicas, for a moment":  {[]step{threefold, polls, looks, finds(21), sleeps(Suspicion), finds(31), finds(21)}, ErrBehind, false, 0},
		"an entry lower, a write, and lower later":     {[]step{threefold, polls, looks, finds(21), grants, sleeps(Suspicion), looks, finds(21)}, ErrBehind, false, 0},
		"an entry lower, a decision, and lower again":  {[]step{threefold, polls, looks, finds(21), decides(1000), polls, sleeps(Suspicion), looks, finds(21)}, ErrBehind, false, 0},
		"a revision above all polls":                   {[]step{looks, moves(5), finds(31), moves(-5), grants}, regressed, true, 0},

		// A raise, and its decision.
		"being raised":                                {[]step{marked, sleeps(PollEvery), grants}, regressed, true, 0},
		"back, and being raised":                      {[]step{back, marked, moves(100), sleeps(PollEvery), grants}, regressed, true, 0},
		"the mark is gone, and nothing else happened": {steps: []step{marked, polls, unmarked, grants}},
		"back, and raised":                            {steps: []step{back, polls, decides(1000), polls, grants}},
		"raised by too little":                        {[]step{back, decides(19), polls}, ErrRefused, true, 1},
		"raised by too little, and further by now":    {[]step{back, decides(19), polls, moves(100), polls, grants}, regressed, true, 1},
		"raised by too little, and being raised":      {[]step{back, decides(19), polls, marked, polls}, regressed, true, 0},
		"raised by too little, and started again":     {[]step{grants, grants, back, decides(19), polls, starts}, regressed, true, 0},
		"raised by too little, raised again, behind":  {[]step{back, decides(19), polls, decides(1), polls, moves(-1), polls}, regressed, true, 0},
		"raised by too little, and raised again":      {steps: []step{back, decides(19), polls, marked, polls, decides(1), polls, grants}},
		"a lost tag that was granted the new IDs":     {[]step{had(1002), decides(1000), polls}, ErrRefused, true, 1},
		"a lost tag that was not":                     {steps: []step{had(1001), decides(1000), polls, grants}},
		"a decision, and back to before it":           {[]step{decides(1000), polls, back, moves(1_000_000), polls}, regressed, true, 0},
		"a decision, and back to it":                  {[]step{decides(1000), polls, grants, grants, moves(-1), polls}, regressed, true, 0},
		"the same decision twice":                     {[]step{decides(1000), polls, back, sleeps(time.Hour), decides(1000), polls}, ErrRefused, true, 1},
		"the same decision twice, and further by now": {[]step{decides(1000), polls, back, sleeps(time.Hour), decides(1000), polls, moves(100), polls}, regressed, true, 1},
		"a decision below what was seen":              {steps: []step{gains, polls, grants, grants, grants, back, decides(1000), polls, grants}},
		"a decision, back, and raised further":        {steps: []step{decides(1000), polls, back, decides(2000), polls, grants}},
		"decided at the highest number, twice":        {steps: []step{decides(math.MaxInt64), polls, decides(math.MaxInt64), polls}},
		// Claims of others. The register is at 102.
		"a claim that the record covers":                  {steps: []step{hears("w", 102), grants}},
		"a claim of a write of a moment ago":              {steps: []step{asks, moves(1), hears("w", 103), replies, grants}},
		"a claim since the poll was sent":                 {steps: []step{asks, hears("w", 110), replies}},
		"a claim, and a poll below it":                    {[]step{hears("w", 110), polls}, regressed, true, 0},
		"a claim, and a poll at it":                       {steps: []step{hears("w", 110), moves(8), polls, grants}},
		"a claim that a poll has confirmed":               {[]step{hears("w", 110), moves(8), polls, moves(-8), polls}, regressed, true, 0},
		"a claim that a reply is at":                      {[]step{hears("w", 103), grants}, regressed, true, 0},
		"a claim that a reply is above":                   {steps: []step{hears("w", 103), moves(1), grants}},
		"a claim since the write was sent":                {steps: []step{sends, hears("w", 103), lands}},
		"a claim that writes would lift it over":          {[]step{sends, sends, hears("w", 105), lands, lands, grants, grants}, regressed, true, 0},
		"a claim, and further by now":                     {[]step{hears("w", 110), polls, moves(100), polls, grants}, regressed, true, 0},
		"a claim, and a decision":                         {steps: []step{hears("w", 110), polls, decides(1000), polls, grants}},
		"a claim, and then one that is higher":            {[]step{hears("w", 103), hears("v", 110), moves(5), polls}, regressed, true, 0},
		"a claim, and then one that is lower":             {[]step{hears("w", 110), hears("v", 103), moves(5), polls}, regressed, true, 0},
		"a claim with replicas":                           {[]step{threefold, hears("w", 110), polls}, regressed, true, 0},
		"a claim with replicas, for a moment":             {steps: []step{threefold, hears("w", 110), polls, sleeps(Suspicion - 1), moves(8), polls, grants}},
		"a claim with replicas, for long":                 {[]step{threefold, hears("w", 110), polls, sleeps(Suspicion), polls, moves(8), polls}, regressed, true, 0},
		"a claim of more entries":                         {[]step{hearsOf(store.Claim{By: "l", Floor: 1, Sequence: 102, Entries: 3}), polls}, regressed, true, 0},
		"a claim of as many entries":                      {steps: []step{hearsOf(store.Claim{By: "l", Floor: 1, Sequence: 102, Entries: 2}), grants}},
		"a claim of more entries, and one of a sequence":  {[]step{hearsOf(store.Claim{By: "l", Floor: 1, Sequence: 101, Entries: 3}), hears("w", 103), moves(1), polls}, regressed, true, 0},
		"a claim of a higher floor":                       {[]step{hearsOf(store.Claim{By: "w", Floor: 2}), grants}, regressed, true, 0},
		"a claim of a higher floor, and a permit":         {[]step{permits, hearsOf(store.Claim{By: "w", Floor: 2}), writes}, errUnsent, false, 0},
		"a claim of a decision that was just made":        {steps: []step{hearsOf(store.Claim{By: "w", Floor: 1001}), decides(1000), grants}},
		"a claim above a decision":                        {[]step{hearsOf(store.Claim{By: "w", Floor: 1002}), decides(1000), grants}, regressed, true, 0},
		"a claim of a lower floor":                        {steps: []step{decides(1000), polls, hearsOf(store.Claim{By: "w", Floor: 1, Sequence: math.MaxUint64}), grants}},
		"a claim that is ignored":                         {steps: []step{ignores, polls, hears("w", 110), grants}},
		"a claim that is ignored by now":                  {steps: []step{hearsOf(store.Claim{By: "w", Floor: 5000}), polls, ignores, decides(1000), polls, grants}},
		"a claim while being raised":                      {steps: []step{marked, hears("w", 110), polls, decides(1000), polls, grants}},
		"a claim beside a missing register":               {[]step{hears("w", 110), away, polls}, regressed, true, 0},
		"nothing is claimed":                              {steps: []step{hearsOf(store.Claim{}), grants}},
		"an entry below a claim":                          {[]step{looks, findsBelow(31, 102, 1), grants}, regressed, true, 0},
		"an entry at a claim":                             {steps: []step{looks, findsBelow(41, 102, 1), grants}},
		"an entry below a claim of another floor":         {steps: []step{looks, findsBelow(31, 102, 2), grants}},
		"an entry that never was, below a claim":          {[]step{looks, findsBelow(0, 0, 1), grants}, regressed, true, 0},
		"an entry deleted by hand, below a claim":         {[]step{looks, findsBelow(0, 102, 1)}, store.ErrCorrupt, false, 0},
		"an entry below a claim, with replicas":           {[]step{threefold, polls, looks, findsBelow(31, 102, 1)}, ErrBehind, false, 0},
		"an entry below a claim, before a decision":       {[]step{looks, decides(1000), polls, findsBelow(31, 102, 1)}, ErrOvertaken, false, 0},
		"claims of many entries, with replicas":           {[]step{threefold, polls, looks, findsBelow(31, 102, 1), permits}, nil, false, 0},
		"claims of many entries, with replicas, for long": {[]step{threefold, polls, looks, keepsFindingBelow, sleeps(PollAge), findsBelow(31, 102, 1)}, regressed, true, 0},
		"claims of entries, and a decision":               {[]step{threefold, polls, looks, keepsFindingBelow, decides(1000), polls, looks, sleeps(PollAge), findsBelow(31, 103, 1001)}, ErrBehind, false, 0},
		"claims of entries now and then, with replicas":   {[]step{threefold, polls, looks, findsBelow(31, 102, 1), sleeps(Suspicion), findsBelow(31, 102, 1)}, ErrBehind, false, 0},
		"others were not asked yet":                       {[]step{unasked, grants}, regressed, false, 0},
		"others were asked":                               {steps: []step{unasked, answers, grants}},
		"others were asked before a decision":             {[]step{unasked, answers, decides(1000), polls, grants}, regressed, false, 0},
		"others were asked after a decision":              {steps: []step{unasked, answers, decides(1000), polls, answers, grants}},
		"no answer for a while":                           {steps: []step{unasked, answers, sleeps(PollAge), polls, grants}},
		"no answer for too long":                          {[]step{unasked, answers, sleeps(PollAge + 1), polls, grants}, regressed, false, 0},
		"no answer for too long, and asked again":         {steps: []step{unasked, answers, sleeps(PollAge + 1), polls, answers, grants}},
		"no answer for too long, while others are asked": {[]step{unasked, func(l *loader) error {
			round := l.Unasked()
			err := errors.Join(sleeps(PollAge+1)(l), polls(l))
			l.Asked(round)
			return err
		}, grants}, regressed, false, 0},
		"no answer for too long, and nobody to ask": {steps: []step{sleeps(PollAge + 1), grants}},
		"proof was left":                                   {[]step{leaves("made", 1), grants}, regressed, true, 0},
		"proof was left, and decided since":                {steps: []step{leaves("made", 1), decides(1000), polls, grants}},
		"proof was left of a decision that is found later": {[]step{leaves("made", 1001), decides(1000), polls, grants}, regressed, true, 0},
		"proof was left under another decision":            {steps: []step{decides(1000), polls, leaves("made", 1), grants}},
		"proof was left about another register":            {steps: []step{leaves("another", 1), grants}},

		"a proof during a comparison":          {[]step{marked, polls, unmarked, asks, begins, looks, finds(11), ends}, regressed, true, 0},
		"a proof while a decision is accepted": {[]step{decides(1000), asks, begins, looks, finds(11), ends}, ErrOvertaken, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoader(t)
			decided := l.Begin(l.leader, l.now)
			err := errors.Join(grants(l), grants(l))
			if err != nil || decided {
				t.Fatal(err)
			}
			for _, do := range c.steps {
				err = do(l)
			}
			if !errors.Is(err, c.want) || (l.Stopped() != nil) != c.stopped || c.stopped && l.Stopped().Short != c.short {
				t.Errorf("%v, stopped: %+v; want %v, %v, short of %d", err, l.Stopped(), c.want, c.stopped, c.short)
			}
		})
	}
}

// TestNoProofOfDecisions: the poll that brings a decision may be the first one after
// Suspicion. It leaves no proof of what came before.
func TestNoProofOfDecisions(t *testing.T) {
	l := newLoader(t)
	l.Begin(l.leader, l.now)
	for _, do := range []step{moves(-1), polls, polls, sleeps(Suspicion), decides(1000), asks, begins} {
		_ = do(l) // the first polls contradict what was seen
	}
	left := l.Proof(l.now)
	err := ends(l)
	if l.Left(left); err != nil || l.Stopped() != nil {
		t.Errorf("left %+v: %v, stopped: %v", left, err, l.Stopped())
	}
}

// TestHearsayIsNotNoted: what was only heard never becomes what was seen, and no
// proof is left of it.
func TestHearsayIsNotNoted(t *testing.T) {
	l := newLoader(t)
	l.Begin(l.leader, l.now)
	before := l.Record()
	for _, do := range []step{hears("w", 110), polls, sleeps(Suspicion), polls, polls} {
		_ = do(l) // the polls contradict it
	}
	if got := l.Record(); l.Stopped() == nil || !reflect.DeepEqual(got, before) || l.Proof(l.now) != nil {
		t.Errorf("%+v, %v, stopped: %v", got, l.Proof(l.now), l.Stopped())
	}
	_ = hearsOf(store.Claim{By: "honest", Floor: 1, Sequence: 101, Entries: 9})(l)
	if by := []string{l.heard.last.By, l.heard.most.By}; !slices.Equal(by, []string{"w", "honest"}) {
		t.Errorf("it has heard claims of %v", by)
	}
	if claims := l.Claims(); len(claims) != 2 || claims[0].Sequence != 100 || claims[1].By != "w" || claims[1].Sequence != 110 || !claims[1].Heard {
		t.Errorf("it claims %+v", claims)
	}
}

// TestNews: what is logged is why granting stops, and that it resumes, once each.
func TestNews(t *testing.T) {
	l := newLoader(t)
	l.Begin(l.leader, l.now)
	var err error
	for _, do := range []step{grants, marked, polls, polls, unmarked, polls, polls, moves(-1), polls, polls, marked, polls, decides(1000), polls} {
		_ = do(l) // some polls fail
	}
	var news []string
	for _, wrong := range l.News {
		if news = append(news, "resumed"); wrong != nil {
			news[len(news)-1] = wrong.Error()
		}
	}
	want := []string{
		"the register regressed: bucket r " + BeingRaised, "resumed",
		"the register regressed: bucket r is at sequence 100, was at 101", "resumed",
	}
	if err != nil || !slices.Equal(news, want) {
		t.Errorf("%v, %q, want %q", err, news, want)
	}
}

// TestPolledSince: a caller who waited for the poll of another does without its
// own, unless something has happened since that requires one.
func TestPolledSince(t *testing.T) {
	for name, c := range map[string]struct {
		steps []step
		want  bool
	}{
		"before":                    {[]step{sleeps(-1)}, false},
		"then":                      {nil, false},
		"since":                     {[]step{sleeps(1), polls}, true},
		"an unknown outcome":        {[]step{sleeps(1), polls, doubts}, false},
		"stopped":                   {[]step{sleeps(1), polls, marked, polls}, false},
		"an unknown outcome before": {[]step{doubts, sleeps(1), polls}, true},
	} {
		l := newLoader(t)
		l.Begin(l.leader, l.now)
		came := l.now.Time
		err := polls(l)
		for _, do := range c.steps {
			_ = do(l) // a poll under a mark fails
		}
		if got := l.PolledSince(came); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestBegin: a process starts with what it has seen before, as a witness keeps
// it. A contradiction stops it until a decision; on replicas, only once it has
// lasted.
func TestBegin(t *testing.T) {
	seen := Record{Position: position.Position{ID: "made", Last: 100}, Entries: 2, First: 1000, Decisions: []string{"old"}}
	other := func(floor int64, id string) Record {
		r := seen.Clone()
		r.Proof = &Proof{ID: id, Floor: floor, Seen: 200, Found: 80}
		return r
	}
	noted := other(1000, "made")
	for name, c := range map[string]struct {
		seen    Record
		change  func(p *Poll)
		decided bool
		stopped bool
		proven  bool
	}{
		"nothing happened":          {seen, func(*Poll) {}, false, false, false},
		"back":                      {seen, func(p *Poll) { p.Last-- }, false, true, true},
		"back, or a replica":        {seen, func(p *Poll) { p.Last, p.Replicas = 99, 3 }, false, true, false},
		"back, and being raised":    {seen, func(p *Poll) { p.Last, p.Mark = 1, "raised" }, false, true, false},
		"decided":                   {seen, func(p *Poll) { p.Last, p.First, p.Decisions = 1, 2000, []string{"new"} }, true, false, false},
		"decided at the same":       {seen, func(p *Poll) { p.Decisions = []string{"old", "new"} }, false, true, true},
		"proof was noted":           {noted, func(p *Poll) { p.Last = 300 }, false, true, true},
		"proof, and being raised":   {noted, func(p *Poll) { p.Mark = "raised" }, false, true, false},
		"proof of another decision": {other(999, "made"), func(*Poll) {}, false, false, false},
		"proof of another register": {other(1000, "another"), func(*Poll) {}, false, false, false},
		"proof, and decided since":  {noted, func(p *Poll) { p.Last, p.First, p.Decisions = 1, 2000, []string{"new"} }, true, false, false},
	} {
		p := Poll{Position: seen.Position, Entries: 2, First: 1000, Decisions: []string{"old"}, Replicas: 1}
		c.change(&p)
		g, now := New("r", c.seen.Clone()), Moment{Time: time.Unix(1, 0)}
		if decided := g.Begin(p, now); decided != c.decided || (g.Stopped() != nil) != c.stopped {
			t.Errorf("%s: decided %v, stopped: %v", name, decided, g.Stopped())
		}
		want := c.seen.Clone()
		if want.adopt(p); c.stopped {
			want = c.seen.Clone()
			want.learn(p)
		}
		if got := g.Record(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the record is %+v, want %+v", name, got, want)
		}
		_, err := g.Permit(now, false)
		if regressed := errors.Is(err, store.ErrRegressed); regressed != c.proven || !regressed && !errors.Is(err, ErrUnpolled) {
			t.Errorf("%s: writes before a poll: %v", name, err)
		}
	}
}

// TestRenew: what is written while a decision is accepted needs a permit of the
// register that was compared.
func TestRenew(t *testing.T) {
	raises := happens(func(l *loader) { l.IgnoreMarks() })
	for name, c := range map[string]struct {
		steps []step
		want  error
	}{
		"nothing happened":       {nil, nil},
		"others wrote":           {[]step{moves(5)}, nil},
		"back":                   {[]step{moves(-1)}, ErrChanged},
		"decided again":          {[]step{decides(1000)}, ErrChanged},
		"being raised":           {[]step{marked}, ErrChanged},
		"being raised by itself": {[]step{marked, raises}, nil},
		"an entry is gone":       {[]step{loses}, ErrChanged},
		"missing":                {[]step{away}, ErrChanged},
	} {
		l := newLoader(t)
		l.Begin(l.leader, l.now)
		var err error
		for _, do := range append([]step{decides(1000), asks, begins}, c.steps...) {
			err = errors.Join(err, do(l))
		}
		sent, fresh := l.Stamp(l.now), l.IsFresh(l.found, l.now)
		if err != nil || fresh {
			t.Errorf("%s: the poll of before the comparison is a permit, %v", name, err)
		}
		renewed := l.Renewed(l.found, sent, l.leader)
		fresh = l.IsFresh(l.found, l.now)
		if !errors.Is(renewed, c.want) || fresh != (renewed == nil) {
			t.Errorf("%s: %v, a permit %v; want %v", name, renewed, fresh, c.want)
		}
		_ = sleeps(PollAge)(l) // it has no error
		if fresh = l.IsFresh(l.found, l.now); fresh || !l.found.IsLate(l.now) {
			t.Errorf("%s: later: a permit %v, late %v", name, fresh, l.found.IsLate(l.now))
		}
	}
}

// TestReset: a process that raises all tags takes the register as it is, and its
// own mark does not stop it. No write of before counts.
func TestReset(t *testing.T) {
	l := newLoader(t)
	for _, do := range []step{grants, sends, back, polls} {
		_ = do(l) // the poll proves that it went back
	}
	l.Reset(l.leader)
	l.IgnoreMarks()
	_ = moves(1000)(l) // it has no error
	if err := lands(l); !errors.Is(err, ErrOvertaken) {
		t.Errorf("a write of before: %v", err)
	}
	if err := errors.Join(marked(l), grants(l)); err != nil {
		t.Errorf("under its own mark: %v", err)
	}
	l = newLoader(t)
	for _, do := range []step{decides(1000), polls, sends, back} {
		if err := do(l); err != nil {
			t.Fatal(err)
		}
	}
	l.Reset(l.leader)
	if got := l.Record(); got.Position != l.leader.Position || got.Entries != 2 || got.First != 1 || got.Decisions != nil {
		t.Errorf("the record is %+v", got)
	}
	_ = moves(1000)(l) // it has no error
	if err := lands(l); !errors.Is(err, ErrOvertaken) {
		t.Errorf("a write of before, with a permit: %v", err)
	}
}

// TestLowest: only a tag that was not used before the latest decision, or never,
// begins below the lowest first ID of lost tags.
func TestLowest(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for _, decided := range []time.Time{at, {}} {
		g := New("r", Record{First: 1001, Decided: decided})
		for name, c := range map[string]struct {
			earliest time.Time
			want     int64
		}{
			"unknown": {time.Time{}, 1001},
			"before":  {at.Add(-1), 1001},
			"then":    {at, 1001},
			"after":   {at.Add(1), 1},
			"never":   {store.NeverUsed, 1},
		} {
			if decided.IsZero() && name == "after" { // nothing follows from an unknown time
				c.want = 1001
			}
			if got := g.Lowest(c.earliest); got != c.want {
				t.Errorf("decided at %v, used since %s: %d, want %d", decided, name, got, c.want)
			}
		}
	}
	if got := New("r", Record{}).Lowest(time.Time{}); got != 1 {
		t.Errorf("without a decision: %d", got)
	}
}

// TestFloor: a permit has the lowest first ID of the latest decision, at least 1,
// which names the line of a grant.
func TestFloor(t *testing.T) {
	l := newLoader(t)
	l.leader.First = 0
	for _, want := range []int64{1, 1000} {
		if err := errors.Join(sends(l), lands(l)); err != nil || l.permit.Floor != want {
			t.Errorf("%d, %v, want %d", l.permit.Floor, err, want)
		}
		_, _ = decides(1000)(l), polls(l)
	}
}

// TestPure: the guard does no I/O, and has no goroutine, lock or clock. Of time it
// uses the types alone.
func TestPure(t *testing.T) {
	list := func(args ...string) []string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	const module = "github.com/idworker/idworker/"
	ours := []string{"internal/position", "internal/problem", "store", "store/register/internal/guard"}
	for _, needed := range list("-deps", ".") {
		if path, own := strings.CutPrefix(needed, module); own && !slices.Contains(ours, path) || !own && strings.Contains(needed, ".") {
			t.Errorf("it needs %s", needed)
		}
	}
	for _, imported := range list("-f", `{{join .Imports "\n"}}`, ".") {
		if !strings.HasPrefix(imported, module) && !slices.Contains([]string{"errors", "fmt", "math", "slices", "time"}, imported) {
			t.Errorf("it imports %s", imported)
		}
	}
	for _, name := range list("-f", `{{join .GoFiles "\n"}}`, ".") {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && fmt.Sprint(s.X) == "time" && !slices.Contains([]string{"Time", "Duration", "Second"}, s.Sel.Name) {
				t.Errorf("%s uses time.%s", name, s.Sel.Name)
			}
			return true
		})
	}
}
