package worker

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestHealth: three failures in a row are an outage, which is logged when it begins and when it
// ends; and a call that began before the store worked again is not the next one.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		h := newHealth(zap.New(core), "store")
		away := errors.New("away")
		fail := func(n int, began time.Time) {
			for range n {
				h.recordFailure("order", began, away)
			}
		}

		straggler := time.Now()
		time.Sleep(time.Second)
		for range 10 { // now and then is no outage
			fail(2, time.Now())
			time.Sleep(time.Second)
			h.recordSuccess()
		}
		expectLines(t, logs)
		fail(1000, time.Now())
		time.Sleep(time.Second)
		h.recordSuccess()
		fail(1000, straggler)
		h.recordSuccess()
		expectLines(t, logs, "store fails", "store works again")

		time.Sleep(time.Second)
		fail(3, time.Now())
		expectLines(t, logs, "store fails", "store works again", "store fails")
	})
}

func expectLines(t *testing.T, logs *observer.ObservedLogs, want ...string) {
	t.Helper()
	var got []string
	for _, line := range logs.All() {
		got = append(got, line.Message)
	}
	if !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}
