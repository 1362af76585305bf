package loader

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
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
