package api

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestWhatIsLoud: faults that clients can cause at will are not logged by
// default; the server's own faults are.
func TestWhatIsLoud(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	log := newErrorLog(zap.New(core))
	log.Print("http: TLS handshake error from 127.0.0.1:1: EOF")
	log.Print("http: Accept error: accept tcp 127.0.0.1:8080: accept4: too many open files; retrying in 5ms")
	log.Print("http: panic serving 127.0.0.1:1: oops\ngoroutine 1 [running]:")
	if lines := logs.TakeAll(); len(lines) != 2 || lines[0].Level != zap.ErrorLevel || lines[1].Level != zap.ErrorLevel {
		t.Errorf("logged %v", lines)
	}
}
