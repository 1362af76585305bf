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

// One line per outage and one for its end, also when a call that began in the outage
// fails after another one has worked.
func TestOutageLogsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		o := newOutage(zap.New(core), "store")
		away := errors.New("away")

		straggler := time.Now()
		time.Sleep(time.Second)
		o.recordFailure("order", straggler, away)
		o.recordFailure("order", straggler, away)
		time.Sleep(time.Second)
		o.recordSuccess("order")
		o.recordFailure("user", straggler, away)
		o.recordSuccess("order")
		expectLines(t, logs, "store fails", "store works again")

		time.Sleep(time.Second)
		o.recordFailure("user", time.Now(), away)
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
