package loader

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/store"
)

// TestBreaker: three failures in a row are an outage, whose beginning and end
// are logged. Hanging calls are an outage if nothing has worked for a while. A
// call that began before the latest change does not count.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		b := newBreaker(zap.New(core), "store")
		fail := func(n int, hung bool) {
			for range n {
				b.recordFailure("order", time.Now(), hung, errAway)
			}
		}
		expect := func(want ...string) {
			t.Helper()
			var got []string
			for _, line := range logs.TakeAll() {
				got = append(got, line.Message)
			}
			if !slices.Equal(got, want) {
				t.Errorf("logged %q, want %q", got, want)
			}
		}
		for range 10 { // occasional failures are no outage
			fail(2, false)
			fail(100, true)
			time.Sleep(time.Second)
			b.recordAnswer(time.Now())
		}
		expect()
		before := time.Now()
		time.Sleep(time.Millisecond)
		fail(1000, false)
		expect("store fails")
		if b.recordAnswer(before); !b.outage.Now {
			t.Error("an answer to a call from before the outage closes it")
		}
		fail(10, true)
		if b.recordLookup(time.Now()); !b.outage.Now {
			t.Error("a look-up closes it while writes fail")
		}
		if b.recordAnswer(time.Now()); b.outage.Now {
			t.Error("an answer does not close it")
		}
		expect("store works again")
		for range failuresOfOutage {
			b.recordFailure("order", before, false, errAway)
		}
		fail(1000, true)
		expect()
		time.Sleep(hangTime)
		fail(failuresOfOutage, true)
		expect("store fails")
		time.Sleep(hangTime)
		if b.recordLookup(time.Now()); b.outage.Now {
			t.Error("a look-up when no write fails any more does not close it")
		}
		expect("store works again")
	})
}

// TestAStoppedStoreIsNoOutage: while a store grants nothing because its register
// regressed or is being raised, it is only probed, so that other loaders serve the
// loads. But nobody is told that the store fails, unless it fails as well.
func TestAStoppedStoreIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		b := newBreaker(zap.New(core), "store")
		fail := func(err error) {
			for range failuresOfOutage {
				b.recordFailure("order", time.Now(), false, err)
			}
		}
		fail(&store.RegressionError{Bucket: "b", Reason: "is being raised"})
		if !b.open || !strings.Contains(b.reason, "is being raised") || b.outage != (Outage{}) || logs.Len() > 0 {
			t.Errorf("stopped: open %v because of %q, outage %+v, %d lines", b.open, b.reason, b.outage, logs.Len())
		}
		time.Sleep(time.Second)
		if b.recordAnswer(time.Now()); b.open || logs.Len() > 0 {
			t.Errorf("grants again: open %v, %d lines", b.open, logs.Len())
		}
		time.Sleep(time.Second)
		fail(&store.RegressionError{Bucket: "b"})
		fail(errAway)
		if !b.open || !b.outage.Now || b.outage.Error != errAway.Error() || logs.Len() != 1 {
			t.Errorf("stopped and away: %+v, %d lines", b.outage, logs.Len())
		}
	})
}
