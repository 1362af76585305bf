package health

import (
	"fmt"
	"slices"

	"go.uber.org/zap"
)

// Log writes the problems of a process to its log, in one line. It is not safe
// for concurrent use.
type Log struct {
	To *zap.Logger

	shown []string // the severity and subject of each problem
}

// Write logs the problems, the worst first, if they are others than the last
// time.
func (l *Log) Write(all []Diagnosis) {
	var now []string
	for _, d := range all {
		now = append(now, fmt.Sprintf("%s %s", d.Severity, d.What))
	}
	changed := !slices.Equal(now, l.shown)
	l.shown = now
	switch {
	case !changed:
	case len(all) == 0:
		l.To.Info("no more problems")
	default:
		l.To.Warn("problems found", zap.Int("problems", len(all)),
			zap.String("severity", string(all[0].Severity)), zap.Stringer("worst", all[0]))
	}
}
