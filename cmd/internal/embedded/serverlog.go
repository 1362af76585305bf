package embedded

import (
	"fmt"

	"go.uber.org/zap"
)

// serverLog passes on what the server logs; its notices are details here. The first
// fatal error goes to fatal instead: the server's own logger would end the process.
type serverLog struct {
	log   *zap.SugaredLogger
	fatal chan string
}

func newServerLog(log *zap.Logger) *serverLog {
	return &serverLog{log: log.Named("nats").Sugar(), fatal: make(chan string, 1)}
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debugf(format, v...) }
func (l *serverLog) Debugf(format string, v ...any)  { l.log.Debugf(format, v...) }
func (l *serverLog) Tracef(format string, v ...any)  { l.log.Debugf(format, v...) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log.Warnf(format, v...) }
func (l *serverLog) Errorf(format string, v ...any)  { l.log.Errorf(format, v...) }

func (l *serverLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default: // the first one is the cause
	}
}
