package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
)

// tagsOnly is a store that can only list tags.
type tagsOnly struct {
	store.Store
	list func(context.Context) ([]store.Tag, error)
}

func (s *tagsOnly) Tags(ctx context.Context) ([]store.Tag, error) { return s.list(ctx) }

// mirrored is a mirror whose refreshes the test calls, and its directory.
type mirrored struct {
	*mirror
	t     *testing.T
	store *tagsOnly
	logs  *observer.ObservedLogs
}

// startMirrored mirrors some tags once.
func startMirrored(t *testing.T, tags ...string) *mirrored {
	t.Helper()
	js := natstest.JetStream(t, NewAccount(t).Connect(t))
	provision := func(ctx context.Context) error { return Provision(ctx, js, messages.DefaultPrefix, 1) }
	if err := provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	directory, err := OpenDirectory(t.Context(), js, messages.DefaultPrefix, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	log, s := zap.New(core), &tagsOnly{}
	m := &mirrored{t: t, store: s, logs: logs, mirror: &mirror{
		skip:  func(string) bool { return false },
		store: s, directory: directory, provision: provision, health: newHealth(log, "test"), listed: func() {},
		log: log, absences: newAbsences("store", time.Minute, log), unusable: make(map[string]bool),
	}}
	t.Cleanup(m.releaseTurn)
	m.list(tags...)
	m.mustRefresh()
	return m
}

// list decides what the store lists.
func (m *mirrored) list(tags ...string) {
	m.store.list = func(context.Context) (list []store.Tag, _ error) {
		for _, tag := range tags {
			list = append(list, store.Tag{Name: tag, Step: 10, Next: 1})
		}
		return list, nil
	}
}

func (m *mirrored) mustRefresh() {
	m.t.Helper()
	if _, err := m.refresh(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// readAll reads up to the latest entry of the directory.
func (m *mirrored) readAll() {
	m.t.Helper()
	info, err := m.directory.stream.Info(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	for m.at.Revision < info.State.LastSeq {
		if err := m.readNext(m.t.Context()); err != nil {
			m.t.Fatal(err)
		}
	}
}

// removeWithoutTrace deletes a tag from the directory and tidies up its marker.
func (m *mirrored) removeWithoutTrace(tag string) {
	m.t.Helper()
	if err := m.directory.Remove(m.t.Context(), tag); err != nil {
		m.t.Fatal(err)
	}
	m.purgeMarkers()
}

func (m *mirrored) purgeMarkers() {
	m.t.Helper()
	if err := m.directory.kv.PurgeDeletes(m.t.Context(), jetstream.DeleteMarkersOlderThan(-1)); err != nil {
		m.t.Fatal(err)
	}
}

// expect says what the directory holds.
func (m *mirrored) expect(tags ...string) {
	m.t.Helper()
	keys, err := m.directory.kv.Keys(m.t.Context())
	if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
		m.t.Fatal(err)
	}
	got := make(map[string]bool)
	for _, key := range keys {
		got[key] = true
	}
	for _, tag := range tags {
		if !got[tag] {
			m.t.Errorf("%s is in the store and not in the directory: %v", tag, keys)
		}
	}
	if len(keys) != len(tags) {
		m.t.Errorf("the directory has %v, want %v", keys, tags)
	}
}

// TestTagComesBackWithoutItsMarker: a tag that was deleted is inserted again after its marker was
// tidied up, of which no feed tells.
func TestTagComesBackWithoutItsMarker(t *testing.T) {
	t.Parallel()
	m := startMirrored(t, "order", "invoice")
	m.list("invoice")
	if err := m.directory.Remove(t.Context(), "order"); err != nil {
		t.Fatal(err)
	}
	m.readAll()
	m.purgeMarkers()
	m.list("order", "invoice")
	m.mustRefresh()
	m.expect("order", "invoice")
}

// TestTurnComesBackToAnotherDirectory: while another loader had the turn, a tag was removed from the
// directory without a trace.
func TestTurnComesBackToAnotherDirectory(t *testing.T) {
	t.Parallel()
	for what, now := range map[string][]string{
		"the store has it":     {"invoice", "parcel", "order"},
		"the store has it not": {"invoice", "parcel"},
	} {
		t.Run(what, func(t *testing.T) {
			m := startMirrored(t, "order", "invoice")
			m.list("order", "invoice", "parcel")
			m.mustRefresh() // so that the entry up to which was read is not the removed one
			m.readAll()
			m.releaseTurn()
			m.removeWithoutTrace("order")
			m.list(now...)
			m.mustRefresh()
			m.expect(now...)
			if n := len(m.absences.missing); n > 0 {
				t.Errorf("%d tags are thought to be missing from the store, want none", n)
			}
		})
	}
}

// TestPurgedDirectoryIsFilledAgain by the next refresh, although no feed tells of a purge.
func TestPurgedDirectoryIsFilledAgain(t *testing.T) {
	t.Parallel()
	m := startMirrored(t, "order", "invoice")
	m.mustRefresh()
	if err := m.directory.stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.mustRefresh()
	m.expect("order", "invoice")
}

// TestEntryThatWasReadWrongly is found out when it is to be written, even if there are as many entries
// as were read.
func TestEntryThatWasReadWrongly(t *testing.T) {
	t.Parallel()
	m := startMirrored(t, "order", "invoice")
	m.mustRefresh()
	m.have["order"] = listed{step: deleted, revision: 1000}
	m.mustRefresh()
	m.mustRefresh()
	if got := m.have["order"].step; got != 10 {
		t.Errorf("the mirror takes the step for %d, want 10", got)
	}
}

// TestChangesInTheFeedAreEnough: the directory is not read as a whole again when tags come, change and go.
func TestChangesInTheFeedAreEnough(t *testing.T) {
	t.Parallel()
	m := startMirrored(t, "order", "invoice")
	for _, change := range []func() error{
		func() error { return m.directory.Put(t.Context(), "invoice", 20) },
		func() error { return m.directory.Put(t.Context(), "new", 10) },
		func() error { return m.directory.Remove(t.Context(), "new") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		m.readAll()
		m.mustRefresh()
		m.readAll()
	}
	for _, line := range m.logs.All() {
		t.Errorf("logged %v", line)
	}
}

// TestStopWhileListing: a listing that is broken off because the process stops is no failure of the
// store, however long it has taken.
func TestStopWhileListing(t *testing.T) {
	t.Parallel()
	m := startMirrored(t, "order")
	ctx, stop := context.WithCancel(t.Context())
	m.store.list = func(ctx context.Context) ([]store.Tag, error) {
		time.AfterFunc(longFailure, stop)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if _, err := m.refresh(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the stop broke it off", err)
	}
	for _, line := range m.logs.All() {
		t.Errorf("logged %v", line)
	}
}

// TestEmptyListingIsNotBelieved: tags stay in the directory while the store lists none, one
// listing after the other; an error says so, once.
func TestEmptyListingIsNotBelieved(t *testing.T) {
	t.Parallel()
	m := startMirrored(t, "order", "invoice", "parcel")
	m.list()
	for range 2 * heldListings {
		m.mustRefresh()
	}
	m.expect("order", "invoice", "parcel")
	if held, episodes := m.absences.held.Load(), m.absences.episodes.Load(); held != 3 || episodes != 1 {
		t.Errorf("%d tags are held, in %d episodes", held, episodes)
	}
	m.list("order", "invoice", "parcel")
	m.mustRefresh()
	m.expect("order", "invoice", "parcel")
	if held := m.absences.held.Load(); held != 0 {
		t.Errorf("%d tags are held that are back", held)
	}
	expectLines(t, m.logs, lineMissing, lineNoneHeld)
}

// TestUnreadableRowKeepsItsTag, once logged, while changes to other tags go through and write
// nothing else.
func TestUnreadableRowKeepsItsTag(t *testing.T) {
	t.Parallel()
	m := startMirrored(t, "order", "invoice")
	revision := func(tag string) uint64 {
		t.Helper()
		entry, err := m.directory.kv.Get(t.Context(), tag)
		if err != nil {
			t.Fatalf("%s in the directory: %v", tag, err)
		}
		return entry.Revision()
	}
	order, invoice := revision("order"), revision("invoice")
	unreadable := fmt.Errorf("table t: %w", errors.Join(&store.EntryError{Tag: "order", Err: fmt.Errorf("tag order: %w: max_id is NULL", store.ErrCorrupt)}))
	m.store.list = func(context.Context) ([]store.Tag, error) {
		return []store.Tag{{Name: "invoice", Step: 10, Next: 1}, {Name: "new", Step: 10, Next: 1}}, unreadable
	}
	for range 4 {
		m.mustRefresh()
		m.readAll()
	}
	if revision("order") != order || revision("invoice") != invoice {
		t.Error("a tag that had not changed was written again")
	}
	m.expect("order", "invoice", "new")

	// A row whose name is not known may be any tag.
	m.store.list = func(context.Context) ([]store.Tag, error) {
		return []store.Tag{{Name: "invoice", Step: 10, Next: 1}}, fmt.Errorf("%w: biz_tag is NULL", store.ErrCorrupt)
	}
	for range 4 {
		m.mustRefresh()
	}
	m.expect("order", "invoice", "new")
	lines := m.logs.FilterMessageSnippet("tag in the store cannot be served").Len()
	if lines != 2 || m.logs.Len() != lines {
		t.Errorf("%d lines for two rows: %v", lines, m.logs.All())
	}
}

// TestMirrorCompletesAndRemoves: what is in the store without the directory is added, what is
// only in the directory is removed, a changed step is copied, and what is right is not touched.
func TestMirrorCompletesAndRemoves(t *testing.T) {
	t.Parallel()
	m := startMirrored(t, "order", "invoice", "parcel")
	m.absences.every = 0 // two listings are enough
	if err := m.directory.Put(t.Context(), "ghost", 5); err != nil {
		t.Fatal(err)
	}
	if err := m.directory.Put(t.Context(), "invoice", 77); err != nil {
		t.Fatal(err)
	}
	before, err := m.directory.kv.Get(t.Context(), "order")
	if err != nil {
		t.Fatal(err)
	}
	m.list("order", "invoice", "parcel", "half")
	for range 3 {
		m.readAll()
		m.mustRefresh()
	}
	m.expect("order", "invoice", "parcel", "half")
	if after, err := m.directory.kv.Get(t.Context(), "order"); err != nil || after.Revision() != before.Revision() {
		t.Errorf("a tag that was right was written: %v, %v", after, err)
	}
	if steps, err := m.directory.Steps(t.Context()); err != nil || steps["invoice"] != 10 {
		t.Errorf("steps %v, %v; want the store's", steps, err)
	}
}
