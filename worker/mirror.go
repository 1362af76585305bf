package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/store"
)

// mirror copies the tags of the store into the directory. So what a DBA inserts, changes or
// deletes takes effect within one refresh, and a tag whose creation broke off between store
// and directory is completed.
//
// One loader does that at a time, the one that has the turn. It watches the directory, so that
// a refresh reads the store alone. The others only ask for the turn every now and then. Whoever
// cannot read the store for a whole refresh gives the turn up. Should two have it for a moment,
// both write the same: an entry is written only if it is still as it was when the store was listed.
//
// What is removed from the directory without a trace is in no feed: the marker of a deleted tag that is
// tidied up, or all entries when the stream is purged. So each refresh compares how many entries there
// are with how many were read. If they differ, or if an entry was not as it was read, the directory is
// read as a whole again.
type mirror struct {
	store     store.Admin
	directory *Directory
	provision func(ctx context.Context) error // creates the directory again if it is gone
	health    *health                         // of the store, shared with the loader
	listed    func()                          // is called when the store could be listed
	log       *zap.Logger
	absences  *absences       // tags that the store does not list any more
	unusable  map[string]bool // tags that have been reported

	// skip says which tags are none of the mirror's: those that match a template. What came of
	// templates has no place in the directory, and may be a hundred times of what has. A tag that was
	// created by name is in the directory since then, and stays until it is removed by name: that
	// the store does not list it says nothing.
	skip func(tag string) bool

	// While it is this loader's turn.
	feed *kvwatch.Feed // of the directory

	at    kvwatch.Position  // up to which the directory was read
	have  map[string]listed // what it holds there, with the markers of deleted tags
	doubt bool              // an entry was not as in have when it was to be written
	round int               // counts refreshes
}

// listed is what the directory holds for a tag, and since which revision.
type listed struct {
	step     int64 // or deleted, or unusable
	revision uint64
	round    int // the last one in which the store listed it
}

// mirrorTurn is the name of the consumer behind the turn, see [kvwatch.TakeTurn].
const mirrorTurn = "mirror"

const (
	// mirrorRetry is the pause after the first of some refreshes that failed. It doubles up to
	// mirrorSlowRetry.
	mirrorRetry     = 500 * time.Millisecond
	mirrorSlowRetry = 5 * time.Second

	// turnPause is how often the turn is asked for.
	turnPause = 10 * time.Second

	// feedLag is how long to wait for entries that the directory has and the feed has not delivered yet.
	feedLag = 250 * time.Millisecond
)

// run refreshes until ctx ends. Failures in a row are logged once; those of the store are
// logged by its health.
func (m *mirror) run(ctx context.Context, every time.Duration) {
	defer m.releaseTurn()
	var retry time.Duration // of failures in a row
	var failing time.Time   // since when
	for ctx.Err() == nil {
		m.health.awaitListing(ctx)
		unsure, err := m.refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, kvwatch.ErrTaken):
			m.absences.forget() // whoever has the turn counts again
			m.probe(ctx)
			pause.For(ctx, min(every, turnPause))
			continue
		case err != nil && retry == 0 && !errors.Is(err, errStoreAway):
			m.log.Warn("tags are not mirrored", zap.Error(err))
		case err == nil && retry > 0:
			m.log.Info("tags are mirrored again")
		}
		switch {
		case err == nil && unsure:
			retry = 0
			m.watch(ctx, confirmPause(every))
		case err == nil:
			retry = 0
			m.watch(ctx, every)
		case retry == 0:
			failing, retry = time.Now(), min(every, mirrorRetry)
			pause.For(ctx, retry)
		case time.Since(failing) > every:
			m.releaseTurn() // others may do better
			failing = time.Now()
			pause.For(ctx, min(every, turnPause))
		default:
			retry = min(2*retry, every, mirrorSlowRetry)
			pause.For(ctx, retry)
		}
	}
}

// probe lists a store that failed, although it is another loader's turn: without a load nothing
// else would find out that it is back.
func (m *mirror) probe(ctx context.Context) {
	if m.health.isUp() {
		return
	}
	began := time.Now()
	_, err := m.store.Tags(ctx)
	m.record(ctx, began, err)
}

// record records what a listing tells of the store, and reports whether it tells of the tags. One
// that broke off because ctx ended tells nothing.
func (m *mirror) record(ctx context.Context, began time.Time, err error) (listed bool) {
	switch {
	case err == nil || errors.Is(err, store.ErrCorrupt):
		m.listed()
		return true
	case ctx.Err() == nil:
		m.health.recordFailure(listing, began, err)
	}
	return false
}

// errStoreAway is wrapped by errors that the health has recorded.
var errStoreAway = errors.New("list the store")

// listing takes the place of a tag in the log.
const listing = "(all)"

// refresh brings the directory in line with the store, if it is this loader's turn. The directory is
// read first: a tag is written to the store before the directory, so one that is in the directory and
// not in the store was not just created. Whether it was deleted is for absences to say. If unsure, the
// next refresh is due soon. The error is kvwatch.ErrTaken if it is another loader's turn.
func (m *mirror) refresh(ctx context.Context) (unsure bool, err error) {
	if err := m.readDirectory(ctx); err != nil {
		return false, fmt.Errorf("read the directory: %w", err)
	}
	began := time.Now()
	tags, unreadable := m.store.Tags(ctx)
	if !m.record(ctx, began, unreadable) {
		return false, fmt.Errorf("%w: %w", errStoreAway, unreadable)
	}
	m.round++
	if err := m.update(ctx, tags); err != nil {
		return false, err
	}
	return m.remove(ctx, unreadable)
}

// readDirectory makes sure that it is this loader's turn, and that have is what the directory holds.
func (m *mirror) readDirectory(ctx context.Context) error {
	if err := m.readChanges(ctx); err != nil {
		return err
	}
	if right, err := m.compareCount(ctx); right || err != nil {
		return err
	}
	m.log.Info("the tag directory is not as it was read, reading all of it")
	m.releaseFeed()
	m.forgetDirectory()
	return m.readChanges(ctx)
}

// readChanges reads what has changed in the directory, or all of it if nothing was read before.
func (m *mirror) readChanges(ctx context.Context) error {
	if m.feed == nil {
		if err := m.takeTurn(ctx); err != nil {
			return err
		}
	}
	err := m.readWaiting()
	for err == nil && !m.feed.CaughtUp() {
		err = m.readNext(ctx)
	}
	if err != nil {
		m.endTurn()
	}
	return err
}

// compareCount reports whether the directory has as many entries as were read, and none of them is in
// doubt. Deleted tags count until their markers are gone.
func (m *mirror) compareCount(ctx context.Context) (right bool, err error) {
	info, err := m.directory.stream.Info(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		m.endTurn() // the next one creates it again
	}
	if err != nil || m.doubt {
		return false, err
	}
	short, cancel := context.WithTimeout(ctx, feedLag)
	defer cancel()
	for uint64(len(m.have)) < info.State.NumSubjects { // tags may just have been created
		switch err := m.readNext(short); {
		case short.Err() != nil:
			return false, ctx.Err()
		case err != nil:
			m.endTurn()
			return false, err
		}
	}
	return uint64(len(m.have)) == info.State.NumSubjects, nil
}

// forgetDirectory has the next feed read the directory as a whole.
func (m *mirror) forgetDirectory() {
	m.at, m.have, m.doubt = kvwatch.Position{}, nil, false
}

// takeTurn opens the feed of the directory, from where it was read to if it is still the same. If it is
// gone, it is created again.
func (m *mirror) takeTurn(ctx context.Context) (err error) {
	open := func() error {
		m.feed, err = kvwatch.TakeTurn(ctx, m.directory.js, m.directory.kv.Bucket(), mirrorTurn, m.at)
		return err
	}
	err = open()
	if errors.Is(err, nats.ErrStreamNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = m.provision(ctx); err == nil {
			err = open()
		}
	}
	if errors.Is(err, kvwatch.ErrOther) {
		m.forgetDirectory()
		err = open()
	}
	if err != nil {
		m.feed = nil
		return err
	}
	if m.have == nil {
		m.have = make(map[string]listed)
	}
	return nil
}

// endTurn ends a feed that has ended by itself. The turn passes by itself, too.
func (m *mirror) endTurn() {
	m.feed.Close()
	m.feed = nil
}

// releaseTurn gives the turn to others, if it is this loader's.
func (m *mirror) releaseTurn() {
	if m.feed != nil {
		m.releaseFeed()
	}
}

// releaseFeed ends the feed, and with it the turn.
func (m *mirror) releaseFeed() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	_ = m.feed.Release(ctx) // or it passes a moment later
	m.feed = nil
}

// watch reads what changes in the directory for a while. If that cannot be read any more, it returns
// early.
func (m *mirror) watch(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for ctx.Err() == nil {
		if err := m.readNext(ctx); err != nil && ctx.Err() == nil {
			m.endTurn()
			return
		}
	}
}

func (m *mirror) readNext(ctx context.Context) error {
	entry, err := m.feed.Next(ctx)
	if err == nil {
		m.see(entry)
	}
	return err
}

func (m *mirror) readWaiting() error {
	for {
		entry, ok, err := m.feed.NextWaiting()
		if !ok || err != nil {
			return err
		}
		m.see(entry)
	}
}

func (m *mirror) see(entry kvwatch.Entry) {
	m.have[strings.Clone(entry.Key)] = listed{step: m.directory.decode(entry), revision: entry.Revision}
	m.at = entry.Position
}

// update writes to the directory what differs. A tag that cannot be served stays as it was.
func (m *mirror) update(ctx context.Context, tags []store.Tag) error {
	w := m.directory.newWriter(ctx)
	for _, tag := range tags {
		if m.skip(tag.Name) {
			continue
		}
		entry := m.have[tag.Name]
		if entry.revision > 0 {
			entry.round = m.round
			m.have[tag.Name] = entry
		}
		if err := CheckTag(tag); err != nil {
			m.reportUnusable(tag.Name, err)
			continue
		}
		delete(m.unusable, tag.Name)
		if entry.step != tag.Step {
			w.put(tag.Name, tag.Step, entry.revision)
		}
	}
	return m.awaitWrites(w)
}

// awaitWrites waits for what is written.
func (m *mirror) awaitWrites(w *directoryWriter) error {
	err := w.wait()
	m.doubt = m.doubt || w.mismatched.Load()
	return err
}

// remove removes from the directory what the store did not list in this round, as far as it is
// believed that it was deleted. What is there but cannot be read was not.
func (m *mirror) remove(ctx context.Context, unreadable error) (unsure bool, err error) {
	entries, all := store.Unreadable(unreadable)
	for _, entry := range entries {
		m.reportUnusable(entry.Tag, entry)
		if has, ok := m.have[entry.Tag]; ok {
			has.round = m.round
			m.have[entry.Tag] = has
		}
	}
	if !all { // the entry without a name may be any of them
		m.reportUnusable("", unreadable)
		return false, nil
	}
	missing, count := m.missing()
	gone, unsure := m.absences.confirm(time.Now(), missing, count)
	w := m.directory.newWriter(ctx)
	for _, name := range gone {
		w.remove(name, m.have[name].revision)
	}
	return unsure, m.awaitWrites(w)
}

// missing returns the tags of the directory that the store did not list in this round, and how many
// tags there are in all.
func (m *mirror) missing() (missing []string, all int) {
	for name, entry := range m.have {
		if entry.step == deleted || entry.step == unusable || m.skip(name) {
			continue
		}
		if all++; entry.round != m.round {
			missing = append(missing, name)
		}
	}
	return missing, all
}

// reportUnusable logs a tag that cannot be served or read, once.
func (m *mirror) reportUnusable(tag string, err error) {
	if !m.unusable[tag] {
		m.unusable[tag] = true
		m.log.Warn("tag in the store cannot be served, left as it was", zap.String("tag", tag), zap.Error(err))
	}
}
