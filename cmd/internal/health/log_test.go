package health

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestLog: a process logs its problems when others are found, in one line with
// the worst, and that there are none any more.
func TestLog(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zapcore.InfoLevel)
	log, r := Log{To: zap.New(core)}, working()
	write := func(degraded string, below int64) {
		r.Degraded, r.Stats.Grants.Below = degraded, below
		log.Write(Own(now, r, 0))
	}
	write("", 0)
	write("no loader answers for 3 s", 0)
	write("no loader answers for 63 s", 0)
	write("no loader answers", 1)
	write("", 0)
	var got []string
	for _, line := range logged.All() {
		worst, _ := line.ContextMap()["worst"].(string)
		got = append(got, strings.TrimSpace(line.Level.String()+" "+line.Message+" "+worst))
	}
	want := "warn problems found no loader answers for 3 s|warn problems found no loader answers|info no more problems"
	if strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
