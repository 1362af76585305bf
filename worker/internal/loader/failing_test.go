package loader

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/store"
)

// TestEndings: a tag that crosses into its last tenth, and one that is
// exhausted, are logged once and reported, until they have numbers again.
func TestEndings(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	e := newEndings(zap.New(core))
	const limit = 1000
	expect := func(want string, exhausted, soon int) {
		t.Helper()
		var got []string
		for _, line := range logs.TakeAll() {
			got = append(got, line.Message)
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("logged %q, want %q", text, want)
		}
		if r := e.report(limit); r.Exhausted != exhausted || r.Soon != soon || len(r.ExhaustedTags) != exhausted || len(r.SoonTags) != soon {
			t.Errorf("%+v, want %d exhausted and %d soon", r, exhausted, soon)
		}
	}
	e.granted("order", limit*9/10, limit)
	expect("", 0, 0)
	e.granted("order", limit*9/10+1, limit)
	e.granted("order", limit, limit)
	expect("tag will soon be exhausted", 0, 1)
	for range 3 {
		e.refused("order", limit, store.ErrExhausted)
		e.refused("other", limit, store.ErrExhausted)
	}
	expect("tag is exhausted; tag is exhausted", 2, 0)
	e.granted("other", limit/2, limit)
	expect("tag is no longer exhausted", 1, 0)
	other := newEndings(zap.NewNop())
	other.tags["removed"] = ending{true, limit, time.Now().Add(-endingLasts - time.Second)}
	if r := other.report(limit); r.Exhausted > 0 {
		t.Errorf("%+v long after the latest load", r)
	}
	if r := e.report(math.MaxInt64); r.Exhausted+r.Soon > 0 {
		t.Errorf("%+v after the limit has risen", r)
	}
	expect("tag is no longer exhausted", 0, 0)
}

// TestFailures: a tag is listed and logged after its third failed load, or at
// once if it was refused, until a load succeeds or none has come for a while.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		f := newFailures(zap.New(core))
		expect := func(tags, logged string) {
			t.Helper()
			var names, lines []string
			for _, tag := range f.report().Named {
				names = append(names, tag.Tag)
			}
			for _, line := range logs.TakeAll() {
				lines = append(lines, line.Message)
			}
			if got := strings.Join(names, " "); got != tags || strings.Join(lines, "; ") != logged {
				t.Errorf("listed %q, logged %q; want %q, %q", got, lines, tags, logged)
			}
		}
		f.failed("locked", false, errors.New("row is locked"))
		f.failed("locked", false, errors.New("row is locked"))
		expect("", "")
		f.failed("locked", false, errors.New("row is locked"))
		f.failed("missing", true, errors.New("no row"))
		f.failed("missing", true, errors.New("no row"))
		expect("locked missing", "cannot grant tag; cannot grant tag")
		f.granted("locked")
		f.granted("other")
		expect("missing", "tag is granted again")
		time.Sleep(failureLasts + time.Second)
		expect("", "")
	})
}
