package main

import (
	"testing"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/messages/enrich"
)

// TestEnrichedFields: the last line of the log is for people, who do not read nanoseconds.
func TestEnrichedFields(t *testing.T) {
	fields := zapcore.NewMapObjectEncoder()
	for _, f := range enrichedFields(enrich.Figures{Events: 7, Oldest: 6002216194 * time.Nanosecond}) {
		f.AddTo(fields)
	}
	if fields.Fields["oldest"] != "6.0s" || fields.Fields["events"] != int64(7) {
		t.Errorf("%v", fields.Fields)
	}
}
