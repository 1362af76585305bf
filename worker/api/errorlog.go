package api

import (
	"bytes"
	"log"

	"go.uber.org/zap"
)

// errorLog is where net/http writes. Most of it is what clients did wrong, which whoever likes could have
// written without end. A panic is ours, and if no connection can be accepted, somebody has to know.
type errorLog struct{ log *zap.Logger }

func newErrorLog(to *zap.Logger) *log.Logger {
	return log.New(errorLog{to.Named("api")}, "", 0)
}

// Write is part of io.Writer.
func (e errorLog) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	if bytes.Contains(line, []byte("panic serving")) || bytes.Contains(line, []byte("Accept error")) {
		e.log.Error(text)
	} else {
		e.log.Debug(text)
	}
	return len(line), nil
}
