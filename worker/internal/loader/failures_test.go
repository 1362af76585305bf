package loader

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

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
